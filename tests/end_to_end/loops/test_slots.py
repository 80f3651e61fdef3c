"""What turns change outside of variables: attributes, items of lists and dicts, global variables,
and tuples that turns make anew. One loop of the graph, and objects as plain Python leaves them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from tests.end_to_end.loops.test_collected import loops_of

X = dj.arange(3.0) * 0.1
TOTAL = 0


class Holder:
    """Something with attributes."""

    def __init__(self) -> None:
        self.x = X + 0.5
        self.steps, self.time, self.last, self.best, self.is_on = 0, 0.0, -1, -1, False
        self.state = {"step": 0, "mean": X * 0}
        self.items = [X + 1, X + 2]
        self.pair: Any = None


class State(NamedTuple):
    """What turns hand on."""

    h: Any
    steps: Any


@dataclass
class Point:
    """The same as a dataclass."""

    h: Any
    steps: Any


class Steps(nn.Module):
    """A module that counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        dj.manual_seed(0)
        self.linear = nn.Linear(3, 3).requires_grad_(False)
        self.steps = 0
        self.register_buffer("mean", dj.zeros(3))

    def forward(self, x, n):
        for _ in range(n):
            x = self.linear(x).tanh()
            self.mean = self.mean * 0.9 + x * 0.1
            self.steps += 1
        return x


def attributes(o, x, n):
    for i in range(n):
        o.x = o.x * 0.9 + x
        o.steps += 1
        o.time += 0.5 * i
        o.last = i
    return o.x


def by_an_argument(o, x, n, dt=0.1):
    for _ in range(n):
        o.x = o.x + dt
        o.time += dt
        o.steps += o.steps % 2 * 0 + 1
    return o.x


def one_object_under_two_names(o, x, n):
    h = o.x
    for _ in range(n):
        h = h * 0.9 + x
        o.x = h
    return h, o.x is h


def of_a_turn_before(o, x, n):
    o.pair = o.x
    for _ in range(n):
        before = o.pair
        o.x = o.x * 0.9 + before * 0.1
        o.pair = o.x
    return o.pair is o.x, before is o.x


def swapped(o, x, n):
    other = Holder()
    for _ in range(n):
        o.x, other.x = other.x, o.x * 0.9 + x
    return o.x + other.x


def a_dict(o, x, n):
    state = o.state
    for _ in range(n):
        state["step"] += 1
        state["mean"] = state["mean"] * 0.9 + 0.1 * x
        o.x = o.x - state["mean"] / state["step"]
    return o.x


def a_list(o, x, n):
    for i in range(n):
        o.items[0] = o.items[1] * 0.9 + x
        o.items[1] = o.items[0] + i
    return o.items


def a_global_variable(o, x, n):
    global TOTAL
    TOTAL = 0
    for i in range(n):
        x = x * 0.9
        TOTAL += i
    return x, TOTAL


def a_variable_of_a_closure(o, x, n):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y * 0.9

    for _ in range(n):
        x = step(x)
    return x, count


def in_an_inner_loop(o, x, n):
    for _ in range(n):
        for _ in range(3):
            o.x = o.x * 0.9 + x
            o.steps += 1
        o.last += 1
    return o.x


def counted_where_the_counter_says(o, x, n):
    for i in range(n):
        o.x = o.x * 0.5 + i
        if i % 5 == 4:
            o.steps += 1
            o.last = i
    return o.x


def counted_where_data_says(o, x, n):
    for i in range(n):
        o.x = o.x * 0.9 - x
        if o.x.sum() > 0:
            o.steps += 1
        if o.x.max() > 0.2:
            o.best = i
    return o.x


def one_object_that_an_arm_leaves_twice(o, x, n):
    best = o.pair = x + 0
    for i in range(n):
        y = x * 0.9 + 0.1 * i
        if y.sum() > best.sum():
            best = o.pair = y
    return best, best is o.pair


def a_dict_that_arms_write(o, x, n):
    found = {"low": x * 0, "high": x * 0 + 2, "lower": 0}
    for _ in range(n):
        middle = (found["low"] + found["high"]) / 2
        if (middle * middle).sum() > 2:
            found["high"] = middle
        else:
            found["low"] = middle
            found["lower"] += 1
    return found


def until_data_say_so(o, x, n):
    y = x + 1
    while (y * y).sum() > 1e-3:
        y = y * 0.5
        o.steps += 1
        o.time += 0.25
    return y


def until_data_or_a_counter_say_so(o, x, n):
    o.x, o.steps = x + 1, 0
    for i in range(n):
        new = o.x * 0.5
        if new.max() < 0.01:
            break
        o.x = new
        o.steps += 1
        o.last = i
    return o.x


def a_tuple(o, x, n):
    state = (x, x * 0)
    for _ in range(n):
        state = _cell(x, state)
    return state


def tuples_within_tuples(o, x, n):
    state = (x, (x * 0, 1), 0.5)
    for i in range(n):
        a, (b, k), t = state
        state = (a * 0.9 + i, (b + a, k + 2), t + 0.5)
    return state


def tuples_in_a_list(o, x, n):
    states = [(x, x * 0), (x + 1, x * 0)]
    for _ in range(n):
        y = x
        for layer in range(2):
            states[layer] = _cell(y, states[layer])
            y = states[layer][0]
    return states


def a_named_tuple(o, x, n):
    state = State(x, 0)
    for _ in range(n):
        state = State(state.h * 0.9 + 1, state.steps + 1)
    return state


def a_named_tuple_with_parts_replaced(o, x, n):
    state = State(x, (0, x * 0))
    for i in range(n):
        state = state._replace(h=state.h * 0.9 + state.steps[1])
        state = state._replace(steps=(i, state.h))
    return state


def a_dataclass(o, x, n):
    state = Point(x, 0)
    for _ in range(n):
        state = Point(state.h * 0.9 + 1, state.steps + 1)
    return state.h, state.steps


def weights_in_a_list(o, x, n):
    weights = [x, x + 1, x + 2]
    for _ in range(n):
        slopes = [w * 2 for w in weights]
        weights = [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)]
    return weights


def weights_in_dicts(o, x, n):
    weights = {"w": x, "b": x * 0}
    means = {k: w * 0 for k, w in weights.items()}
    for _ in range(n):
        slopes = {k: w * 2 for k, w in weights.items()}
        means = {k: 0.9 * means[k] + slopes[k] for k in weights}
        weights = {k: weights[k] - 0.1 * means[k] for k in weights}
    return weights, means


def a_list_that_is_filled(o, x, n):
    weights = [x, x]
    for i in range(n):
        new = []
        for w in weights:
            new.append(w * 0.9 + i)
        weights = new
    return weights


def lists_in_lists(o, x, n):
    pairs = [[x, 1], [x + 1, 2]]
    for _ in range(n):
        pairs = [[a * 0.9 + k, k] for a, k in pairs]
    return pairs


def objects_in_objects(o, x, n):
    a = Point(x, Point(x + 1, 0))
    for i in range(n):
        a = Point(a.h * 0.9, Point(a.steps.h + i, i))
    return a.h, a.steps.h, a.steps.steps


def a_tuple_that_turns_around(o, x, n):
    pair = (x, x + 1)
    for _ in range(n):
        pair = (pair[1], pair[0] * 0.9)
    return pair


def a_tuple_of_the_best(o, x, n):
    best = (0, 1e9)
    for i in range(n):
        x = x * 0.9 + 0.001 * i * i
        value = x.sum().item()
        if value < best[1]:
            best = (i, value)
    return best, x


def _cell(x, state):
    h, c = state
    c = c * 0.5 + x
    return (h + c).tanh(), c


def attributes_that_come(o, x, n):
    for i in range(n):
        o.x = o.x * 0.5
        setattr(o, f"extra{i % 3}", i)
    return o.x


def an_attribute_that_goes(o, x, n):
    for i in range(n):
        if hasattr(o, "gone"):
            del o.gone
        o.gone = i
        o.x = o.x * 0.9 + x
    return o.x


def another_class_in_the_last_turn(o, x, n):
    for i in range(n):
        o.x = o.x * 0.9
        o.steps = 1.5 if i == n - 1 else i
    return o.x


def a_list_that_is_gone_through(o, x, n):
    items = list(dj.stack([x + i for i in range(12)]).unbind())
    for i, item in enumerate(items):
        o.x = o.x * 0.9 + item
        if i + 1 < len(items):
            items[i + 1] = item * 2
    return o.x, items


def a_truth_that_flips(o, x, n):
    for _ in range(n):
        o.x = o.x * 0.9 + x
        o.is_on = not o.is_on
    return o.x


def a_list_that_another_one_holds(o, x, n):
    weights, seen = [x, x], []
    for i in range(n):
        weights = [w * 0.9 + i for w in weights]
        seen.append(weights)
    return weights, seen, n == 0 or seen[-1] is weights


def a_list_that_an_object_holds(o, x, n):
    weights = [x, x]
    o.pair = weights
    for i in range(n):
        weights = [w * 0.9 + i for w in weights]
        o.pair = weights
    return weights, o.pair is weights


def a_list_that_is_written_later(o, x, n):
    weights = old = [x, x]
    for i in range(n):
        old = weights
        weights = [w * 0.9 + i for w in weights]
        old[0] = weights[1]
    return weights, old, old is weights


def a_node_that_holds_itself(o, x, n):
    node = Point(x, None)
    for _ in range(n):
        node = Point(node.h * 0.9, None)
        node.steps = node
    return node.h, node.steps is node


def a_node_that_stays(o, x, n):
    node = Point(x, Point(x + 1, None))
    for _ in range(n):
        inner = node.steps
        node = Point(inner.h * 0.9, inner)
        inner.h = inner.h + 1
    return node.h, node.steps.h


def a_growing_tuple(o, x, n):
    seen = (x,)
    for i in range(n):
        seen = (*seen, x * i)
    return seen


LOOPS = [
    another_class_in_the_last_turn,
    attributes, by_an_argument, one_object_under_two_names, of_a_turn_before, swapped, a_dict,
    a_list, a_global_variable, a_variable_of_a_closure, in_an_inner_loop,
    counted_where_the_counter_says, counted_where_data_says, a_truth_that_flips,
    a_dict_that_arms_write, one_object_that_an_arm_leaves_twice,
    until_data_say_so, until_data_or_a_counter_say_so, a_tuple, tuples_within_tuples,
    a_dataclass, weights_in_a_list, weights_in_dicts, a_list_that_is_filled, lists_in_lists,
    objects_in_objects, tuples_in_a_list, a_named_tuple, a_named_tuple_with_parts_replaced,
    a_tuple_that_turns_around, a_tuple_of_the_best,
]  # fmt: skip
OTHERS = [
    attributes_that_come, an_attribute_that_goes,
    a_list_that_is_gone_through, a_growing_tuple, a_list_that_another_one_holds,
    a_list_that_an_object_holds, a_list_that_is_written_later, a_node_that_stays,
]  # fmt: skip


def shown(value: Any) -> Any:
    """Classes and values, of what objects and containers hold."""
    if isinstance(value, dj.Tensor):
        return ["tensor", str(value.dtype), value.requires_grad, value.detach().numpy().tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shown, value)]
    if isinstance(value, dict):
        return [(key, shown(item)) for key, item in value.items()]
    if isinstance(value, Holder):
        return shown(vars(value))
    return [type(value).__name__, value]


def assert_alike(expected: Any, found: Any) -> None:
    """Equal, floats up to their last digits."""
    if isinstance(expected, (list, tuple)):
        assert type(expected) is type(found)
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_alike(a, b)
    elif isinstance(expected, float):
        assert type(found) is float
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
    else:
        assert found == expected


def outcome(function: Any, n: int) -> Any:
    """What a call gives, and what it leaves of its object."""
    holder = Holder()
    return shown([function(holder, X, n), holder])


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS], ids=lambda f: f.__name__)
def test_objects_are_left_as_plain_python_leaves_them(function: Any) -> None:
    """For many numbers of turns, called twice with the first."""
    compiled = dj.compile(function)
    for n in (20, 20, 9, 33, 1, 0, 50):
        if n or function is not of_a_turn_before:  # it reads a variable of its turns
            assert_alike(outcome(function, n), outcome(compiled, n))


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_turns_that_change_them_are_one_loop(function: Any) -> None:
    """In one graph."""
    report = dj.explain(function)(Holder(), X, 40)
    assert report.graph_count == 1
    assert loops_of(function, Holder(), X, 40) >= 1


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.__name__)
def test_turns_that_change_more_are_unrolled(function: Any) -> None:
    assert loops_of(function, Holder(), X, 40) == 0


def test_a_node_that_holds_itself_is_that_of_plain_python() -> None:
    compiled = dj.compile(a_node_that_holds_itself)
    for n in (20, 9):
        assert_alike(outcome(a_node_that_holds_itself, n), outcome(compiled, n))


def test_a_module_that_counts_its_steps_needs_no_version_for_each_count() -> None:
    """Steps and buffers are those of plain Python; two versions serve all calls."""
    plain, module = Steps(), Steps()
    compiled = dj.compile(module)
    for _ in range(6):
        np.testing.assert_allclose(compiled(X, 20).numpy(), plain(X, 20).numpy(), rtol=1e-5)
        np.testing.assert_allclose(module.mean.numpy(), plain.mean.numpy(), rtol=1e-5)
        assert (module.steps, type(module.steps)) == (plain.steps, int)
    assert "mean" in dict(module.named_buffers())
    assert len(compiled.report().recompiles) <= 1


def test_a_count_that_fits_no_int64_is_that_of_plain_python() -> None:
    """The launch refuses what it would have to compute in too few bits."""
    compiled = dj.compile(attributes)
    for first in (0, 3, (1 << 63) - 5, 1 << 80, -(1 << 63)):
        holder = Holder()
        holder.steps = first
        compiled(holder, X, 30)
        assert holder.steps == first + 30


def test_a_turn_that_raises_leaves_what_plain_python_leaves() -> None:
    def run(o, x, n):
        for i in range(n):
            o.steps += 1
            o.x = o.x + x[i]
        return o.x

    for function in (run, dj.compile(run)):
        holder = Holder()
        with pytest.raises(IndexError):
            function(holder, dj.arange(12.0), 30)
        assert holder.steps == 13
        np.testing.assert_allclose(holder.x.numpy(), (X + 0.5).numpy() + 66.0)
