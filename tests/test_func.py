"""Transforms of functions against PyTorch: values, nests, nesting, histories."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import func
from dynajit.autograd import products
from dynajit.core.pytree import flatten

torch = pytest.importorskip("torch")

# PyTorch's own: it compiles parts of its forward mode by TorchScript.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

X, Y = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0.5, 2, 3)


def plain(found: Any) -> Any:
    """Nested tensors as nested lists, with what requires gradients."""
    if isinstance(found, (tuple, list)):
        return [plain(item) for item in found]
    if isinstance(found, dict):
        return {key: plain(item) for key, item in found.items()}
    if not hasattr(found, "detach"):
        return found
    values = np.asarray(found.detach().numpy(), np.float64).ravel().round(9) + 0.0
    return [list(found.shape), values.tolist(), found.requires_grad]


def energy(x: Any, y: Any) -> Any:
    """One number."""
    return (x.sin() * y).sum() + (y**3).prod()


def nested(p: Any) -> Any:
    """A nest to a nest."""
    return {"a": p["x"] * p["y"], "b": (p["y"].sum(), p["x"].exp())}


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda t, x, y: t.func.grad(energy)(x, y),
    "grad of the second": lambda t, x, y: t.func.grad(energy, 1)(x, y),
    "grad of both": lambda t, x, y: t.func.grad(energy, (1, 0))(x, y),
    "grad of neither": lambda t, x, y: t.func.grad(lambda x: y.sum())(x),
    "grad and value": lambda t, x, y: t.func.grad_and_value(energy)(x, y),
    "grad and aux": lambda t, x, y: t.func.grad(lambda x: ((x * x).sum(), x * 2), has_aux=True)(x),
    "grad, value and aux": lambda t, x, y: t.func.grad_and_value(
        lambda x: ((x * x).sum(), {"twice": x * 2}), has_aux=True
    )(x),
    "grad of a nest": lambda t, x, y: t.func.grad(lambda p: energy(p["x"], p["rest"][0]))(
        {"x": x, "rest": (y,)}
    ),
    "keyword": lambda t, x, y: t.func.grad(energy)(x, y=y),
    "grad of grad": lambda t, x, y: t.func.grad(
        lambda y: t.func.grad(lambda y: energy(x, y))(y).prod()
    )(y),
    "three times": lambda t, x, y: t.func.grad(
        t.func.grad(t.func.grad(lambda z: z**5 + z.sin()))
    )(y[1]),
    "vjp": lambda t, x, y: [(o := t.func.vjp(lambda x, y: x * y, x, y))[0], o[1](x + 1)],
    "vjp of a nest": lambda t, x, y: (
        (o := t.func.vjp(nested, {"x": x[0], "y": y}))[0], o[1](nested({"x": y, "y": y})),
    ),
    "vjp and aux": lambda t, x, y: (
        (o := t.func.vjp(lambda x: (x.exp(), x), x, has_aux=True))[1](x), o[2],
    ),
    "jvp": lambda t, x, y: t.func.jvp(lambda x, y: x.exp() * y, (x, y), (x * 2, y - 1)),
    "jvp of a nest": lambda t, x, y: t.func.jvp(
        nested, ({"x": x[0], "y": y},), ({"x": y, "y": x[0]},)
    ),
    "jvp of a constant": lambda t, x, y: t.func.jvp(lambda x: y * 2, (x,), (x,)),
    "grad of jvp": lambda t, x, y: t.func.grad(
        lambda y: t.func.jvp(lambda y: (y**3).sum(), (y,), (y,))[1]
    )(y),
    "jacrev": lambda t, x, y: t.func.jacrev(lambda x, y: x @ y, (0, 1))(x, y),
    "jacrev of a nest": lambda t, x, y: t.func.jacrev(nested)({"x": x[0], "y": y}),
    "jacfwd": lambda t, x, y: t.func.jacfwd(lambda y: y.outer(y))(y),
    "hessian": lambda t, x, y: t.func.hessian(lambda y: (y**3).prod())(y),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("form", ["plain", "no_grad", "compiled"])
def test_transforms_are_pytorchs(name: str, form: str) -> None:
    """Results without a history; under `no_grad`; in compiled functions."""

    def run(library: Any) -> Any:
        x, y = library.from_numpy(X.copy()), library.from_numpy(Y.copy())
        if form == "no_grad":
            with library.no_grad():
                return CALLS[name](library, x, y)
        if form == "compiled" and library is dj:
            return dj.compile(lambda x, y: CALLS[name](dj, x, y))(x, y)
        return CALLS[name](library, x, y)

    assert plain(run(torch)) == plain(run(dj))


def test_gradients_pass_through_transforms() -> None:
    """To the arguments, and to what the function closes over."""

    def run(library: Any) -> Any:
        x = library.from_numpy(X.copy()).requires_grad_(True)
        w = library.from_numpy(Y.copy()).requires_grad_(True)
        gradient = library.func.grad(lambda x: ((x * w) ** 3).sum())(x)
        _, vjp_fn = library.func.vjp(lambda x: (x * w) ** 2, x.detach())
        (pulled,) = vjp_fn(x.detach())
        _, tangent = library.func.jvp(lambda x: (x * w) ** 2, (x.detach(),), (x.detach(),))
        (gradient * gradient).sum().backward(retain_graph=True)
        (pulled + tangent).sum().backward()
        return gradient, x.grad, w.grad

    assert plain(run(torch)) == plain(run(dj))


def test_modules_are_called_with_other_parameters() -> None:
    """Their own come back; gradients reach the others; written buffers are in the dict."""

    def run(library: Any) -> Any:
        module = library.nn.BatchNorm1d(3, dtype=library.float64)
        parameters = {"weight": library.from_numpy(Y.copy()).requires_grad_(True)}
        buffers = {name: value.clone() + 1 for name, value in module.named_buffers()}
        x = library.from_numpy(X.copy())
        result = library.func.functional_call(module, (parameters, buffers), x)
        result.sum().backward()
        module.eval()
        gradient = library.func.grad(
            lambda p: library.func.functional_call(module, p, (x * x,)).prod()
        )({"bias": library.from_numpy(Y.copy())})
        return result, parameters["weight"].grad, buffers, dict(module.state_dict()), gradient

    assert plain(run(torch)) == plain(run(dj))


def test_compiled_functions_call_modules_with_other_parameters() -> None:
    """The module's own come back."""
    module, x = dj.nn.Linear(2, 2), dj.ones(1, 2)
    own = module.weight

    @dj.compile
    def call(weight: Any, x: Any) -> Any:
        return dj.func.functional_call(module, {"weight": weight}, (x,)) * 2

    for factor in (1.0, 3.0):
        weight = (dj.eye(2) * factor).requires_grad_()
        result = call(weight, x)
        expected = (factor + module.bias.detach().numpy()) * 2
        np.testing.assert_allclose(result.detach().numpy()[0], expected, rtol=1e-6)
        result.sum().backward()
        assert [[2.0, 2.0]] * 2 == weight.grad.tolist()
    assert module.weight is own


def test_compiled_derivatives_are_differentiated_again() -> None:
    """A compiled function within a transform, and a transform within one."""
    x = dj.arange(1.0, 4.0)
    cube = dj.compile(lambda x: (x**3).sum())
    np.testing.assert_allclose(dj.func.grad(cube)(x).numpy(), 3 * x.numpy() ** 2, rtol=1e-6)
    rows = dj.compile(lambda x: dj.autograd.functional.hessian(lambda x: (x**3).sum(), x) + 1)
    np.testing.assert_allclose(rows(x).numpy(), np.diag(6 * x.numpy()) + 1, rtol=1e-6)


def test_shared_parameters_count_by_all_their_names() -> None:
    """Unless they are given two values; names are checked where that is asked."""

    class Tied(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = dj.nn.Linear(2, 2, bias=False)
            self.second = dj.nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    module, x = Tied(), dj.ones(1, 2)
    call = dj.func.functional_call
    eye = dj.eye(2) * 3
    assert [[9.0, 9.0]] == call(module, {"first.weight": eye}, x).tolist()
    assert [[9.0, 9.0]] == call(module, {"second.weight": eye}, x, strict=True).tolist()
    with pytest.raises(ValueError, match="tied"):
        call(module, {"first.weight": eye, "second.weight": eye * 2}, x)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        call(module, ({"first.weight": eye}, {"first.weight": eye}), x)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        call(module, {"third": eye}, x, strict=True)
    with pytest.raises(RuntimeError, match="Missing key"):
        call(module, {}, x, strict=True)
    assert module.first.weight is module.second.weight
    with pytest.warns(FutureWarning, match="deprecated"):
        older = dj.nn.utils.stateless.functional_call(module, {"first.weight": eye}, x)
    assert [[9.0, 9.0]] == older.tolist()
    with pytest.raises(RuntimeError):
        call(module, {"first.weight": eye}, dj.ones(1, 3))
    assert isinstance(module.first.weight, dj.nn.Parameter)


def test_wrong_functions_are_refused() -> None:
    """Values that are no numbers, nests that do not fit."""
    x = dj.ones(2)
    for call, message in (
        (lambda: dj.func.grad(lambda x: x)(x), "scalar tensor"),
        (lambda: dj.func.grad(lambda x: 1.0)(x), "return a tensor"),
        (lambda: dj.func.grad(lambda x: x.sum(), 1)(x), "argnum"),
        (lambda: dj.func.jacrev(lambda x: x.sin(), 0.0)(x), "argnum"),
        (lambda: dj.func.vjp(lambda x: x, x)[1]((x, x)), "cotangents"),
        (lambda: dj.func.jvp(lambda x: x, (x,), (dj.ones(3),)), "fit"),
        (lambda: dj.func.grad(lambda x: x.sum(), has_aux=True)(x), "has_aux"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def _ensemble(library: Any) -> list[Any]:
    nn = library.nn
    return [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(4)]


def test_the_state_of_an_ensemble_is_stacked() -> None:
    parameters, buffers = dj.func.stack_module_state(_ensemble(dj))
    theirs = torch.func.stack_module_state(_ensemble(torch))

    for ours, others in zip((parameters, buffers), theirs, strict=True):
        assert [
            (name, tuple(x.shape), x.requires_grad, x.is_leaf) for name, x in others.items()
        ] == [(name, tuple(x.shape), x.requires_grad, x.is_leaf) for name, x in ours.items()]


def test_an_ensemble_runs_under_vmap() -> None:
    models = [dj.nn.Linear(2, 3) for _ in range(4)]
    parameters, buffers = dj.func.stack_module_state(models)
    x = dj.randn(5, 2)

    def run(own, others):
        return dj.func.functional_call(models[0], (own, others), (x,))

    found = dj.func.vmap(run)(parameters, buffers)
    found.sum().backward()

    assert (4, 5, 3) == found.shape
    for model, own in zip(models, found, strict=True):
        np.testing.assert_allclose(model(x).detach().numpy(), own.detach().numpy(), rtol=1e-6)
    assert (4, 3, 2) == parameters["weight"].grad.shape


def test_models_that_are_not_alike_are_refused() -> None:
    for library in (dj, torch):
        stacked = library.func.stack_module_state
        models = _ensemble(library)
        with pytest.raises(RuntimeError, match="at least one model"):
            stacked([])
        with pytest.raises(RuntimeError, match="of the same class"):
            stacked([models[0], models[0][0]])
        models[1].eval()
        with pytest.raises(RuntimeError, match="same training/eval mode"):
            stacked(models)
        models[1].train()
        models[1][0].weight.requires_grad_(False)
        with pytest.raises(RuntimeError, match=r"0\.weight .*requires_grad"):
            stacked(models)


def test_batch_norms_lose_their_running_statistics() -> None:
    model = _ensemble(dj)[0]

    assert model is dj.func.replace_all_batch_norm_modules_(model)
    assert model[1].running_mean is None is model[1].num_batches_tracked
    assert ["0.weight", "0.bias", "1.weight", "1.bias"] == list(model.state_dict())


def _linearized(t: Any) -> list[Any]:
    def function(a: Any, d: Any) -> Any:
        for number in range(3):
            a = a * d["x"] + number
        return {"y": a.sin(), "z": (a * 2, d["x"])}

    a, x = t.tensor([1.0, 2.0]), t.tensor([0.5, 3.0])
    output, product = t.func.linearize(function, a, {"x": x})
    ones, zeros = t.ones(2), t.zeros(2)
    found = [output, product(ones, {"x": zeros}), product(zeros, {"x": ones * 2})]
    found.append(t.func.vmap(lambda v: product(v, {"x": zeros})["y"])(t.eye(2)))
    return found


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_a_function_is_linearized_once() -> None:
    """For nests, and as often as its product is asked for."""
    np.testing.assert_allclose(*[
        np.concatenate([np.ravel(x) for x in _flat(plain(_linearized(t)))]) for t in (torch, dj)
    ], rtol=1e-5)  # fmt: skip
    calls: list[int] = []

    def counted(a: Any) -> Any:
        calls.append(1)
        return a**3

    _, product = dj.func.linearize(counted, dj.tensor([2.0]))
    assert [product(dj.tensor([v])).item() for v in (1.0, 2.0)] == [12.0, 24.0]
    assert calls == [1]


def test_a_product_of_a_linear_function_is_one_backward_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    original = products.grad

    def counted(*args: Any, **options: Any) -> Any:
        runs.append(1)
        return original(*args, **options)

    monkeypatch.setattr(products, "grad", counted)
    _, product = dj.func.linearize(lambda a: (a.sin() * a).sum(), dj.ones(3))
    assert len(runs) == 1
    for _ in range(3):
        product(dj.ones(3))
    assert len(runs) == 4


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [x for t in tree for x in _flat(t)] if isinstance(tree, (list, tuple)) else [tree]


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_linear_functions_have_histories_where_pytorchs_have() -> None:
    for t in (torch, dj):
        weight = t.ones(2, requires_grad=True)
        output, product = t.func.linearize(lambda a, w=weight: a * w, t.ones(2))
        assert (output.requires_grad, product(t.ones(2)).requires_grad) == (True, True)
        output, product = t.func.linearize(lambda a: a * a, t.ones(2))
        assert (output.requires_grad, product(t.ones(2)).requires_grad) == (False, False)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("t", [dj, torch])
def test_tangents_that_do_not_fit_are_refused(t: Any) -> None:
    _, product = t.func.linearize(lambda a, b: a * b, t.ones(2), t.ones(2))
    for tangents in ((t.ones(2),), (t.ones(3), t.ones(2)), (t.ones(2).double(), t.ones(2))):
        with pytest.raises(RuntimeError):
            product(*tangents)


@pytest.mark.parametrize("t", [dj, torch])
def test_functions_that_write_are_functionalized(t: Any) -> None:
    def function(a: Any) -> Any:
        b = a.clone()
        b.view(-1).add_(1)
        return b, a[0]

    for remove in ("mutations", "mutations_and_views"):
        found = t.func.functionalize(function, remove=remove)(t.ones(2))
        assert [x.tolist() for x in found] == [[2.0, 2.0], 1.0]
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        t.func.functionalize(function, remove="views")
    assert t.func.debug_unwrap(t.ones(1)).item() == 1.0


_NESTED: dict[str, Callable[[Any, Any], Any]] = {
    "hessian": lambda f, g: f.hessian(g),
    "jacobian of a jacobian": lambda f, g: f.jacfwd(f.jacrev(g)),
    "jacobian of a gradient": lambda f, g: f.jacrev(f.grad(g)),
    "gradient of a gradient": lambda f, g: f.grad(lambda a: f.grad(g)(a).sum()),
    "gradient of a jacobian": lambda f, g: f.grad(lambda a: f.jacrev(g)(a).sum()),
    "hessians of samples": lambda f, g: f.vmap(f.hessian(lambda a: g(a * a.new_ones(3)))),
    "product with a hessian": lambda f, g: lambda a: f.jvp(f.grad(g), (a,), (a,))[1],
    "linearized gradient": lambda f, g: lambda a: f.linearize(f.grad(g), a)[1](a),
}


@pytest.mark.parametrize("name", _NESTED)
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_nested_transforms_may_be_compiled(name: str) -> None:
    """As a whole, or within a function; loops and views in what is differentiated."""

    def energy_of(a: Any) -> Any:
        for number in range(2):
            a = (a.view(3, 1) * (number + 1))[:, 0].sin() * a
        return (a**3).sum()

    found = []
    for t in (torch, dj):
        transformed = _NESTED[name](t.func, energy_of)
        x = t.tensor([1.0, 2.0, 3.0])
        found.append(transformed(x).tolist())
    for compiled in (dj.compile(transformed), dj.compile(lambda a: transformed(a * 1) + 0)):
        found += [compiled(x).tolist() for _ in range(2)]
    for others in found[1:]:
        np.testing.assert_allclose(found[0], others, rtol=2e-4, atol=1e-4)


def _matrix() -> Any:
    dj.manual_seed(0)
    return dj.randn(4, 4)


def _energy(v: Any) -> Any:
    return (_MATRIX @ v).tanh().pow(2).sum()


_MATRIX = _matrix()
_ROWS = dj.arange(24.0).reshape(6, 4) / 10
_LEAF = dj.ones(4, requires_grad=True)
_LINEAR = dj.nn.Linear(4, 2)

#: Transforms in all nestings, none of which depends on data.
CAPTURED: dict[str, Any] = {
    "grad": lambda: func.grad(_energy)(_ROWS[0]),
    "grad of a leaf": lambda: (func.grad(_energy)(_LEAF) * _LEAF).sum(),
    "grad_and_value": lambda: func.grad_and_value(_energy)(_ROWS[0]),
    "aux": lambda: func.grad(lambda v: (_energy(v), v * 2), has_aux=True)(_ROWS[0]),
    "grad of grad": lambda: func.grad(lambda v: func.grad(_energy)(v).sum())(_ROWS[0]),
    "vjp": lambda: func.vjp(lambda v: (_MATRIX @ v).tanh(), _ROWS[0])[1](_ROWS[1]),
    "jvp": lambda: func.jvp(lambda v: (_MATRIX @ v).tanh(), (_ROWS[0],), (_ROWS[1],)),
    "jvp of a gradient": lambda: func.jvp(func.grad(_energy), (_ROWS[0],), (_ROWS[1],)),
    "jvp of a gradient by two": lambda: func.jvp(
        func.grad(lambda v, w: _energy(v * w) + (w**3).sum(), argnums=(0, 1)),
        (_ROWS[0], _ROWS[1]),
        (_ROWS[2], _ROWS[3]),
    ),
    "jvp of a jvp of a gradient": lambda: func.jvp(
        lambda v: func.jvp(func.grad(_energy), (v,), (_ROWS[1] * v,))[1], (_ROWS[0],), (_ROWS[2],)
    ),
    "gradient of a jvp of a gradient": lambda: func.grad(
        lambda v: func.jvp(func.grad(_energy), (v,), (_ROWS[1],))[1].sum()
    )(_ROWS[0]),
    "jvp of a gradient of samples": lambda: func.vmap(
        lambda v: func.jvp(func.grad(_energy), (v,), (v * 2,))[1]
    )(_ROWS),
    "jvp of nests": lambda: func.jvp(
        lambda d, v: {"sum": d["a"] * v, "both": (d["a"], d["b"].sin())},
        ({"a": _ROWS[0], "b": _ROWS[1]}, _ROWS[2]),
        ({"a": _ROWS[3], "b": _ROWS[4]}, _ROWS[5]),
    ),
    "jvp past detached parts": lambda: func.jvp(
        lambda v: v * v.detach() + v.sin().detach(), (_ROWS[0],), (_ROWS[1],)
    ),
    "jvp of what computes without gradients": lambda: func.jvp(
        dj.no_grad()(_energy), (_ROWS[0],), (_ROWS[1],)
    ),
    "linearize": lambda: [
        part
        for value, along in (func.linearize(func.grad(_energy), _ROWS[0]),)
        for part in (value, along(_ROWS[1]), along(_ROWS[2]))
    ],
    "jacrev": lambda: func.jacrev(lambda v: (_MATRIX @ v).tanh())(_ROWS[0]),
    "jacfwd of nests": lambda: func.jacfwd(
        lambda d, v: {"product": d["a"] * v, "sum": d["b"].sum()}, argnums=(0, 1)
    )({"a": _ROWS[0], "b": _ROWS[1]}, _ROWS[2]),
    "jacfwd, aux": lambda: func.jacfwd(lambda v: (v * v, v + 1), has_aux=True)(_ROWS[0]),
    "jacfwd": lambda: func.jacfwd(lambda v: (_MATRIX @ v).tanh())(_ROWS[0]),
    "hessian": lambda: func.hessian(_energy)(_ROWS[0]),
    "vmap of grad": lambda: func.vmap(func.grad(_energy))(_ROWS),
    "vmap of hessian": lambda: func.vmap(func.hessian(_energy))(_ROWS),
    "grad of vmap": lambda: func.grad(lambda m: func.vmap(_energy)(m).sum())(_ROWS),
    "gradients of a module": lambda: func.vmap(
        func.grad(lambda p, x: func.functional_call(_LINEAR, p, (x,)).pow(2).sum()),
        in_dims=(None, 0),
    )({k: p.detach() for k, p in _LINEAR.named_parameters()}, _ROWS),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_transforms_are_captured_whole(name: str) -> None:
    expected = flatten(CAPTURED[name]())[0]

    found = flatten(dj.compile(CAPTURED[name], fullgraph=True)())[0]

    assert [x.requires_grad for x in expected] == [x.requires_grad for x in found]
    for wanted, given in zip(expected, found, strict=True):
        assert (
            pytest.approx(wanted.flatten().tolist(), rel=1e-5, abs=1e-5) == given.flatten().tolist()
        )


def test_tangents_of_a_gradient_with_a_history_outside_are_left_to_eager_execution() -> None:
    """The weights require gradients; the Hessian times a vector is differentiated by them."""

    def function(w: Any, v: Any) -> Any:
        return func.jvp(func.grad(lambda x: ((w @ x).tanh() ** 2).sum()), (v,), (v + 1,))[1]

    outcomes = []
    for called in (function, dj.compile(function)):
        w = _MATRIX.clone().requires_grad_()
        product = called(w, _ROWS[0])
        product.sum().backward()
        outcomes.append((product.tolist(), w.grad.flatten().tolist()))
    for expected, found in zip(*outcomes, strict=True):
        assert pytest.approx(expected, rel=1e-5, abs=1e-6) == found


def test_a_jacobian_in_forward_mode_is_one_pass_in_a_graph() -> None:
    """Many outputs, few inputs: a product with three columns, no 500 rows."""
    wide = dj.randn(500, 3)
    compiled = dj.explain(func.jacfwd(lambda v: (wide @ v).sin()))(dj.ones(3))

    assert "[500, 500]" not in str(compiled)
    assert "[500, 500]" in dj.explain(func.jacrev(lambda v: (wide @ v).sin()))(dj.ones(3)).full()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_are_of_real_numbers(name: str, compiled: bool) -> None:
    """As PyTorch's: complex arguments and outputs are refused, not half right."""

    def jacobian(function: Any) -> Any:
        transform = getattr(dj.func, name)
        return dj.compile(lambda x: transform(function)(x)) if compiled else transform(function)

    x = dj.ones(2, dtype=dj.complex64)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
        jacobian(lambda x: x * 2)(x)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real"):
        jacobian(lambda x: dj.complex(x, x))(x.real.clone())
    assert jacobian(lambda x: dj.complex(x, x).abs())(x.real.clone()).shape == (2, 2)


@pytest.mark.parametrize("size", [0, -1])
def test_chunks_of_a_jacobian_have_rows(size: int) -> None:
    with pytest.raises(ValueError, match="jacrev: `chunk_size` should be greater than 0"):
        dj.func.jacrev(lambda x: x, chunk_size=size)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(), np.asarray, np.sin, lambda x: x[1:].numpy(),
        lambda x: np.from_dlpack(x), lambda x: dj.compiler.wrap_numpy(np.cbrt)(x).numpy(),
    ],
)  # fmt: skip
def test_numpy_does_not_lose_tangents(read):
    """An error, as in PyTorch, where zeros would be wrong; constants are taken by `detach`."""
    x = dj.tensor([1.0, 2.0, 3.0])
    for transformed in (
        lambda f: dj.func.jvp(f, (x,), (dj.ones(3),)),
        lambda f: dj.func.jacfwd(f)(x),
        lambda f: dj.autograd.functional.jvp(f, x, dj.ones(3)),
    ):
        with pytest.raises(RuntimeError, match=r"tangent|require grad|requires grad"):
            transformed(lambda x: dj.from_numpy(read(x)) * 2)

    _, found = dj.func.jvp(lambda x: x * dj.from_numpy(x.detach().numpy()), (x,), (dj.ones(3),))
    assert x.tolist() == found.tolist()
    with dj.autograd.forward_ad.dual_level():
        dual = dj.autograd.forward_ad.make_dual(x, dj.ones(3))
        assert x.tolist() == dual.numpy().tolist()
