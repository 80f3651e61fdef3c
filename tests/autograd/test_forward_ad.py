"""Dual tensors against PyTorch's: operations, writes, views, histories, the program's functions."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

X, T = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(2, 0.5, 6).reshape(2, 3)
Y = np.linspace(0.5, 2, 3)


def plain(value: Any) -> Any:
    """Nests of tensors as nests of lists."""
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if hasattr(value, "requires_grad"):
        return value.detach().resolve_conj().resolve_neg().numpy().round(9).tolist()
    return value


def pair(library: Any, tensor: Any) -> list[Any]:
    """The values, and the tangent or None."""
    return plain(list(library.autograd.forward_ad.unpack_dual(tensor)))


def both(run: Callable[[Any, Any], Any]) -> None:
    """Both libraries give the same within a level."""
    found = []
    for library in (torch, dj):
        with library.autograd.forward_ad.dual_level():
            found.append(plain(run(library, library.autograd.forward_ad)))
    assert found[0] == found[1]


def tensors(library: Any) -> list[Any]:
    return [library.from_numpy(array.copy()) for array in (X, T, Y)]


def dual(library: Any) -> Any:
    x, t, _ = tensors(library)
    return library.autograd.forward_ad.make_dual(x, t)


def write_views(t: Any, f: Any) -> Any:
    d = dual(t)
    row, column, flat = d[0], d[:, 1:], d.view(-1)
    column.mul_(2)
    row.add_(flat[3:])
    d.t().copy_(d.t() * d.t())
    return [pair(t, x) for x in (d, row, column, flat)]


def become_dual(t: Any, f: Any) -> Any:
    d, base = dual(t), t.zeros(3, 4, dtype=t.float64)
    before, part = base.t(), base[:2, 1:]
    part.copy_(d)
    base[2] = d[0, 0]
    base[0, 0] = 5.0
    return [pair(t, x) for x in (base, before, part, base[2], base.diagonal())]


def index_put(t: Any, f: Any) -> Any:
    d = dual(t)
    d[t.tensor([0, 1]), t.tensor([2, 0])] = d[0, :2] * 3
    d[d > 0.9] = 0.0
    base = t.ones(2, 3, dtype=t.float64)
    base[t.tensor([True, False])] = d[1]
    return pair(t, d), pair(t, base)


def without_gradients(t: Any, f: Any) -> Any:
    d = dual(t).requires_grad_()
    with t.no_grad():
        first = d * 2
        view = d[0]
    with t.inference_mode():
        second = d.exp().logsumexp(0)
    return pair(t, first), pair(t, view), pair(t, second), pair(t, d.detach() * 2)


def switched_off(t: Any, f: Any) -> Any:
    d = dual(t)
    with f._set_fwd_grad_enabled(False):
        inside = pair(t, d), pair(t, d * 2)
    return inside, pair(t, d * 2), f._is_fwd_grad_enabled()


def forward_over_reverse(t: Any, f: Any) -> Any:
    x, v, y = tensors(t)
    d = f.make_dual(x.requires_grad_(), v)
    z = (d.sin() * y).logsumexp(1)
    (gradient,) = t.autograd.grad(z.prod(), x)
    return pair(t, gradient)


def reverse_over_forward(t: Any, f: Any) -> Any:
    x, v, y = tensors(t)
    x.requires_grad_(), v.requires_grad_()
    out = (f.make_dual(x, v) ** 3 * y).sum(0)
    tangent = f.unpack_dual(out).tangent
    return t.autograd.grad((tangent * tangent).sum(), (x, v))


def write_with_history(t: Any, f: Any) -> Any:
    x, v, y = tensors(t)
    x.requires_grad_()
    d = f.make_dual(x, v).clone()
    d[0].mul_(y)
    d.mul_(y)
    (gradient,) = t.autograd.grad((d * d).sum(), x)
    return pair(t, d), pair(t, gradient)


def checkpointed(t: Any, f: Any) -> Any:
    x, v, y = tensors(t)
    d = f.make_dual(x.requires_grad_(), v)
    z = t.utils.checkpoint.checkpoint(lambda a: (a.exp() * y).sin(), d, use_reentrant=False)
    return pair(t, z), pair(t, t.autograd.grad((z * z).sum(), x)[0])


def packed(t: Any, f: Any) -> Any:
    x, v, y = tensors(t)
    d = f.make_dual(x.requires_grad_(), v)
    with t.autograd.graph.saved_tensors_hooks(lambda a: a.clone(), lambda a: a):
        z = (d.exp() * d * y).tanh()
    return pair(t, t.autograd.grad((z * z).sum(), x)[0])


def reshaped_in_place(t: Any, f: Any) -> Any:
    d = dual(t)
    d.t_().unsqueeze_(0)
    e = dual(t).clone().detach_()
    return pair(t, d), pair(t, e), pair(t, d.squeeze_(0) * 2)


def strided(t: Any, f: Any) -> Any:
    d = dual(t)
    window = d.as_strided((2, 2), (1, 2), 1)
    return pair(t, window), pair(t, window.sum())


def integers(t: Any, f: Any) -> Any:
    d = dual(t)
    return pair(t, d.long()), pair(t, d.argmax(1)), pair(t, (d > 0).double()), pair(t, d.float())


def complex_numbers(t: Any, f: Any) -> Any:
    d = dual(t)
    z = t.complex(d[0], d[1])
    w = z.conj() * z.exp()
    parts = t.view_as_real(w.resolve_conj())
    z.imag.mul_(2)
    return [pair(t, x) for x in (w.abs(), parts, w.angle(), z.real, z.imag, z.conj().imag)]


PROGRAMS = (
    write_views, become_dual, index_put, without_gradients, switched_off, forward_over_reverse,
    reverse_over_forward, write_with_history, checkpointed, packed, reshaped_in_place, strided,
    integers, complex_numbers,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_on_dual_tensors_give_pytorchs_tangents(program: Any) -> None:
    both(program)


def attention_of(nn: Any) -> Any:
    """With weights, since PyTorch's kernels for the others have no forward mode."""

    class Attention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.inner(x, x, x, need_weights=True)[0]

    return Attention()


LAYERS: dict[str, Callable[[Any], Any]] = {
    "mlp": lambda nn: nn.Sequential(nn.Linear(8, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3)),
    "convolutions": lambda nn: nn.Sequential(
        nn.Unflatten(1, (2, 4)), nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4, track_running_stats=False),
        nn.SiLU(), nn.MaxPool1d(2), nn.ConvTranspose1d(4, 2, 2), nn.Flatten(),
    ),
    "lstm": lambda nn: nn.Sequential(nn.Unflatten(1, (4, 2)), nn.LSTM(2, 3, batch_first=True)),
    "gru": lambda nn: nn.Sequential(nn.Unflatten(1, (4, 2)), nn.GRU(2, 3, 2)),
    "attention": lambda nn: nn.Sequential(nn.Unflatten(1, (2, 4)), attention_of(nn)),
    "norms": lambda nn: nn.Sequential(
        nn.Unflatten(1, (4, 2)), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4), nn.Softmax(1),
        nn.LogSoftmax(2), nn.PReLU(), nn.AdaptiveAvgPool1d(1),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_tangents_of_layers_are_pytorchs(name: str) -> None:
    """By parameters and inputs; and of their gradients."""
    found = []
    torch.manual_seed(0)
    start = LAYERS[name](torch.nn).double().state_dict()
    for library in (torch, dj):
        model = LAYERS[name](library.nn).double()
        model.load_state_dict({k: library.from_numpy(v.numpy()) for k, v in start.items()})
        generator = np.random.default_rng(0)

        def drawn(like: Any, library: Any = library, generator: Any = generator) -> Any:
            return library.from_numpy(generator.standard_normal(tuple(like.shape)))

        x = drawn(np.zeros((3, 8)))
        parameters = {k: v.detach() for k, v in model.named_parameters()}
        moved = {k: drawn(v) for k, v in parameters.items()}

        def call(parameters: Any, x: Any, library: Any = library, model: Any = model) -> Any:
            result = library.func.functional_call(model, parameters, (x,))
            return result[0] if isinstance(result, tuple) else result

        f = library.func
        found.append([
            f.jvp(call, (parameters, x), (moved, drawn(x))),
            f.jvp(
                f.grad(lambda p, x, call=call: (call(p, x) ** 2).sum()), (parameters, x),
                (moved, drawn(x)),
            ),
        ])  # fmt: skip
    (one, second), (other, another) = found
    for left, right in zip(_leaves([one, second]), _leaves([other, another]), strict=True):
        np.testing.assert_allclose(right, left, rtol=1e-7, atol=1e-9)


def _leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value.detach().numpy()]


class Scaled:
    """A `Function` of either library."""

    @staticmethod
    def of(library: Any) -> Any:
        class Scale(library.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any, factor: float) -> Any:
                ctx.save_for_backward(x)
                ctx.save_for_forward(x, y)
                ctx.factor = factor
                rest = y.clone()
                ctx.mark_non_differentiable(rest)
                return x * y * factor, x.view(-1), rest

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any, _: Any) -> Any:
                return g * ctx.factor, None, None

            @staticmethod
            def jvp(ctx: Any, a: Any, b: Any, factor: Any) -> Any:
                x, y = ctx.saved_tensors
                assert factor is None
                return (a * y + x * b) * ctx.factor, a.view(-1), None

        return Scale


@pytest.mark.parametrize("tracked", [False, True])
def test_functions_of_programs_have_tangents(tracked: bool) -> None:
    def run(t: Any, f: Any) -> Any:
        x, v, _ = tensors(t)
        d = f.make_dual(x.requires_grad_(tracked), v)
        first, view, rest = Scaled.of(t).apply(d, t.ones(3, dtype=t.float64), 2.0)
        return pair(t, first), pair(t, view), pair(t, rest), pair(t, first * view.view(2, 3))

    both(run)


# What `jvp` may do wrong, of a function that gives a view and a new tensor.
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "too many": (lambda a: (a.view(-1), a, a), "invalid number of forward gradients"),
    "another size": (lambda a: (a.view(-1), a[0]), "different size"),
    "no view": (lambda a: (a.clone().view(-1).clone(), a), "not returning a view"),
    "a view of another": (lambda a: (a.clone().view(-1), a), "not returning a view"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tangents_of_functions_are_refused(name: str) -> None:
    tangents, words = WRONG[name]
    for library in (torch, dj):

        class Twice(library.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.view(-1), x * 2

            @staticmethod
            def jvp(ctx: Any, a: Any) -> Any:
                return tangents(a)

        with (
            library.autograd.forward_ad.dual_level(),
            pytest.raises(RuntimeError, match=words),
        ):
            Twice.apply(dual(library))


def test_functions_without_jvp_and_custom_operators_are_refused() -> None:
    class Twice(dj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    @dj.library.custom_op("forward_ad_tests::twice", mutates_args=())
    def twice(x: dj.Tensor) -> dj.Tensor:
        return x * 2

    with dj.autograd.forward_ad.dual_level():
        for call in (Twice.apply, twice, dj.unique, dj.special.airy_ai):
            with pytest.raises(NotImplementedError):
                call(dual(dj))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "nested level": lambda t, f: f.enter_dual_level(),
    "another level": lambda t, f: f.exit_dual_level(level=3),
    "another size": lambda t, f: f.make_dual(t.ones(2), t.ones(3)),
    "integer primal": lambda t, f: f.make_dual(t.ones(2).long(), t.ones(2)),
    "integer tangent": lambda t, f: f.make_dual(t.ones(2), t.ones(2).long()),
    "dual tangent": lambda t, f: f.make_dual(t.ones(2, 3).double(), dual(t)),
    "dual primal": lambda t, f: f.make_dual(dual(t), t.ones(2, 3).double()),
    "out=": lambda t, f: t.add(dual(t), 1, out=t.zeros(2, 3).double()),
    "resize_": lambda t, f: dual(t).resize_(7),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    kinds = []
    for library in (torch, dj):
        with library.autograd.forward_ad.dual_level():
            try:
                REFUSED[name](library, library.autograd.forward_ad)
            except Exception as error:
                kinds.append(error)
    assert len(kinds) == 2
    assert isinstance(kinds[1], type(kinds[0]))


def test_no_level_is_no_place_for_dual_tensors() -> None:
    for library in (torch, dj):
        f, (x, t, _) = library.autograd.forward_ad, tensors(library)
        with pytest.raises(RuntimeError, match="no level exists"):
            f.make_dual(x, t)
        with pytest.raises(RuntimeError):
            f.exit_dual_level()
        assert f.unpack_dual(x)[0] is x


def test_tangents_end_with_their_level() -> None:
    for library in (torch, dj):
        f = library.autograd.forward_ad
        with f.dual_level() as level:
            d = dual(library)
            assert level == 0
        with f.dual_level():
            assert f.unpack_dual(d).tangent is None
            assert f.unpack_dual(d * 2).tangent is None


def test_a_tangent_is_kept_as_it_is_and_freed_with_its_tensor() -> None:
    x, t, _ = tensors(dj)
    with dj.autograd.forward_ad.dual_level():
        d = dj.autograd.forward_ad.make_dual(x, t)
        assert dj.autograd.forward_ad.unpack_dual(d).tangent is t
        kept = weakref.ref(t)
        del d, t
        assert kept() is None


def test_levels_belong_to_a_thread() -> None:
    seen: list[Any] = []

    def other() -> None:
        seen.append(dj.autograd.forward_ad.unpack_dual(d * 2).tangent)

    with dj.autograd.forward_ad.dual_level():
        d = dual(dj)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert pair(dj, d * 2)[1] == (2 * T).round(9).tolist()
    assert seen == [None]


def test_compiled_functions_follow_tangents() -> None:
    """They run as plain Python where a level is open, also where they were compiled before."""

    @dj.compile
    def cube(x: Any) -> Any:
        return (x**3).sum()

    @dj.compile
    def whole(x: Any, t: Any) -> Any:
        with dj.autograd.forward_ad.dual_level():
            d = dj.autograd.forward_ad.make_dual(x * 2, t)
            return dj.autograd.forward_ad.unpack_dual(d * d).tangent + 1

    x, t, _ = tensors(dj)
    expected = (3 * X**2 * T).sum()
    for _ in range(3):
        value = cube(x)
        with dj.autograd.forward_ad.dual_level():
            d = dual(dj)
            tangent = dj.autograd.forward_ad.unpack_dual(cube(d)).tangent
            assert tangent.item() == pytest.approx(expected)
        assert value.item() == pytest.approx((X**3).sum())
        np.testing.assert_allclose(whole(x, t).numpy(), 4 * X * T + 1)


def test_gradients_through_compiled_calls_have_tangents() -> None:
    cube = dj.compile(lambda x: (x**3).sum())
    leaf = tensors(dj)[0].requires_grad_()
    y = cube(leaf)  # before the level
    with dj.autograd.forward_ad.dual_level():
        start = dj.autograd.forward_ad.make_dual(y.detach() * 0 + 1, y.detach() * 0 + 2)
        (gradient,) = dj.autograd.grad(y, leaf, start)
        tangent = dj.autograd.forward_ad.unpack_dual(gradient).tangent
        np.testing.assert_allclose(tangent.numpy(), 6 * X**2)


def test_gradients_are_accumulated_with_their_tangents() -> None:
    """Twice the tangent of one: PyTorch, which adds in place, has that of the last one."""
    x, v, y = tensors(dj)
    with dj.autograd.forward_ad.dual_level():
        leaf = dj.autograd.forward_ad.make_dual(x, v).requires_grad_()
        for _ in range(2):
            (leaf * leaf * leaf * y).sum().backward()
        tangent = dj.autograd.forward_ad.unpack_dual(leaf.grad).tangent
    np.testing.assert_allclose(tangent.numpy(), 12 * X * T * Y)


def test_modules_with_hooks_are_followed() -> None:
    """Hooks of gradients put nodes around a module, which PyTorch refuses here."""
    layer, seen = dj.nn.Linear(3, 2, dtype=dj.float64), []
    layer.register_full_backward_hook(lambda module, inner, outer: seen.append(outer[0]))
    x, v, _ = tensors(dj)
    with dj.autograd.forward_ad.dual_level():
        z = layer(dj.autograd.forward_ad.make_dual(x.requires_grad_(), v))
        weight = layer.weight.detach().numpy()
        np.testing.assert_allclose(pair(dj, z)[1], T @ weight.T, atol=1e-8)
        (gradient,) = dj.autograd.grad((z * z).sum(), x)
        np.testing.assert_allclose(pair(dj, gradient)[1], 2 * T @ weight.T @ weight, atol=1e-8)
    assert len(seen) == 1


def test_printing_tells_the_tangent() -> None:
    with dj.autograd.forward_ad.dual_level():
        d = dj.autograd.forward_ad.make_dual(dj.ones(2), dj.ones(2) * 2)
        assert repr(d) == "tensor([1., 1.], tangent=tensor([2., 2.]))"
    assert repr(d) == "tensor([1., 1.])"


@dj.autograd.forward_ad.dual_level()
def _within(x: Any, t: Any) -> Any:
    d = dj.autograd.forward_ad.make_dual(x, t)
    return dj.autograd.forward_ad.unpack_dual(d.exp()).tangent


def test_functions_are_decorated_with_a_level() -> None:
    x, t, _ = tensors(dj)
    np.testing.assert_allclose(_within(x, t).numpy(), np.exp(X) * T)
