"""Gradients through loops of the graph: what the eager tape gives, and finite differences say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

pytestmark = pytest.mark.one_python


def numbers(*shape: int, seed: int = 0, dtype: Any = dj.float64) -> dj.Tensor:
    return dj.tensor(np.random.default_rng(seed).standard_normal(shape) * 0.4, dtype=dtype)


def recurrent(xs, h, w, u, b):
    for t in range(xs.shape[0]):
        h = dj.tanh(h @ w + xs[t] @ u + b)
    return h


def lstm(xs, h, c, w, u):
    for t in range(xs.shape[0]):
        i, f, g, o = dj.chunk(xs[t] @ w + h @ u, 4, dim=-1)
        c = dj.sigmoid(f) * c + dj.sigmoid(i) * dj.tanh(g)
        h = dj.sigmoid(o) * dj.tanh(c)
    return h, c


def pendulum(x, v, k, n):
    for _ in range(n):
        x, v = x + 0.01 * v, v - 0.01 * k * dj.sin(x)
    return x, v


def runge_kutta(x, k, n):
    h = 0.01
    for step in range(n):
        t = step * h
        k1 = dj.cos(k * x) + t
        k2 = dj.cos(k * (x + h / 2 * k1)) + t
        x = x + h / 2 * (k1 + k2)
    return x


def from_the_end(xs, h):
    for t in range(xs.shape[0] - 1, 0, -2):
        h = dj.tanh(h * 0.9 + xs[t] * xs[-t])
    return h


def by_the_second_dim(xs, h):
    for t in range(xs.shape[1]):
        h = h * 0.9 + xs[:, t] * 0.1
    return h


def rows_again_and_again(xs, h):
    for t in range(60):
        h = dj.sin(h + xs[(t * 3) % 7])
    return h


def whole_and_by_rows(xs, h):
    for t in range(xs.shape[0]):
        h = dj.tanh(h + xs[t]) + 0.01 * xs.mean(0)
    return h


def with_a_count(x, w, n):
    count, seen = dj.zeros(3, dtype=dj.int64), dj.zeros(3)
    for i in range(n):
        count = count + i
        seen = seen * 0.5 + x.detach().sum().float()
        x = x * w + count.double() * 1e-4
    return x, count, seen


def without_gradients_inside(x, w, n):
    for _ in range(n):
        with dj.no_grad():
            scale = (x * w).abs().sum() + 1
        x = dj.tanh(x * w) / scale.sqrt() + x * 0.5
    return x


def detached(x, w, n):
    for _ in range(n):
        x = dj.tanh(x * w.detach() + x.detach() * w)
    return x


def chosen(x, w, n):
    for _ in range(n):
        x = dj.where(x > 0.2, x * w, x + 0.1 * w)
    return x


def maximum(x, w, n):
    for _ in range(n):
        x = dj.relu(x * w + 0.05) + dj.maximum(x, w) * 0.1
    return x


def one_of_two(x, y, n):
    for _ in range(n):
        x, y = x * 0.9 + 0.1 * y.detach(), y * 0.9 + 0.1
    return x, y


def nested(x, w, n):
    for _ in range(n):
        for j in range(n):
            x = x * w + j * 1e-3
    return x


def softmaxes(x, w, n):
    for _ in range(n):
        x = dj.softmax(x @ w, dim=-1) + dj.nn.functional.layer_norm(x, (4,))
    return x


def solves(a, b, n):
    x = dj.zeros_like(b)
    for _ in range(n):
        x = x + 0.1 * (b - a @ x)
    return x


def value_before(x, w, n):
    before = x
    for _ in range(n):
        before = x
        x = x * w
    return before * 2 + x


def all_states(xs, h, w):
    seen = []
    for t in range(xs.shape[0]):
        h = dj.tanh(h @ w + xs[t])
        seen.append(h)
    return dj.stack(seen)


def sums_and_gates(xs, h, w):
    seen, gates = [], []
    for t in range(xs.shape[0]):
        gate = dj.sigmoid(h @ w)
        h = gate * h + xs[t]
        seen.append((gate * h).sum())
        gates.append(gate.detach())
    return dj.stack(seen), h, dj.stack(gates)


def only_what_is_collected(x, w, n):
    seen = []
    for i in range(n):
        seen.append(x * w + i)
    return dj.stack(seen)


def dropped_states(xs, h, w):
    for t in range(xs.shape[0]):
        h = dj.tanh(dj.nn.functional.dropout(h, 0.3, True) @ w + xs[t])
    return h


def noisy(x, scale, n):
    """In turns of loops within turns, too."""
    for i in range(n):
        x = x * 0.9 + scale * dj.randn_like(x)
        for _ in range(9):
            x = x * (1 - 0.01 * dj.rand(4, dtype=dj.float64)) + scale * i * 0.01
    return x


#: Function, arguments (tensors get gradients).
PROGRAMS = [
    (recurrent, (numbers(40, 3, 4), numbers(3, 4, seed=1), numbers(4, 4, seed=2),
                 numbers(4, 4, seed=3), numbers(4, seed=4))),
    (lstm, (numbers(30, 2, 4), numbers(2, 3), numbers(2, 3, seed=1), numbers(4, 12, seed=2),
            numbers(3, 12, seed=3))),
    (pendulum, (numbers(5), numbers(5, seed=1), numbers(seed=2), 60)),
    (runge_kutta, (numbers(5), numbers(1, seed=1), 60)),
    (from_the_end, (numbers(60, 3), numbers(3, seed=1))),
    (by_the_second_dim, (numbers(3, 50, 2), numbers(3, 2, seed=1))),
    (rows_again_and_again, (numbers(7, 3), numbers(3, seed=1))),
    (whole_and_by_rows, (numbers(40, 3), numbers(3, seed=1))),
    (with_a_count, (numbers(3), numbers(3, seed=1), 60)),
    (without_gradients_inside, (numbers(3), numbers(3, seed=1), 40)),
    (chosen, (numbers(6), numbers(6, seed=1), 40)),
    (maximum, (numbers(6), numbers(6, seed=1), 40)),
    (one_of_two, (numbers(6), numbers(6, seed=1), 40)),
    (nested, (numbers(4), numbers(4, seed=1), 20)),
    (softmaxes, (numbers(3, 4), numbers(4, 4, seed=1), 30)),
    (solves, (numbers(4, 4), numbers(4, 2, seed=1), 50)),
    (value_before, (numbers(4), numbers(4, seed=1) + 1, 30)),
    (all_states, (numbers(40, 2, 3), numbers(2, 3, seed=1), numbers(3, 3, seed=2))),
    (sums_and_gates, (numbers(40, 2, 3), numbers(2, 3, seed=1), numbers(3, 3, seed=2))),
    (only_what_is_collected, (numbers(3), numbers(3, seed=1), 30)),
    (dropped_states, (numbers(40, 2, 3), numbers(2, 3, seed=1), numbers(3, 3, seed=2))),
    (noisy, (numbers(4), numbers(4, seed=1), 20)),
]  # fmt: skip

NAMES = [program[0].__name__ for program in PROGRAMS]


def by_rows(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    """Compiled without kernels, which other tests here have: quick."""
    return dj.compile(function, fullgraph=True, backend="numpy", **keywords)


def has_loop(function: Callable[..., Any], *args: Any) -> bool:
    """Whether the graphs of one call have a loop."""
    return any("rows['loop']" in str(graph) for graph in dj.explain(function)(*args).graphs)


def leaves(args: Any, given: Any = None) -> tuple[list[Any], list[dj.Tensor]]:
    """Arguments of which the tensors (those whose places are given) are new leaves; what is drawn
    after that is always the same."""
    dj.manual_seed(5)
    made = [x.detach().clone() if isinstance(x, dj.Tensor) else x for x in args]
    kept = [
        x.requires_grad_()
        for place, x in enumerate(made)
        if isinstance(x, dj.Tensor) and (given is None or place in given)
    ]
    return made, kept


def loss_of(found: Any) -> dj.Tensor:
    """A number in which every element of results counts differently."""
    results = found if isinstance(found, tuple) else (found,)
    total = dj.zeros((), dtype=dj.float64)
    for place, x in enumerate(results):
        if x.requires_grad:
            weights = dj.arange(1.0, x.numel() + 1, dtype=x.dtype).reshape(x.shape)
            total = total + ((place + 1) * weights * x).sum()
    return total


def gradients(function: Callable[..., Any], args: Any, given: Any = None) -> list[Any]:
    """The result and gradients of one call, by `backward` behind it."""
    made, kept = leaves(args, given)
    found = function(*made)
    loss_of(found).backward()
    return [found, *(x.grad for x in kept)]


def assert_close(expected: Any, found: Any, rtol: float = 1e-9) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_close(a, b, rtol)
        return
    if expected is None:
        assert found is None
        return
    assert (expected.dtype, expected.shape, expected.requires_grad) == (
        found.dtype, found.shape, found.requires_grad
    )  # fmt: skip
    expected, found = expected.detach().numpy(), found.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=NAMES)
def test_gradients_are_those_of_the_tape(function, args) -> None:
    """Of all arguments; of each alone."""
    assert has_loop(function, *leaves(args)[0])
    compiled = dj.compile(function, fullgraph=True)
    assert_close(gradients(function, args), gradients(compiled, args))
    for place in [place for place, x in enumerate(args) if isinstance(x, dj.Tensor)][:2]:
        assert_close(gradients(function, args, {place}), gradients(compiled, args, {place}))


#: Those in which nothing is detached: what is moves by finite differences, too.
ATTACHED = [
    program
    for program in PROGRAMS
    if program[0] not in (with_a_count, without_gradients_inside, one_of_two)
]


@pytest.mark.parametrize(
    ("function", "args"), ATTACHED, ids=[program[0].__name__ for program in ATTACHED]
)
def test_gradients_are_those_of_finite_differences(function, args) -> None:
    """Along one direction in all arguments at once."""
    compiled = by_rows(function)
    made, kept = leaves(args)
    loss_of(compiled(*made)).backward()
    ways = [numbers(*x.shape, seed=9 + k) for k, x in enumerate(kept)]
    slope = sum((way * x.grad).sum().item() for way, x in zip(ways, kept, strict=True))

    def moved(step: float) -> float:
        rest = iter(ways)
        at = [x + step * next(rest) if isinstance(x, dj.Tensor) else x for x in args]
        return loss_of(function(*leaves(at)[0])).item()

    assert slope == pytest.approx((moved(1e-5) - moved(-1e-5)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=NAMES)
def test_whole_steps_have_the_same_gradients(function, args) -> None:
    """`backward` within what is compiled."""

    def step(*args):
        loss = loss_of(function(*args))
        loss.backward()
        return loss.detach()

    def run(function: Callable[..., Any]) -> list[Any]:
        made, kept = leaves(args)
        return [function(*made), function(*made), *(x.grad for x in kept)]

    assert_close(run(step), run(by_rows(step)))


def test_a_loop_through_which_nothing_passes_is_one() -> None:
    """All that is handed on is detached."""
    assert_close(
        [detached(numbers(3), numbers(3, seed=1), 40)],
        [dj.compile(detached, fullgraph=True)(numbers(3), numbers(3, seed=1), 40)],
    )
    args = (numbers(3), numbers(3, seed=1), 40)
    assert_close(gradients(detached, args), gradients(dj.compile(detached), args))


def test_float32_has_float32_gradients() -> None:
    args = [x.float() for x in PROGRAMS[0][1]]
    compiled = dj.compile(recurrent, fullgraph=True)
    assert_close(gradients(recurrent, args), gradients(compiled, args), 1e-4)


def test_values_of_two_dtypes_with_gradients_are_unrolled() -> None:
    def function(x, y, n):
        for _ in range(n):
            x, y = x * 0.9 + y.double(), y * 0.5
        return x, y

    args = (numbers(3), numbers(3, dtype=dj.float32), 30)
    assert not has_loop(function, *leaves(args)[0])
    assert_close(gradients(function, args), gradients(dj.compile(function), args), 1e-6)


def test_gradients_are_asked_for_twice() -> None:
    """`retain_graph`, then once more without; a third time is an error."""
    made, kept = leaves(PROGRAMS[0][1])
    loss = loss_of(dj.compile(recurrent, fullgraph=True)(*made))
    loss.backward(retain_graph=True)
    once = [x.grad.clone() for x in kept]
    loss.backward()
    assert_close([2 * x for x in once], [x.grad for x in kept])
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_second_derivatives_are_those_of_the_tape() -> None:
    """Of what a compiled loop gives; the graph's rows run once more on the tape."""

    def second(function: Callable[..., Any]) -> list[Any]:
        made, kept = leaves((numbers(4), numbers(4, seed=1), numbers(seed=2), 30))
        first = dj.autograd.grad(loss_of(function(*made)), kept, create_graph=True)
        loss_of(tuple(x * x for x in first)).backward()
        return [*first, *(x.grad for x in kept)]

    def drawn(x, v, k, n):
        return noisy(x, v * k, n), x

    for function in (pendulum, drawn):
        assert_close(second(function), second(dj.compile(function, fullgraph=True)), 1e-8)


def test_second_derivatives_within_what_is_compiled() -> None:
    def second(x, w, n):
        found = runge_kutta(x, w, n)
        (first,) = dj.autograd.grad(found.sum(), (w,), create_graph=True)
        (first * first).sum().backward()
        return first

    def run(function: Callable[..., Any]) -> list[Any]:
        made, kept = leaves((numbers(4), numbers(1, seed=1), 30))
        return [function(*made), *(x.grad for x in kept)]

    assert_close(run(second), run(dj.compile(second)), 1e-8)


def test_a_weight_that_was_written_since_is_an_error() -> None:
    """As eager execution says; one that no turn needs may be written."""
    for place, is_needed in ((2, True), (4, False)):
        made, _ = leaves(PROGRAMS[0][1])
        loss = loss_of(dj.compile(recurrent, fullgraph=True)(*made))
        with dj.no_grad():
            made[place].mul_(2)
        if is_needed:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        else:
            loss.backward()


def test_forward_mode_and_maps_follow_turns() -> None:
    x, w = numbers(4), numbers(4, seed=1)

    def tangents(x, w):
        return dj.func.jvp(lambda x, w: chosen(x, w, 30), (x, w), (w, x))

    def mapped(x, w):
        return dj.func.vmap(lambda x: dj.func.grad(lambda x: chosen(x, w[0], 30).sum())(x))(x)

    for function in (tangents, mapped):
        assert_close(function(x, w), dj.compile(function)(x, w))


def test_modules_with_loops_are_trained() -> None:
    """Steps of an optimizer, with the loop, its gradients and the update in one function."""

    class Cell(dj.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = dj.nn.Linear(3, 4), dj.nn.Linear(4, 4)

        def forward(self, xs):
            h = dj.zeros(xs.shape[1], 4)
            for t in range(xs.shape[0]):
                h = dj.tanh(self.inner(xs[t]) + self.outer(h))
            return h

    def train(wrap: Callable[[Any], Any]) -> list[float]:
        dj.manual_seed(0)
        cell, xs = Cell(), numbers(30, 2, 3, dtype=dj.float32)
        optimizer = dj.optim.SGD(cell.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = (cell(xs) - 0.5).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        wrapped = wrap(step)
        return [wrapped().item() for _ in range(5)]

    assert train(dj.compile) == pytest.approx(train(lambda function: function), rel=1e-4)


SHORT = [
    (function, args) for function, args in PROGRAMS
    if function in (recurrent, lstm, runge_kutta, from_the_end, rows_again_and_again, with_a_count,
                    value_before, nested, all_states, sums_and_gates, dropped_states, noisy)
]  # fmt: skip


@pytest.mark.parametrize("budget", [0.5, 0.0])
@pytest.mark.parametrize(("function", "args"), SHORT, ids=[f.__name__ for f, _ in SHORT])
def test_a_budget_changes_no_gradient(function, args, budget) -> None:
    """Turns are computed again, behind the call and within a whole step."""
    options = {"activation_memory_budget": budget}
    assert_close(gradients(function, args), gradients(by_rows(function, options=options), args))

    def step(*args):
        found = function(*args)
        loss_of(found).backward()
        return found

    made, kept = leaves(args)
    found = by_rows(step, options=options)(*made)
    found = tuple(x.detach() for x in found) if isinstance(found, tuple) else found.detach()
    expected, *slopes = gradients(function, args)
    is_one = isinstance(expected, dj.Tensor)
    assert_close(expected.detach() if is_one else tuple(x.detach() for x in expected), found)
    assert_close(slopes, [x.grad for x in kept])


def test_whole_steps_have_kernels_with_and_without_a_budget() -> None:
    """One program of each kind, compiled to the end."""
    args = PROGRAMS[0][1]

    def step(*args):
        recurrent(*args).sin().sum().backward()

    def run(function: Callable[..., Any]) -> list[Any]:
        made, kept = leaves(args)
        function(*made)
        return [x.grad for x in kept]

    expected = run(step)
    for options in (None, {"activation_memory_budget": 0.2}):
        assert_close(expected, run(dj.compile(step, fullgraph=True, options=options)))


def test_a_budget_has_less_saved_of_a_thousand_turns() -> None:
    """In bytes; what one segment keeps, and what is carried into each, is left."""

    def function(x, w):
        for _ in range(1000):
            x = x + 0.01 * dj.sin(x * w)
        return x

    args, _ = leaves((numbers(8, 8), numbers(8, 8, seed=1)))
    saved = {}
    for budget in (1.0, 0.5, 0.1, 0.0):
        options = {} if budget == 1 else {"activation_memory_budget": budget}
        (record,) = dj.explain(function, options=options)(*args).records
        saved[budget] = record.saved_bytes
    assert saved[1.0] > 997 * 8 * 64
    for budget in (0.5, 0.1):
        assert saved[budget] <= budget * saved[1.0]
    assert saved[0.0] <= 0.08 * saved[1.0]


def test_what_does_not_lead_to_the_loss_has_no_gradient() -> None:
    """None, not zeros, as on the tape: values that are handed on beside each other."""

    def function(x, y, z, v, w, n):
        for _ in range(n):
            x, y, z = x * v, z * w, y + 1.0
        return x, y, z

    args = (*(numbers(3, seed=k) for k in range(5)), 31)
    for places in ((0,), (1,), (2,), (1, 2), (0, 2)):

        def chosen_results(*args, places=places):
            found = function(*args)
            return tuple(found[place] for place in places)

        def step(*args, places=places):
            found = function(*args)
            loss_of(tuple(found[place] for place in places)).backward()

        expected = gradients(chosen_results, args)
        assert any(x is None for x in expected) or places == (0, 2)
        assert_close(expected, gradients(by_rows(chosen_results), args))
        made, kept = leaves(args)
        found = by_rows(function)(*made)
        loss_of(tuple(found[place] for place in places)).backward()
        assert_close(expected[1:], [x.grad for x in kept])
        made, kept = leaves(args)
        by_rows(step)(*made)
        assert_close(expected[1:], [x.grad for x in kept])


# ---------------------------------------------------------------------------------------------
# gradients that end in each turn, at tensors that turns hand on


def leaf(x):
    return x.detach().requires_grad_(True)


def loss_of_batch(w, batch, target):
    return ((batch @ w - target) ** 2).mean()


def trained(batches, targets, w):
    w, total, losses = w.clone().requires_grad_(True), 0.0, []
    for k in range(batches.shape[0]):
        loss = loss_of_batch(w, batches[k], targets[k])
        (slope,) = dj.autograd.grad(loss, w)
        total += loss.item()
        losses.append(loss.detach())
        w = (w - 0.1 * slope).detach().requires_grad_(True)
    return w, total, dj.stack(losses)


def trained_with_momentum(batches, targets, w):
    w, offset, speed = leaf(w), leaf(dj.zeros(1, dtype=w.dtype)), dj.zeros_like(w)
    for k in range(batches.shape[0]):
        loss = loss_of_batch(w, dj.tanh(batches[k]), targets[k] - offset)
        slope, other = dj.autograd.grad(loss, (w, offset))
        speed = 0.9 * speed + slope
        w, offset = leaf(w - 0.1 * speed), leaf(offset - 0.1 * other)
    return w, offset, speed


def differentiated_afterwards(batches, targets, w):
    w = leaf(w)
    for k in range(batches.shape[0]):
        (slope,) = dj.autograd.grad(loss_of_batch(w, batches[k], targets[k]), w)
        w = leaf(w - 0.1 * slope)
    (slope,) = dj.autograd.grad((w**3).sum(), w)
    return w, slope


def beside_another_gradient(batches, targets, w):
    given, w = w * 1.0, leaf(w)
    for k in range(batches.shape[0]):
        (slope,) = dj.autograd.grad(loss_of_batch(w, batches[k], targets[k]), w)
        w = leaf(w - 0.1 * slope)
        given = dj.tanh(given * 0.9)
    return w, given


def under_two_names(batches, targets, w):
    w, before = leaf(w), leaf(w * 2)
    for k in range(batches.shape[0]):
        loss = loss_of_batch(w, batches[k], targets[k]) + (before * w).sum() * 0.01
        (slope,) = dj.autograd.grad(loss, w)
        before, w = w, leaf(w - 0.1 * slope)
    return w, before


def kept_in_a_list(batches, targets, w):
    w, kept = leaf(w), []
    for k in range(batches.shape[0]):
        (slope,) = dj.autograd.grad(loss_of_batch(w, batches[k], targets[k]), w)
        kept.append(w)
        w = leaf(w - 0.1 * slope)
    return w, kept


def with_a_grad_attribute(batches, targets, w):
    w = leaf(w)
    for k in range(batches.shape[0]):
        loss_of_batch(w, batches[k], targets[k]).backward()
        w = leaf(w - 0.1 * w.grad)
    return w, w.grad


def with_the_history_of_all_turns(batches, targets, w):
    w, total = leaf(w), 0
    for k in range(batches.shape[0]):
        loss = loss_of_batch(w, batches[k], targets[k])
        total = total + loss
        (slope,) = dj.autograd.grad(loss, w, retain_graph=True)
        w = leaf(w - 0.1 * slope)
    return w, total


HANDED_ON = [trained, trained_with_momentum, differentiated_afterwards, beside_another_gradient]
NOT_HANDED_ON = [
    under_two_names, kept_in_a_list, with_a_grad_attribute, with_the_history_of_all_turns,
]  # fmt: skip


def leaves_of(value: Any) -> list[Any]:
    return [x for part in value for x in (leaves_of(part) if type(part) is list else [part])]


@pytest.mark.parametrize("function", [*HANDED_ON, *NOT_HANDED_ON])
def test_turns_may_differentiate_at_what_they_hand_on(function) -> None:
    """Results and gradients of results are the tape's; a leaf is a leaf of no history."""
    random = np.random.default_rng(3)
    batches, targets = dj.tensor(random.normal(size=(25, 8, 3))), dj.tensor(random.normal(size=25))
    found = []
    for call in (function, dj.compile(function)):
        w = dj.tensor([0.5, -1.0, 2.0], dtype=dj.float64).requires_grad_()
        results = leaves_of(call(batches, targets, w))
        needing = [x for x in results if isinstance(x, dj.Tensor) and x.requires_grad]
        sum((k + 1) * (x * x).sum() for k, x in enumerate(needing)).backward()  # type: ignore[union-attr]
        flags = [(x.is_leaf, x.requires_grad) for x in results if isinstance(x, dj.Tensor)]
        numbers = [x.detach().numpy() if isinstance(x, dj.Tensor) else x for x in results]
        slopes = [None if x.grad is None else x.grad.numpy() for x in (w, *needing) if x.is_leaf]
        found.append((flags, [*numbers, *slopes]))
    assert found[0][0] == found[1][0]
    for expected, own in zip(found[0][1], found[1][1], strict=True):
        assert (expected is None) is (own is None)
        if expected is not None:
            np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", HANDED_ON)
def test_a_graph_of_training_does_not_grow_with_its_batches(function) -> None:
    w = dj.tensor([0.5, -1.0, 2.0])
    few, many = (
        dj.explain(function)(dj.ones(n, 8, 3), dj.ones(n, 8), w).graphs for n in (10, 1000)
    )
    assert len(few) == len(many) == 1 and len(few[0].nodes) == len(many[0].nodes)
