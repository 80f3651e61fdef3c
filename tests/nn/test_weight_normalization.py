"""Weight norm, spectral norm, parametrizations: values, state dicts, training against PyTorch."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)


def hooked(library: Any, module: Any, **options: Any) -> Any:
    """The deprecated weight norm, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return library.nn.utils.weight_norm(module, **options)


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "weight norm": (lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3)), (5, 4)),
    "weight norm of columns": (
        lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), dim=1), (5, 4),
    ),
    "one weight norm": (
        lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), dim=None), (5, 4),
    ),
    "weight norm of a convolution": (
        lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Conv2d(2, 3, 3)), (2, 2, 5, 5),
    ),
    "weight norm of a bias": (
        lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), "bias"), (5, 4),
    ),
    "hooked weight norm": (lambda t: hooked(t, t.nn.Linear(4, 3)), (5, 4)),
    "hooked weight norm of a convolution": (
        lambda t: hooked(t, t.nn.ConvTranspose1d(4, 3, 2), dim=1), (2, 4, 5),
    ),
    "one hooked weight norm": (lambda t: hooked(t, t.nn.Linear(4, 3), dim=None), (5, 4)),
    "spectral norm": (
        lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3)), (5, 4),
    ),
    "spectral norm of a transposed convolution": (
        lambda t: t.nn.utils.parametrizations.spectral_norm(
            t.nn.ConvTranspose1d(4, 3, 2), n_power_iterations=2
        ),
        (2, 4, 5),
    ),
    "spectral norm of a bias": (
        lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3), "bias"), (5, 4),
    ),
    "hooked spectral norm": (lambda t: t.nn.utils.spectral_norm(t.nn.Linear(4, 3)), (5, 4)),
    "hooked spectral norm of a convolution": (
        lambda t: t.nn.utils.spectral_norm(t.nn.Conv1d(2, 3, 2), n_power_iterations=3), (2, 2, 5),
    ),
    "two of them": (
        lambda t: t.nn.utils.parametrizations.spectral_norm(
            t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3))
        ),
        (5, 4),
    ),
    **{
        f"orthogonal by {how} {rows}x{columns}, base {base}": (
            lambda t, how=how, rows=rows, columns=columns, base=base: (
                t.nn.utils.parametrizations.orthogonal(
                    t.nn.Linear(columns, rows), orthogonal_map=how, use_trivialization=base
                )
            ),
            (5, columns),
        )
        for how in (None, "matrix_exp", "cayley", "householder")
        for rows, columns in ((3, 3), (4, 2), (2, 4))
        for base in (True, False)
    },
}  # fmt: skip


def pair(name: str) -> tuple[Any, Any, np.ndarray]:
    """PyTorch's module and ours with its state, in float64, and an input."""
    make, shape = CASES[name]
    theirs, ours = make(torch).double(), make(dj).double()
    state = {key: dj.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    return theirs, ours, RANDOM.standard_normal(shape)


def trained(library: Any, module: Any, x: Any, call: Any) -> list[Any]:
    """Outputs of three training steps, and of one evaluation."""
    optimizer = library.optim.SGD(module.parameters(), lr=0.1)
    outputs = []
    for _ in range(3):
        optimizer.zero_grad()
        output = call(x)
        (output * output).sum().backward()
        optimizer.step()
        outputs.append(output.detach().numpy().copy())
    module.eval()
    outputs.append(call(x).detach().numpy().copy())
    return outputs


@pytest.mark.parametrize("name", CASES)
def test_training_is_pytorchs(name: str) -> None:
    """Names, outputs, and the state after training."""
    theirs, ours, x = pair(name)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    assert [n for n, _ in theirs.named_parameters()] == [n for n, _ in ours.named_parameters()]

    expected = trained(torch, theirs, torch.from_numpy(x), theirs)
    actual = trained(dj, ours, dj.from_numpy(x), ours)

    for wanted, found in zip(expected, actual, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize(
    "name",
    ["weight norm", "hooked weight norm", "spectral norm", "hooked spectral norm", "two of them",
     "orthogonal by householder 4x2, base True"],
)  # fmt: skip
def test_compiled_training_is_pytorchs(name: str) -> None:
    """Buffers of the power iteration are written, too."""
    theirs, ours, x = pair(name)

    expected = trained(torch, theirs, torch.from_numpy(x), theirs)
    actual = trained(dj, ours, dj.from_numpy(x), dj.compile(ours))

    for wanted, found in zip(expected, actual, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_fresh_modules_keep_what_they_normalize() -> None:
    """The weight is what it was (weight norm), has norm 1 (spectral), or is orthogonal."""
    dj.manual_seed(0)
    for make in (hooked, lambda t, m: t.nn.utils.parametrizations.weight_norm(m)):
        module = dj.nn.Linear(4, 3)
        before = module.weight.detach().numpy().copy()
        np.testing.assert_allclose(make(dj, module).weight.detach().numpy(), before, rtol=1e-6)
    module = dj.nn.utils.parametrizations.spectral_norm(dj.nn.Linear(4, 3))
    norm = np.linalg.norm(module.weight.detach().numpy(), 2)
    np.testing.assert_allclose(norm, 1, rtol=1e-2)
    matrix = dj.nn.utils.parametrizations.orthogonal(dj.nn.Linear(3, 5)).weight
    np.testing.assert_allclose((matrix.mT @ matrix).detach().numpy(), np.eye(3), atol=1e-5)


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("rows", [3, 5])
def test_orthogonal_matrices_can_be_assigned(rows: int, base: bool) -> None:
    """With a base, and by reflections without one."""
    module = dj.nn.utils.parametrizations.orthogonal(
        dj.nn.Linear(3, rows), orthogonal_map="householder", use_trivialization=base
    )
    wanted = np.linalg.qr(RANDOM.standard_normal((rows, 3)))[0].astype(np.float32)
    module.weight = dj.from_numpy(wanted)
    np.testing.assert_allclose(module.weight.detach().numpy(), wanted, atol=1e-5)


def test_removal_leaves_ordinary_parameters() -> None:
    """With the value that was computed last, under the old name, for each of the forms."""
    utils = dj.nn.utils
    for add, remove in (
        (lambda m: hooked(dj, m), utils.remove_weight_norm),
        (utils.spectral_norm, utils.remove_spectral_norm),
        (utils.parametrizations.weight_norm,
         lambda m: utils.parametrize.remove_parametrizations(m, "weight")),
        (utils.parametrizations.orthogonal,
         lambda m: utils.parametrize.remove_parametrizations(m, "weight")),
    ):  # fmt: skip
        module = add(dj.nn.Linear(4, 3))
        module(dj.ones(1, 4))
        module.eval()
        expected = module(dj.ones(1, 4)).detach().numpy()
        remove(module)
        assert type(module) is dj.nn.Linear
        assert {"weight", "bias"} == set(module.state_dict())
        assert {"weight", "bias"} == {name for name, _ in module.named_parameters()}
        np.testing.assert_allclose(module(dj.ones(1, 4)).detach().numpy(), expected, rtol=1e-6)
        with pytest.raises(ValueError, match=r"not found|does not have"):
            remove(module)


class Symmetric(dj.nn.Module):
    """A symmetric matrix from its upper triangle."""

    def forward(self, X: Any) -> Any:
        """The matrix."""
        return X.triu() + X.triu(1).mT

    def right_inverse(self, A: Any) -> Any:
        """The triangle."""
        return A.triu()


class Doubled(dj.nn.Module):
    """Twice the tensor; it cannot be assigned."""

    def forward(self, X: Any) -> Any:
        """Twice X."""
        return 2 * X


def test_own_parametrizations_compose() -> None:
    """One on top of the other, cached in a block, removed again; the parameter is the same one."""
    parametrize = dj.nn.utils.parametrize
    module = dj.nn.Linear(3, 3)
    parameter = module.weight
    assert parametrize.register_parametrization(module, "weight", Symmetric()) is module
    assert parametrize.is_parametrized(module, "weight")
    assert not parametrize.is_parametrized(module, "bias")
    assert parametrize.type_before_parametrizations(module) is dj.nn.Linear
    weight = module.weight
    assert (weight == weight.mT).all()
    module.weight = dj.ones(3, 3)
    assert module.parametrizations.weight.original is parameter
    assert parameter.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]

    parametrize.register_parametrization(module, "weight", Doubled())
    assert (module.weight == 2).all()
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        module.weight = dj.ones(3, 3)
    with parametrize.cached():
        assert module.weight is module.weight
    assert module.weight is not module.weight

    copied = copy.deepcopy(module)
    parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    assert module.weight is parameter
    assert type(module) is dj.nn.Linear
    assert (copied.weight == 2).all()
    assert copied.parametrizations.weight.original is not parameter


def test_shapes_and_dtypes_are_checked() -> None:
    """Unless `unsafe`; tensors that do not exist are refused; modules are not pickled."""
    parametrize = dj.nn.utils.parametrize

    class Flat(dj.nn.Module):
        def forward(self, X: Any) -> Any:
            return X.flatten()

    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(dj.nn.Linear(2, 2), "weight", Flat())
    module = parametrize.register_parametrization(dj.nn.Linear(2, 2), "weight", Flat(), unsafe=True)
    assert module.weight.shape == (4,)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(dj.nn.Linear(2, 2), "other", Doubled())
    with pytest.raises(RuntimeError, match="state_dict"):
        copy.copy(module)
    normed = dj.nn.utils.parametrizations.weight_norm(dj.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="leave_parametrized"):
        parametrize.remove_parametrizations(normed, "weight", leave_parametrized=False)


def test_new_weight_norm_loads_old_state() -> None:
    """`weight_g` and `weight_v` of the hooked form."""
    old = hooked(dj, dj.nn.Linear(4, 3))
    new = dj.nn.utils.parametrizations.weight_norm(dj.nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    assert (new.weight == old.weight).all()


def test_hooks_before_loading_see_the_entries() -> None:
    """By PyTorch's private name, with and without the module."""
    module, seen = dj.nn.Linear(2, 2), []
    module._register_load_state_dict_pre_hook(lambda entries, *rest: seen.append(len(rest)))
    module._register_load_state_dict_pre_hook(
        lambda module, entries, *rest: seen.append(type(module)), with_module=True
    )
    module.load_state_dict(module.state_dict())
    assert [6, dj.nn.Linear] == seen


def test_wrong_calls_are_refused() -> None:
    """Twice the same, no iterations, no matrix; the old form warns."""
    utils = dj.nn.utils
    with pytest.warns(FutureWarning, match="deprecated"):
        once = utils.weight_norm(dj.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        hooked(dj, once)
    with pytest.raises(RuntimeError, match="two spectral_norm hooks"):
        utils.spectral_norm(utils.spectral_norm(dj.nn.Linear(2, 2)))
    for add in (utils.spectral_norm, utils.parametrizations.spectral_norm):
        with pytest.raises(ValueError, match="n_power_iterations"):
            add(dj.nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="matrix"):
        utils.parametrizations.orthogonal(dj.nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map"):
        utils.parametrizations.orthogonal(dj.nn.Linear(2, 2), orthogonal_map="other")


def test_copies_of_parametrized_modules_train_apart() -> None:
    """Each has its own originals, and the class of the first."""
    module = dj.nn.utils.parametrizations.weight_norm(dj.nn.Linear(2, 2))
    copied = copy.deepcopy(module)
    with dj.no_grad():
        copied.parametrizations.weight.original0.zero_()
    assert (copied.weight == 0).all()
    assert not (module.weight == 0).any()
