"""Lists that turns append to: one loop of the graph, and the list that plain Python leaves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

X = dj.arange(6.0)
IMAGES = dj.arange(24.0).reshape(2, 3, 4)


class Holder:
    """A list that existed before."""

    def __init__(self) -> None:
        self.seen: list[Any] = []


def stacked(x, n):
    seen = []
    for i in range(n):
        x = x * 0.9 + i
        seen.append(x)
    return dj.stack(seen)


def in_front(x, n):
    seen = []
    for i in range(n):
        seen.append(x)
        x = x * 0.9 + i
    return seen, x


def joined(x, n):
    seen = []
    for i in range(n):
        x = dj.sin(x) + i
        seen.append(x)
    return dj.cat(seen), dj.stack(seen, -1), dj.vstack(seen), dj.stack(seen[3:-3]).mean(0)


def joined_images(x, n):
    seen = [x, x + 1]
    for _ in range(n):
        x = x * 0.9
        seen.append(x)
    return dj.cat(seen, 1), dj.cat(seen, 2), dj.stack(seen, 2), dj.stack(seen[5:9], 3)


def some(x, n):
    seen = []
    for _ in range(n):
        x = x * 0.9
        seen.append(x + 1)
    return seen[0], seen[7], seen[-1], sum(seen), len(seen), seen[::5], max(map(len, seen))


def tuples(x, n):
    seen = []
    for i in range(n):
        before, x = x, x * 0.5 + i
        seen.append((i, x, before, i * 0.5, "turn"))
    return seen, before, x


def several(x, y, n):
    first, second = [], [y]
    for _ in range(n):
        x, y = y * 0.9, x + 1
        first.append(x)
        first.append(y)
        second.append(x)
    return first, second, x


def not_handed_on(x, n):
    seen = []
    for i in range(n):
        seen.append(x * i)
    return seen


def in_an_outer_loop(x, n):
    seen = []
    for i in range(n):
        for _ in range(n):
            x = x * 0.9 + i
        seen.append(x)
    return dj.stack(seen)


def in_an_inner_loop(x, n):
    seen = []
    for i in range(2):
        for _ in range(n):
            x = x * 0.9 + i
            seen.append(x)
    return dj.stack(seen), x


def written_afterwards(x, n):
    seen = []
    for _ in range(n):
        x = x * 0.9
        seen.append(x)
    seen[4] += 1
    seen[5][2] = 7
    x += 1
    return dj.stack(seen), seen[4], seen[5], seen[-1] is x


def a_constant(x, y, n):
    seen = []
    for _ in range(n):
        x = x * 0.9
        seen.append(y)
        seen.append(x)
    return seen


def written_later(x, n):
    seen = []
    x = x * 1
    for _ in range(n):
        seen.append(x)
        x += 1
    return seen


def of_a_holder(x, holder, n):
    for _ in range(n):
        x = x * 0.9
        holder.seen.append(x)
    return x


def arrays(x, n):
    seen, sums = [], []
    for i in range(n):
        x = np.sin(x) + i
        seen.append(x)
        sums.append(x.sum())
    return np.stack(seen), np.array(sums), seen[3], sums[4]


COLLECTED = [
    (stacked, (X, 40)), (in_front, (X, 40)), (joined, (X, 40)), (joined_images, (IMAGES, 30)),
    (some, (X, 40)), (tuples, (X, 40)), (several, (X, X + 1, 40)), (not_handed_on, (X, 40)),
    (in_an_outer_loop, (X, 20)), (in_an_inner_loop, (X, 20)), (written_afterwards, (X, 40)),
    (a_constant, (X, X + 1, 40)), (written_later, (X, 40)), (arrays, (np.arange(6.0), 40)),
]  # fmt: skip


def reads_the_list(x, n):
    seen = [x]
    for _ in range(n):
        x = seen[-1] * 0.9
        seen.append(x)
    return seen


def asks_for_the_length(x, n):
    seen = []
    for _ in range(n):
        x = x + len(seen)
        seen.append(x)
    return seen


def iterates_over_it(x, n):
    seen = [x]
    for _ in range(n):
        x = sum(seen) * 0.1
        seen.append(x)
    return seen


def views(x, n):
    seen = []
    for i in range(n):
        seen.append(x[i % 3 :])
    return seen


def a_part_of_what_is_handed_on(x, n):
    seen = []
    for _ in range(n):
        x = x * 0.9
        seen.append(x[1:])
    return seen, x


def other_shapes(x, n):
    seen = []
    for i in range(n):
        seen.append(x[: i % 4] + 1)
    return seen


def pops(x, n):
    seen = [x] * 5
    for _ in range(n):
        x = x * 0.9
        seen.append(x)
        seen.pop(0)
    return seen


def another_list_is_kept(x, n):
    seen = []
    for _ in range(n):
        x = x * 0.9
        seen.append([x])
    return seen


UNROLLED = [
    reads_the_list, asks_for_the_length, iterates_over_it, views, a_part_of_what_is_handed_on,
    other_shapes, pops, another_list_is_kept,
]  # fmt: skip


def loops_of(function: Callable[..., Any], *args: Any) -> int:
    """How many loops, and nests over single elements, the graphs of one call have."""
    found = dj.explain(function)(*args)
    names = "rows['loop']", "rows['nest']"
    return sum(str(graph).count(name) for graph in found.graphs for name in names)


def flat(value: Any) -> list[Any]:
    """What lists and tuples hold."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, types, dtypes and strides; the same are one object, or share memory."""
    expected, found = flat(expected), flat(found)
    assert list(map(type, expected)) == list(map(type, found))
    arrays = []
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, (dj.Tensor, np.ndarray, np.generic)):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
            np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-6)
            arrays.append((a, b))
        else:
            assert a == b
    for k, (a, b) in enumerate(arrays):
        for c, d in arrays[:k]:
            assert np.shares_memory(a, c) == np.shares_memory(b, d)
    ones = [[[a is b for a in leaves] for b in leaves if isinstance(b, dj.Tensor)]
            for leaves in (expected, found)]  # fmt: skip
    assert ones[0] == ones[1]


@pytest.mark.parametrize(("function", "args"), COLLECTED, ids=[f.__name__ for f, _ in COLLECTED])
def test_what_turns_append_is_what_plain_python_leaves(function, args) -> None:
    """One loop of the graph, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) >= 1


@pytest.mark.parametrize("function", UNROLLED, ids=[f.__name__ for f in UNROLLED])
def test_other_lists_are_filled_turn_by_turn(function) -> None:
    """Those that turns read, and those of what shares memory."""
    assert_same(function(X, 20), dj.compile(function)(X, 20))
    assert loops_of(function, X, 20) == 0


@pytest.mark.parametrize("turns", range(15, 21))
def test_every_number_of_turns_around_the_fewest_is_right(turns) -> None:
    """The first turns, and the last, are captured as they come."""
    for function in (stacked, in_front, tuples):
        assert_same(function(X, turns), dj.compile(function)(X, turns))


def test_a_list_that_existed_grows() -> None:
    """By tensors of each turn, in every call."""
    own, other, compiled = Holder(), Holder(), dj.compile(of_a_holder, fullgraph=True)
    for _ in range(2):
        expected, found = of_a_holder(X, own, 30), compiled(X, other, 30)
        assert other.seen[-1] is found
        assert_same([own.seen, expected], [other.seen, found])
    assert loops_of(of_a_holder, X, Holder(), 30) == 1


def test_a_graph_does_not_grow_with_what_is_stacked() -> None:
    """Rows that nobody looks at are no nodes."""
    few, many = (len(dj.explain(stacked)(X, n).graphs[0].nodes) for n in (50, 2000))
    assert few == many


def recurrent(weight, x, steps, grads):
    h, seen = x * 0, []
    for t in range(steps.shape[0]):
        h = dj.tanh(weight * h + steps[t])
        seen.append(h)
        grads.append(h * 0.5)
    return dj.stack(seen), seen[3], grads


def test_gradients_pass_through_what_is_collected() -> None:
    """Of a stack, of one tensor of it, and of a list that existed."""
    found = []
    for function in (recurrent, dj.compile(recurrent, fullgraph=True)):
        weight, steps = X.clone().requires_grad_(), dj.ones(20, 6).requires_grad_()
        stacked, one, kept = function(weight, X, steps, [])
        assert all(x.requires_grad for x in (stacked, one, *kept))
        ((stacked**2).sum() + one.sum() * 3 + kept[5].sum() + kept[-1].sum()).backward()
        found.append([weight.grad.numpy(), steps.grad.numpy(), stacked.detach().numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    weight = X.clone().requires_grad_()
    assert loops_of(recurrent, weight, X, dj.ones(20, 6), []) == 1


def left_by_a_jump(x, n):
    seen = []
    for i in range(n):
        if i % 5 == 3:
            x = x + 1
        seen.append(x)
    return seen


def left_by_one_of_two_jumps(x, n):
    seen = []
    for i in range(n):
        if i % 3 == 1:
            x = x * 0.5
        if i % 5 == 3:
            x = x + 1
        seen.append((x, i))
    return [one for one, _ in seen]


def lowest(x, n):
    low, seen = np.float64(2.0), []
    for i in range(n):
        if x[i] < low:
            low = x[i]
        seen.append(low)
    return np.array(seen)


@pytest.mark.parametrize("function", [left_by_a_jump, left_by_one_of_two_jumps])
@pytest.mark.parametrize("x", [X, X.numpy()])
def test_what_a_jump_leaves_as_it_was_is_one_object_in_lists(function, x) -> None:
    expected, found = function(x, 30), dj.compile(function)(x, 30)
    same = [[one is other for one in seen for other in seen] for seen in (expected, found)]
    assert same[0] == same[1]
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one))


def test_numbers_that_a_jump_leaves_are_collected() -> None:
    x = np.random.default_rng(0).random(40)
    np.testing.assert_array_equal(dj.compile(lowest)(x, 40), lowest(x, 40))


def logged(x, n):
    log = []
    for i in range(n):
        x = x * 0.9
        log.append((i, x.max().item(), x, ("turn", 2.5 * i)))
    return log


def mixed(x, n):
    kept = [7, x, (None, "first")]
    for i in range(n):
        x = x * 0.9
        kept.append(x)
        kept.append(i)
    kept.append(("last", x))
    return kept, x


def shared(x, n):
    first, second, third = [], [], []
    for i in range(n):
        first.append(x)
        x = x * 0.9
        second.append((x, "s"))
        third.append(x)
        third.append(i)
    third[3] += 1
    return first, second, third, x


def itself(x, n):
    kept = []
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    kept.append(kept)
    return kept[-1] is kept, len(kept), kept[:3]


def again(x, n):
    kept = []
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    for _ in range(n):
        x = x * 0.5 + 1
        kept.append(x)
    total = x * 0
    for i in range(n):
        total = total + kept[i] * i
    return total, kept


def some_are_read(x, n):
    kept, pairs = [x], []
    for i in range(n):
        x = x * 0.9
        kept.append(x)
        pairs.append((x, i))
    last, pair = kept[-1], pairs[7]
    kept[8] += 1
    few = kept[5:9]
    few[0] *= 2
    if kept and pairs:
        last = last + 1
    return kept, pairs, last, pair, few, len(kept), len(pairs), kept[3] is pairs[2][0], kept[-n:][0]


def grown_in_an_arm(x, n):
    kept = []
    for _ in range(n):
        x = x * 0.9
        kept.append(x.max().item())
    if n > 50:
        kept.append(n)
    return kept, sum(kept[-3:])


def one_is_read(x, n):
    kept = []
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    return kept, kept[3] + kept[-2], len(kept)


LONG = [
    (logged, (X, 90)), (mixed, (X, 90)), (shared, (X, 90)), (itself, (X, 90)), (again, (X, 90)),
    (grown_in_an_arm, (X, 90)), (some_are_read, (X, 90)), (some_are_read, (X.numpy(), 90)),
    *((f, (*given[:-1], 90)) for f, given in COLLECTED),
    (mixed, (X.numpy(), 90)), (shared, (X.numpy(), 90)), (again, (X.numpy(), 90)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), LONG, ids=[f.__name__ for f, _ in LONG])
def test_long_lists_are_what_plain_python_leaves(function, args) -> None:
    """They leave the graph as rows of few results."""
    compiled = dj.compile(function)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))


@pytest.mark.parametrize(
    "function", [in_front, tuples, several, logged, mixed, not_handed_on, one_is_read]
)
def test_a_graph_does_not_grow_with_what_is_returned(function) -> None:
    """Neither by tensors nor by tuples of them and of numbers."""
    args = (X, X + 1) if function is several else (X,)
    few, many = (dj.explain(function)(*args, n).graphs[0] for n in (100, 1500))
    assert len(few.nodes) == len(many.nodes) and len(few.outputs) == len(many.outputs)


def out_of_range(x, n):
    kept = []
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    return kept[n + 1]


def test_an_index_behind_a_long_list_is_refused() -> None:
    for call in (out_of_range, dj.compile(out_of_range)):
        with pytest.raises(IndexError, match="list index out of range"):
            call(X, 90)


def of_a_known_list(x, kept, n):
    kept.append(len(kept))
    for i in range(n):
        x = x * 0.9
        kept.append((x, i))
    kept.append(None)
    return x


def read_afterwards(x, kept, n):
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    return kept[3] + kept[-1] + len(kept)


def broken_afterwards(x, kept, n):
    for _ in range(n):
        x = x * 0.9
        kept.append(x)
    if x.sum() > 0:
        kept.append(None)
    return kept[0] + x


@pytest.mark.parametrize("function", [of_a_known_list, read_afterwards, broken_afterwards])
def test_long_lists_that_existed_grow_by_rows(function) -> None:
    own, other, compiled = [X], [X], dj.compile(function)
    for _ in range(2):
        assert_same([function(X, own, 90), own], [compiled(X, other, 90), other])


def test_gradients_pass_through_long_lists_that_are_returned() -> None:
    def function(weight, x, n):
        seen = []
        for _ in range(n):
            x = dj.tanh(weight * x + 1)
            seen.append(x)
        with dj.no_grad():
            stacked = dj.stack(seen)
        return seen, stacked

    found = []
    for call in (function, dj.compile(function, fullgraph=True)):
        weight = X.clone().requires_grad_()
        seen, stacked = call(weight, X, 90)
        assert all(x.requires_grad for x in seen) and not stacked.requires_grad
        (seen[5].sum() * 2 + (seen[-1] ** 2).sum() + sum(x.sum() for x in seen[::7])).backward()
        found.append([weight.grad.numpy(), stacked.numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def joined_in_all_ways(x, n):
    kept, sums, whole = [x], [], []
    for _ in range(n):
        x = np.roll(x, 1) * 0.99
        kept.append(x)
        sums.append(float(x.sum()))
        whole.append(int(x.argmax()))
    joined = np.array(kept), np.stack(kept, axis=1), np.stack(kept, -1), np.concatenate(kept)
    numbers = np.array(sums), np.asarray(whole), np.array(sums, dtype=np.float32)
    return *joined, *numbers, dj.tensor(sums), dj.tensor(whole), dj.tensor(sums, dtype=dj.float64)


def test_lists_that_nobody_has_read_are_joined_as_numpy_joins_them() -> None:
    """Along every dim, with what was in front, and as numbers of Python's."""
    x = np.arange(6.0)
    for n in (40, 90):
        assert_same(joined_in_all_ways(x, n), dj.compile(joined_in_all_ways, fullgraph=True)(x, n))


@pytest.mark.parametrize("dtype", ["f4", "float64", np.int64, float, np.dtype("f4"), "bogus"])
def test_a_dtype_of_what_is_joined_is_numpys(dtype) -> None:
    """Or its error, also of functions that join nothing."""

    def function(x, n):
        kept, sums = [], np.zeros(0)
        for _ in range(n):
            x = x * 0.9
            kept.append(x)
            sums = np.zeros(3)
        return np.array(kept, dtype=dtype), np.sum(x, dtype=dtype), sums

    x = np.arange(6.0)
    if dtype == "bogus":
        for call in (function, dj.compile(function)):
            with pytest.raises(TypeError, match="bogus"):
                call(x, 40)
    else:
        assert_same(function(x, 40), dj.compile(function)(x, 40))


@pytest.mark.parametrize("join", [
    lambda kept: dj.stack(kept, 5), lambda kept: dj.cat(kept, 1), lambda kept: np.stack(kept, 7),
    lambda kept: np.concatenate([*kept, kept[0][:2, None]]),
])  # fmt: skip
def test_what_cannot_be_joined_is_refused_as_ever(join) -> None:
    def function(x, n):
        kept = []
        for _ in range(n):
            x = x * 0.9
            kept.append(x)
        return join(kept)

    for x in (X, X.numpy()):
        with pytest.raises(Exception) as expected:
            function(x, 40)
        with pytest.raises(expected.type):
            dj.compile(function)(x, 40)


class Own(dj.Tensor):
    """A class of the program's."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is dj.stack:
            return "own"
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_class_of_the_programs_in_a_long_list_is_asked() -> None:
    def function(x, own, n):
        kept = [own]
        for _ in range(n):
            x = x * 0.9
            kept.append(x)
        return dj.stack(kept)

    own = X.as_subclass(Own)
    assert function(X, own, 40) == dj.compile(function)(X, own, 40) == "own"
