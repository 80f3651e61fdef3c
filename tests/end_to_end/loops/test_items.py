"""`for` over rows, `enumerate`, `zip` and `reversed`: one loop of the graph, and plain results."""

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import assert_same, loops_of

ROWS = dj.tensor(np.random.default_rng(0).random((30, 6)).astype(np.float32))
ARRAY = np.random.default_rng(1).random((30, 6))
X = dj.arange(6.0)


def rows(xs, h):
    for x in xs:
        h = h * 0.5 + x
    return h, x


def enumerated(xs, h):
    seen = []
    for i, x in enumerate(xs, 3):
        h = h * 0.5 + x + i
        seen.append(h)
    return h, x, i, seen


def zipped(xs, h):
    ys = xs * 2
    for i, (x, y) in enumerate(zip(xs, ys, strict=False)):
        h = h * 0.5 + x * i - y
    return h, x, y, i


def of_several_lengths(xs, h):
    for x, k, y in zip(xs[:25], range(100, 0, -2), reversed(xs), strict=False):
        h = h * 0.5 + x * k - y
    return h, x, y, k


def backwards(xs, h):
    for i in reversed(range(len(xs))):
        h = h * 0.5 + xs[i]
    return h, i


def lists_of_rows(xs, h):
    for a, b in zip(xs.unbind(0), list(xs), strict=False):
        h = h * 0.5 + a * b
    return h, a, b


def writes_rows(xs, h):
    xs = xs.clone()
    for x in xs:
        x += h
        h = h * 0.9
    return xs, h


def rows_of_rows(xs, h):
    for x in xs[2:, 1:]:
        h = h * 0.5 + x.sum()
    return h, x


def what_was_collected(xs, h):
    seen = []
    for x in xs:
        h = h * 0.5 + x
        seen.append(h)
    total = h * 0
    for i, row in enumerate(dj.stack(seen)):
        total = total * 0.5 + row * i
    return total, row


def arrays(xs, h):
    kept = np.zeros_like(xs)
    for i, x in enumerate(xs):
        h = h * 0.5 + x
        kept[i] = h
    return h, kept, x


def writes_arrays(xs, h):
    xs = xs.copy()
    for x in xs:
        x += h
        h = np.sin(h)
    return xs, h


def numbers_of_a_list(xs, h):
    rates = [0.5, 0.25, 0.125] * 10
    for rate in rates:
        h = h * rate + 1
    for i, power in enumerate(reversed([k * k for k in range(30)])):
        h = h * 0.5 + xs[i] * power
    return h, rate, power


def numbers_by_an_index(xs, h):
    rates, order = [0.1, 0.2, 0.3], (2, 0, 1) * 10
    for i, k in zip(range(30), order, strict=False):
        h = h * (1 - rates[i % 3]) + xs[k] * rates[-1 - i % 3]
    return h, i, k


def strict(xs, h):
    for x, i in zip(xs, range(30), strict=True):
        h = h * 0.5 + x * i
    return h


LOOPS = [
    (strict, (ROWS, X)),
    (numbers_of_a_list, (ROWS, X)), (numbers_by_an_index, (ROWS, X)),
    (rows, (ROWS, X)), (enumerated, (ROWS, X)), (zipped, (ROWS, X)), (backwards, (ROWS, X)),
    (of_several_lengths, (ROWS, X)), (lists_of_rows, (ROWS, X)), (writes_rows, (ROWS, X)),
    (rows_of_rows, (ROWS, X)), (what_was_collected, (ROWS, X)), (arrays, (ARRAY, np.arange(6.0))),
    (writes_arrays, (ARRAY, np.arange(6.0))), (rows, (ARRAY, np.arange(6.0))),
]  # fmt: skip


def a_growing_list(xs, h):
    items = list(xs)
    for x in items:
        h = h * 0.5 + x
        if len(items) < 35:
            items.append(x)
    return h, len(items)


def a_list_that_turns_append_to(xs, h):
    items = list(xs)
    for i, x in zip(range(40), items, strict=False):
        h = h * 0.5 + x * i
        items.append(xs[0])
    return h, len(items)


def in_another_order(xs, h):
    first, *rest = list(xs)
    for x in [*rest, first]:
        h = h * 0.5 + x
    return h


def numbers_of_an_array(xs, h):
    for x in xs.reshape(-1)[:30]:
        h = h * 0.5 + x
    return h, x


def breaks_in_a_turn(xs, h):
    for x in xs:
        h = h * 0.5 + round(float(x.sum()), 3)
    return h, x


def numbers_that_turns_write(xs, h):
    rates = [0.5] * 30
    for i in range(30):
        h = h * rates[i] + xs[i]
        rates[i] = 1.0
    return h, rates


def numbers_of_two_classes(xs, h):
    for x in [1, 2.0, 3] * 10:
        h = h * 0.5 + x
    return h


UNROLLED = [
    (numbers_that_turns_write, (ROWS, X)), (numbers_of_two_classes, (ROWS, X)),
    (a_growing_list, (ROWS, X)), (a_list_that_turns_append_to, (ROWS, X)),
    (in_another_order, (ROWS, X)),
    (numbers_of_an_array, (ARRAY, np.arange(6.0))), (breaks_in_a_turn, (ROWS[:18], X)),
    (breaks_in_a_turn, (ARRAY[:18], np.arange(6.0))),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_over_rows_are_one_loop(function, args) -> None:
    """With plain Python's results, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) >= 1


@pytest.mark.parametrize(("function", "args"), UNROLLED, ids=[f.__name__ for f, _ in UNROLLED])
def test_other_items_are_taken_turn_by_turn(function, args) -> None:
    """As they were."""
    assert_same(function(*args), dj.compile(function)(*args))
    assert loops_of(function, *args) == 0


@pytest.mark.parametrize("count", range(14, 20))
def test_every_number_of_rows_around_the_fewest_is_right(count) -> None:
    """The first turns, and the last, are captured as they come."""
    for function in (rows, enumerated, of_several_lengths):
        assert_same(function(ROWS[:count], X), dj.compile(function)(ROWS[:count], X))


def test_rows_are_views_of_what_is_iterated_over() -> None:
    """Of the program's own tensor."""
    xs = ROWS.clone()
    _, row = dj.compile(rows)(xs, X)
    xs[-1, 0] = 7.0
    assert row[0].item() == 7.0


@pytest.mark.parametrize("count", [29, 31])
def test_a_strict_zip_refuses_other_lengths(count) -> None:
    def zipped_strictly(xs, h):
        for x, i in zip(xs, range(count), strict=True):
            h = h * 0.5 + x * i
        return h

    for call in (zipped_strictly, dj.compile(zipped_strictly)):
        with pytest.raises(ValueError, match="zip\\(\\) argument 2 is"):
            call(ROWS, X)


RATES = [0.9 - 0.01 * k for k in range(40)]


def by_numbers(ws, x):
    for w in ws:
        x = x * w + 1
    return x, w


def by_numbers_and_places(ws, x):
    total = 0
    for i, (w, v) in enumerate(zip(ws, reversed(ws), strict=True)):
        x = x * 0.5 + w * i - v
        total += w
    return x, w, v, i, total


def decided_by_numbers(ws, x):
    kept = []
    for w in ws:
        if w > 0.7:
            x = x * w
        else:
            x = x + 1
        kept.append(w)
    return x, kept


def of_a_global(ws, x):
    for w in RATES:
        x = x * w + ws[0]
    return x, w


def to_a_power(ws, x):
    for w in ws:
        x = (x + 1.0) ** w
    return x


def a_list_that_changes(ws, x):
    ws = ws if isinstance(ws, tuple) else list(ws)
    for w in ws:
        x = x * 0.9 + w
        if not isinstance(ws, tuple) and len(ws) < 50:
            ws.append(w)
    return x, len(ws)


def by_numbers_in_python(ws, x):
    for w in ws:
        x = x * 0.5 + max(w, 0) ** 0.5 + int(w) % 3
    return x


def read_by_the_counter(ws, x):
    for i in range(len(ws)):
        x = x * ws[i] + i
    return x


def read_around_the_counter(ws, x):
    total = 0.0
    for i in range(1, len(ws)):
        x = x + (ws[i] - ws[i - 1]) * x
        total += ws[-i]
    return x, total


def read_in_a_ring(ws, x):
    for i in range(40):
        x = x * 0.5 + ws[i % len(ws)]
    return x


def read_of_a_global(ws, x):
    for i in range(40):
        x = x * RATES[i] + ws[0]
    return x


def read_beyond_the_end(ws, x):
    for i in range(40):
        x = x * 0.5 + ws[i]
    return x


def written_ahead(ws, x):
    ws = ws if isinstance(ws, tuple) else list(ws)
    for i in range(len(ws) - 1):
        x = x * 0.5 + ws[i]
        if not isinstance(ws, tuple):
            ws[i + 1] = ws[i] * 2
    return x, ws


def put_in_front(ws, x):
    ws = ws if isinstance(ws, tuple) else list(ws)
    for i in range(len(ws)):
        x = x * 0.5 + ws[i]
        if not isinstance(ws, tuple):
            ws.insert(0, i)
    return x, ws


NUMBERS = [
    RATES, tuple(RATES), [*range(40)], [2**41 + k for k in range(20)], [-(2**62), *range(30)],
    [1, 0.5] * 10, [True, False] * 10, [float("nan"), float("inf"), -0.0] * 5, [0.5] * 3, [7] * 9,
    [0.1] * 300,
]  # fmt: skip
BY_NUMBERS = [
    by_numbers, by_numbers_and_places, decided_by_numbers, of_a_global, read_by_the_counter,
    read_around_the_counter, read_in_a_ring, read_of_a_global,
]  # fmt: skip
OTHERS = [
    to_a_power, a_list_that_changes, by_numbers_in_python, read_beyond_the_end, written_ahead,
    put_in_front,
]  # fmt: skip


def with_texts(results):
    """Floats of Python's as texts, by which NaN is itself and zeros have signs."""
    if isinstance(results, (list, tuple)):
        return [with_texts(item) for item in results]
    return repr(results) if type(results) is float else results


@pytest.mark.parametrize("function", [*BY_NUMBERS, *OTHERS])
def test_numbers_of_a_list_of_the_caller_s_are_plain_python_s(function) -> None:
    compiled = dj.compile(function)
    for x in (X, X.numpy(), dj.arange(6)):
        for ws in (*NUMBERS, [w * 0.5 for w in RATES]):
            found = []
            for call in (function, compiled):
                try:
                    with np.errstate(all="ignore"):
                        found.append(call(ws, x))
                except (ValueError, OverflowError, RuntimeError, TypeError, IndexError) as error:
                    found.append((type(error).__name__,))
            assert_same(*map(with_texts, found))


@pytest.mark.parametrize("function", BY_NUMBERS)
@pytest.mark.parametrize("ws", [RATES, tuple(RATES)])
def test_numbers_of_the_caller_s_are_one_loop_for_all_values(function, ws) -> None:
    assert loops_of(function, ws, X) == 1
    compiled = dj.compile(function)
    compiled(ws, X)
    with dj.config.override(strict=True):
        for k in range(3):
            other = type(ws)(w * (k + 1) for w in ws)
            assert_same(function(other, X), compiled(other, X))


def test_gradients_pass_numbers_of_the_caller_s() -> None:
    results = []
    for run in (by_numbers, dj.compile(by_numbers, fullgraph=True)):
        x = X.clone().requires_grad_()
        run(RATES, x)[0].sum().backward()
        results.append(x.grad.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
