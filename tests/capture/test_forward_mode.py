"""`func.jvp` in compiled functions: part of the graph, or a clean break."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

X, T, W = (np.array(v) for v in ([0.3, 0.7, 1.1], [1.0, 2.0, -1.0], [2.0, 1.0, 3.0]))


def steps(x: Any) -> Any:
    """Writes, views, composites and a loop."""
    y = x.sin() * dj.tensor([2.0, 1.0, 3.0], dtype=dj.float64)
    y[0] = x[1] * 2
    for number in range(2):
        y = (y.view(3, 1) * (number + 1))[:, 0].tanh() + x
    return y.softmax(0) * x, y.logsumexp(0)


def along(function: Callable[[Any], Any], t: Any) -> Callable[[Any], Any]:
    return lambda x: dj.func.jvp(function, (x,), (t,))[1]


def alternating(x: Any) -> Any:
    if x.shape[0] > 2 and x.ndim == 1:
        return (x.norm() * x).cumsum(0)
    return x


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "several outputs": lambda x, t: dj.func.jvp(steps, (x,), (t,)),
    "used afterwards": lambda x, t: dj.func.jvp(alternating, (x * 2,), (t.exp(),))[1] @ x,
    "twice": lambda x, t: along(along(lambda a: steps(a)[0], t), t * x)(x),
    "closed over": lambda x, t: along(lambda b: along(lambda a: a * b * x, t)(x) * b, t)(x),
    "two primals": lambda x, t: dj.func.jvp(lambda a, b: a.atan2(b), (x, t), (t, x)),
    "with aux": lambda x, t: dj.func.jvp(lambda a: (a**3, a.shape), (x,), (t,), has_aux=True),
    "no dependence": lambda x, t: dj.func.jvp(lambda a: t * 2, (x,), (t,)),
    "random numbers": lambda x, t: dj.func.jvp(
        lambda a: dj.nn.functional.dropout(a, 0.5) * a, (x,), (t,)
    ),
    "dtypes": lambda x, t: dj.func.jvp(lambda a: (a.float() * a).double(), (x,), (t,)),
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value.detach().numpy() if isinstance(value, dj.Tensor) else value]


def same(function: Any, compiled: Any) -> None:
    x, t = dj.tensor(X), dj.tensor(T)
    for _ in range(2):
        dj.manual_seed(0)
        expected = leaves(function(x, t))
        dj.manual_seed(0)
        for one, other in zip(expected, leaves(compiled(x, t)), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", WHOLE)
def test_jvp_is_part_of_the_graph(name: str) -> None:
    same(WHOLE[name], dj.compile(WHOLE[name], fullgraph=True))


class Cube(dj.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * t


BROKEN: dict[str, Callable[[Any, Any], Any]] = {
    "nests": lambda x, t: dj.func.jvp(lambda d: d["a"].sin(), ({"a": x},), ({"a": t},)),
    "a write to the primal": lambda x, t: dj.func.jvp(lambda a: a.mul_(2), (x.clone(),), (t,)),
    "the primal itself": lambda x, t: dj.func.jvp(lambda a: a, (x * 1,), (t,)),
    "a view of the primal": lambda x, t: dj.func.jvp(lambda a: a[1:], (x * 1,), (t,)),
    "a Function": lambda x, t: dj.func.jvp(Cube.apply, (x,), (t,)),
    "contents": lambda x, t: dj.func.jvp(
        lambda a: a * 2 if a.sum() > 0 else a, (x * 1,), (t,)
    ),
    "columns": lambda x, t: dj.func.jacfwd(lambda a: a.outer(a).sum(0))(x) + t,
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_has_no_form_in_graphs_runs_as_plain_python(name: str) -> None:
    same(BROKEN[name], dj.compile(BROKEN[name]))


def test_gradients_flow_through_captured_tangents() -> None:
    """To the primal, the tangent, and what the function closes over."""
    found = []
    for wrap in (lambda function: function, lambda f: dj.compile(f, fullgraph=True)):
        x, t, w = (dj.tensor(v).requires_grad_() for v in (X, T, W))

        @wrap
        def call(x: Any, t: Any, w: Any) -> Any:
            value, tangent = dj.func.jvp(lambda a: (a * w).sin().logsumexp(0) * a, (x,), (t,))
            return (value * tangent).sum()

        call(x, t, w).backward()
        found.append([x.grad.numpy(), t.grad.numpy(), w.grad.numpy()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_errors_of_the_function_and_of_jvp_are_raised() -> None:
    def wrong(x: Any, t: Any) -> Any:
        return dj.func.jvp(lambda a: a.reshape(7), (x,), (t,))

    def unlike(x: Any, t: Any) -> Any:
        return dj.func.jvp(lambda a: a * 2, (x,), (t[:2],))

    x, t = dj.tensor(X), dj.tensor(T)
    for function in (wrong, unlike):
        kinds = []
        for call in (function, dj.compile(function)):
            with pytest.raises(RuntimeError) as caught:
                call(x, t)
            kinds.append(type(caught.value))
        assert kinds[0] is kinds[1]
