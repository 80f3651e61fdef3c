"""Gradients through loops that end by a tensor: one loop of the graph, as the eager tape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError
from tests.end_to_end.loops.test_gradients_of_run_time_counts import leaves, results, same

pytestmark = pytest.mark.one_python

TOLERANCES = (1e-2, 1e-3, 3e-4, 1e-1, 2e-5, 1e-2)


def numbers(*shape: int, seed: int = 0) -> dj.Tensor:
    return dj.tensor(np.random.default_rng(seed).standard_normal(shape) * 0.3, dtype=dj.float64)


def newton(a, tolerance):
    x, error = a * 1.0, dj.tensor(1.0, dtype=a.dtype)
    while error > tolerance:
        new = 0.5 * (x + a / x)
        error = (new - x).abs().max()
        x = new
    return x, error * 3


def fixed_point(x, w, tolerance):
    z, error = dj.zeros(3, dtype=x.dtype), dj.tensor(1.0, dtype=x.dtype)
    while error > tolerance:
        new = dj.tanh(z @ w + x)
        with dj.no_grad():
            error = (new - z).abs().max()
        z = new
    return z @ w + w.sum()


def with_a_break(x, w, tolerance):
    z = dj.tanh(x)
    for k in range(60):  # noqa: B007
        new = dj.tanh(z @ w + x)
        done = (new - z).abs().max() < tolerance
        z = new
        if done:
            break
    return z, k


def with_a_limit(x, w, tolerance):
    z, k = dj.tanh(x), 0
    while z.norm() > tolerance and k < 50:
        z = z * 0.8 + 0.01 * (z @ w)
        k += 1
    return z, k


def stepper(y, rate, tolerance):
    t, y = dj.tensor(0.0, dtype=y.dtype), y * 1.0
    while t < 0.1 + tolerance:
        middle = y - 0.005 * rate * y
        y = y - 0.01 * rate * middle
        t = t + 0.01
    return y, t


def replaced(x, w, tolerance):
    a = x * 1.0
    while a.abs().max() > tolerance:
        a = w * 0.0 + tolerance * 0.5
    return a


X, W = numbers(3), numbers(3, 3, seed=1)
ONE_LOOP = [
    (newton, (dj.tensor([1.5, 2.5, 1.2], dtype=dj.float64),)),
    (fixed_point, (X, W)),
    (with_a_break, (X, W)),
    (with_a_limit, (X, W)),
    (stepper, (X, numbers(3, seed=2))),
    (replaced, (X, numbers(3, seed=2))),
]


def swapped(x, y, tolerance):
    a, b = x * 1.0, y * 1.0
    while a.abs().max() > tolerance:
        a, b = b * 0.7, a * 0.6
    return a, b


def late(x, w, tolerance):
    z = dj.tanh(x)
    for _ in range(60):
        new = dj.tanh(z @ w + x)
        if (new - z).abs().max() < tolerance:
            break
        z = new
    return z


def in_an_arm(x, w, tolerance):
    z = x * 1.0
    for _ in range(20):
        if z.sum() > 0:
            while z.abs().max() > tolerance:
                z = z * 0.5 * w.sum()
        z = z + 0.01 * x
    return z


def in_turns(x, w, tolerance):
    z = x * 1.0
    for _ in range(20):
        z = z + x
        while z.abs().max() > 0.1 + tolerance:
            z = z * 0.5 + 0.01 * w.sum()
    return z


@pytest.mark.parametrize(("function", "args"), ONE_LOOP)
def test_another_number_of_turns_compiles_nothing(function, args):
    compiled = dj.compile(function, fullgraph=True)
    for tolerance in TOLERANCES[:2]:
        same(results(function, args, tolerance), results(compiled, args, tolerance))

    with dj.compiler.set_stance("fail_on_recompile"):
        for tolerance in TOLERANCES[2:]:
            same(results(function, args, tolerance), results(compiled, args, tolerance))


@pytest.mark.parametrize(("function", "args"), ONE_LOOP)
def test_without_a_turn_no_gradient_comes_of_one(function, args):
    """Nor does a tensor that is read only in turns get any."""
    compiled = dj.compile(function)
    for tolerance in (1e-2, 1e-3, 1e3, 1e3, 1e-2):
        given = -tolerance if function is stepper else tolerance
        same(results(function, args, given), results(compiled, args, given))


def test_float32_gives_float32():
    for function, args in ONE_LOOP[1:4]:
        single = tuple(x.float() for x in args)
        compiled = dj.compile(function, fullgraph=True)
        for tolerance in (1e-1, 1e-2, 1e-3):
            same(results(function, single, tolerance), results(compiled, single, tolerance), 1e-4)


@pytest.mark.parametrize(
    ("function", "args"),
    [(swapped, (X, X + 1)), (late, (X, W)), (in_an_arm, (X, W)), (in_turns, (X, W))],
)
def test_other_loops_are_as_in_plain_python(function, args):
    compiled = dj.compile(function)
    for tolerance in TOLERANCES[:4]:
        same(results(function, args, tolerance), results(compiled, args, tolerance))


def second(function: Callable[..., Any], args: tuple[dj.Tensor, ...], tolerance: float) -> Any:
    given = leaves(args)
    found = function(*given, tolerance)
    total = (found[0] if isinstance(found, tuple) else found).sum()
    first = dj.autograd.grad(total, given, create_graph=True)
    sum((part**2).sum() for part in first).backward()
    return [*(part.detach() for part in first), *(x.grad for x in given)]


@pytest.mark.parametrize(("function", "args"), ONE_LOOP[:3])
def test_second_derivatives_are_those_of_eager_execution(function, args):
    compiled = dj.compile(function)
    for tolerance in TOLERANCES[:3]:
        same(second(function, args, tolerance), second(compiled, args, tolerance))


def test_a_second_backward_needs_the_graph_retained():
    compiled = dj.compile(fixed_point)
    for tolerance in TOLERANCES[:3]:
        x, w = leaves((X, W))
        total = compiled(x, w, tolerance).sum()
        total.backward(retain_graph=True)
        first = w.grad.clone()
        total.backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * first.numpy(), 1e-12)
        with pytest.raises(AutogradError, match="second time"):
            total.backward()


def test_a_captured_parameter_gets_the_sum_of_all_turns():
    layer = dj.nn.Linear(3, 3).double()
    layer.weight.data.mul_(0.3)

    def function(x):
        z, error = dj.zeros(3, dtype=x.dtype), dj.tensor(1.0, dtype=x.dtype)
        while error > 1e-6:
            new = dj.tanh(layer(z) + x)
            error = (new - z).detach().abs().max()
            z = new
        return z

    compiled, found = dj.compile(function, fullgraph=True), []
    for call in (function, compiled, compiled):
        layer.zero_grad()
        call(X).sum().backward()
        found.append([parameter.grad.clone() for parameter in layer.parameters()])
    for other in found[1:]:
        same(found[0], other)
