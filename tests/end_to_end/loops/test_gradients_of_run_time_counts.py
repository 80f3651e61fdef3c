"""Gradients through loops over `range(n)` of an int that varies: one version, as the eager tape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, GraphBreakError

pytestmark = pytest.mark.one_python

COUNTS = (20, 30, 17, 150, 18, 64, 20)


def numbers(*shape: int, seed: int = 0, dtype: Any = dj.float64) -> dj.Tensor:
    return dj.tensor(np.random.default_rng(seed).standard_normal(shape) * 0.4, dtype=dtype)


def pendulum(x, v, k, n):
    for _ in range(n):
        x, v = x + 0.01 * v, v - 0.01 * k * dj.sin(x)
    return x, v


def rows(xs, h, w, n):
    for t in range(n):
        h = dj.tanh(h @ w + xs[t])
    return h


def used_behind(x, w, n):
    for i in range(n):  # noqa: B007
        x = x * w
    return x * w + w.sum(), i


def partly_without_gradients(x, w, n):
    kept, count, k = dj.zeros(3, dtype=dj.float64), dj.zeros(3, dtype=dj.int64), 0
    for i in range(n):
        with dj.no_grad():
            kept = kept * 0.9 + x
        count = count + i
        k += 2
        x = dj.sin(x * w) + kept * 0.1 + count.double() * 1e-4
    return x, kept, count, k


def branches(x, w, n):
    for _ in range(n):
        if x.sum() > 1:
            x = x * 0.5 * w
        else:
            x = x + 0.3 * w
    return x


def two_loops(x, w, n):
    for _ in range(n):
        x = dj.sin(x + w)
    for _ in range(n + 3):
        x = dj.cos(x * w)
    return x


def with_an_inner_loop(x, w, n):
    for _ in range(n):
        for _ in range(20):
            x = dj.sin(x * w + 0.1)
    return x


def from_zeros(x, w, n):
    h = dj.zeros(3, dtype=x.dtype)
    for _ in range(n):
        h = dj.tanh(h * w + x)
    return h


def product(a, n):
    r = a
    for _ in range(n):
        r = r @ a
        r = r / r.norm()
    return r


def swapped(x, y, w, n):
    for _ in range(n):
        x, y = y, x * w
    return x


def in_both(x, w, n):
    for _ in range(n):
        for _ in range(n - 1):
            x = dj.sin(x * w)
    return x


def drawn(x, w, n):
    for _ in range(n):
        x = dj.sin(dj.nn.functional.dropout(x, 0.2, True) + w * dj.randn_like(x))
    return x * dj.rand(3, dtype=x.dtype)


TWO = numbers(3), numbers(3, seed=1)
THREE = *TWO, numbers(3, seed=2)
ONE_VERSION = [
    (pendulum, THREE),
    (rows, (numbers(200, 3), numbers(3), numbers(3, 3))),
    (used_behind, TWO),
    (partly_without_gradients, TWO),
    (branches, TWO),
    (two_loops, TWO),
    (with_an_inner_loop, TWO),
    (from_zeros, TWO),
    (product, (numbers(4, 4),)),
    (drawn, TWO),
]


def leaves(args: tuple[dj.Tensor, ...], needing: int = -1) -> list[dj.Tensor]:
    dj.manual_seed(5)
    return [
        x.detach().clone().requires_grad_(bool(needing >> place & 1))
        for place, x in enumerate(args)
    ]  # fmt: skip


def results(
    function: Callable[..., Any], args: tuple[dj.Tensor, ...], last: Any, needing: int = -1
) -> list[Any]:
    """What a call gives, which of it needs a gradient, then the gradients of its arguments.

    Args:
        last: argument: a number of turns, or what ends them.
        needing: bits of the arguments that need a gradient.
    """
    given = leaves(args, needing)
    found = function(*given, last)
    found = found if isinstance(found, tuple) else (found,)
    tensors = [x for x in found if isinstance(x, dj.Tensor)]
    parts = [x for x in tensors if x.requires_grad]
    if parts:
        sum((place + 1.0) * x.sum() for place, x in enumerate(parts)).backward()
    plain = [x.detach() if isinstance(x, dj.Tensor) else x for x in found]
    return [*plain, *(x.requires_grad for x in tensors), *(x.grad for x in given)]


def same(expected: list[Any], found: list[Any], tolerance: float = 1e-8) -> None:
    for a, b in zip(expected, found, strict=True):
        assert type(a) is type(b)
        if not isinstance(a, dj.Tensor):
            assert a == b
            continue
        assert a.dtype is b.dtype
        np.testing.assert_allclose(b.numpy(), a.numpy(), tolerance, tolerance * 1e-2)


@pytest.mark.parametrize(("function", "args"), ONE_VERSION)
def test_the_third_count_compiles_nothing(function, args):
    compiled = dj.compile(function, fullgraph=True)
    for n in COUNTS[:2]:
        same(results(function, args, n), results(compiled, args, n))

    with dj.compiler.set_stance("fail_on_recompile"):
        for n in COUNTS[2:]:
            same(results(function, args, n), results(compiled, args, n))


def test_float32_gives_float32():
    args = tuple(x.float() for x in THREE)
    compiled = dj.compile(pendulum, fullgraph=True)
    for n in COUNTS:
        same(results(pendulum, args, n), results(compiled, args, n), 1e-4)


@pytest.mark.parametrize("function", [used_behind, from_zeros, branches])
def test_few_turns_have_versions_of_their_own(function):
    compiled = dj.compile(function)
    for n in (20, 30, 16, 2, 1, 40):
        same(results(function, TWO, n), results(compiled, TWO, n))


@pytest.mark.parametrize(("function", "args"), [(swapped, THREE), (in_both, TWO)])
def test_where_the_number_decides_who_gets_a_gradient_each_has_a_version(function, args):
    """So it is where a second derivative would ask for a number that an inner loop has."""
    compiled = dj.compile(function)
    for n in (20, 21, 24):
        same(results(function, args, n), results(compiled, args, n))


def test_only_leaves_that_ask_get_a_gradient():
    compiled = dj.compile(pendulum)
    for needing in range(8):
        for n in (20, 30, 40):
            same(results(pendulum, THREE, n, needing), results(compiled, THREE, n, needing))


def test_without_gradients_the_same_values_come():
    compiled = dj.compile(pendulum)
    for n in (20, 30, 40):
        results(compiled, THREE, n)
        with dj.no_grad():
            found = compiled(*leaves(THREE), n)
            assert not any(x.requires_grad for x in found)
            same([*pendulum(*leaves(THREE), n)], [*found])


def test_a_second_backward_needs_the_graph_retained():
    compiled = dj.compile(used_behind)
    for n in (20, 30, 40):
        x, w = leaves(TWO)
        total = compiled(x, w, n)[0].sum()
        total.backward(retain_graph=True)
        first = w.grad.clone()
        total.backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * first.numpy(), 1e-12)
        with pytest.raises(AutogradError, match="second time"):
            total.backward()


def test_what_was_written_since_is_refused_as_in_eager_execution():
    compiled = dj.compile(product)
    for n in (20, 30, 40):
        for function in (product, compiled):
            a = numbers(4, 4).requires_grad_() * 1
            y = function(a, n).sum()
            a.detach().add_(1.0)
            with pytest.raises(AutogradError, match="inplace"):
                y.backward()


def second(function: Callable[..., Any], n: int) -> list[Any]:
    x, w = leaves(TWO)
    first = dj.autograd.grad(function(x, w, n).sum(), (x, w), create_graph=True)
    sum((part**2).sum() for part in first).backward()
    return [*(part.detach() for part in first), x.grad, w.grad]


@pytest.mark.parametrize("function", [two_loops, with_an_inner_loop, in_both, drawn])
def test_second_derivatives_are_those_of_eager_execution(function):
    compiled = dj.compile(function)
    for n in (20, 25, 28):
        same(second(function, n), second(compiled, n))


def penalty(x, w, n):
    y = from_zeros(x, w, n).sum()
    first = dj.autograd.grad(y, (x, w), create_graph=True)
    return sum((part**2).sum() for part in first)


def plain_penalty(x, w, n):
    y = from_zeros(x, w, n).sum()
    return dj.autograd.grad(y, (x, w))


def test_second_derivatives_within_the_function_end_the_graph():
    compiled = dj.compile(penalty)
    for n in (20, 30, 40):
        same(results(penalty, TWO, n), results(compiled, TWO, n))
    whole = dj.compile(penalty, fullgraph=True)
    results(whole, TWO, 20)
    with pytest.raises(GraphBreakError, match="known at run time only"):
        results(whole, TWO, 30)


def test_backward_within_the_function_compiles_no_number_anew():
    compiled = dj.compile(plain_penalty, fullgraph=True)
    for n in (20, 30):
        same([*plain_penalty(*leaves(TWO), n)], [*compiled(*leaves(TWO), n)])

    with dj.compiler.set_stance("fail_on_recompile"):
        for n in (17, 100):
            same([*plain_penalty(*leaves(TWO), n)], [*compiled(*leaves(TWO), n)])
