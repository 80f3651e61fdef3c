"""What turns write out: prints, logs and texts of numbers that the launch computes. One loop of the
graph, and what is written is what plain Python writes, in its order."""

import contextlib
import io
import logging
import re
import sys
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import loops_of

X = dj.arange(6.0) * 0.1
ARRAY = np.arange(6.0) * 0.1
PERCENT, BRACES, CHARACTER, WHOLE = "%d: %.3f %s", "{0}: {b:.1f}", "%c", "%d"
LOGGER = logging.getLogger("dynajit.tests.shown")


class Holder:
    """Something with an attribute."""

    steps = 0


def every_turn(x, n):
    for i in range(n):
        x = x * 0.9 + i
        print("turn", i, i / 3, end=";\n")
    return x


def some_turns(x, n):
    for i in range(n):
        x = x * 0.9 + i
        if i % 10 == 0:
            print("turn", i, x.sum().item())
    return x


def tensors(x, n):
    for i in range(n):
        x = x * 0.9 + i
        print(x, x[0])
    return x


def a_text(x, n):
    text = ""
    for i in range(n):
        x = x * 0.9 + i
        text = f"turn {i:3d}: {x.sum():.3f} {x.max().item()!r:>9}"
        print(text)
    return x, text


def texts_of_other_kinds(x, n):
    for i in range(n):
        x = x * 0.9 + i
        total = x.sum().item()
        print(PERCENT % (i, total, i), BRACES.format(i, b=total), str(i), repr(i))
    return x


def containers(x, n):
    for i in range(n):
        x = x * 0.9 + i
        print([i, x.sum().item()], {"turn": i}, (i, "text"))
    return x


def nothing_that_differs(x, n):
    for i in range(n):
        x = x * 0.9 + i
        print()
        print("again", file=sys.stdout)
    print("over", x.shape)
    return x


def by_an_arm(x, n):
    best = 1e9
    for i in range(n):
        x = x * 0.9 + 0.01 * i
        value = x.sum().item()
        if value < best:
            best = value
            print(f"best at {i}: {value:.4f}")
        elif value > 0.5:
            print("no better", i)
    return x, best


def in_an_inner_loop(x, n):
    for i in range(n):
        for k in range(9):
            x = x * 0.9 + k
            print(i, k)
    return x


def with_an_attribute(x, n):
    holder = Holder()
    for _ in range(n):
        x = x * 0.9
        holder.steps += 2
        print("steps", holder.steps, f"{holder.steps!r:>5}")
    return x


def logs(x, n):
    for i in range(n):
        x = x * 0.9 + i
        LOGGER.info("turn %d loss %.3f", i, x.mean().item())
    return x


def rows(x, n):
    for i, row in enumerate(x.repeat(n).reshape(n, -1)):
        print("row", i, row, row.sum())
    return x


def appended_and_shown(x, n):
    seen = []
    for i in range(n):
        x = x * 0.9 + i
        seen.append(x)
        print(i, len("text"))
    return seen


def of_arrays(u, n):
    for t in range(n):
        u = u * 0.9 + t
        if t % 7 == 0:
            print("t =", t, "max", u.max(), f"{u.mean():.4f} {u[0]}", u)
    return u


LOOPS = [
    (every_turn, X), (some_turns, X), (tensors, X), (a_text, X), (texts_of_other_kinds, X),
    (containers, X), (nothing_that_differs, X), (by_an_arm, X), (in_an_inner_loop, X),
    (with_an_attribute, X), (logs, X), (rows, X), (appended_and_shown, X), (of_arrays, ARRAY),
]  # fmt: skip


def what_asks_for_the_text(x, n):
    for i in range(n):
        x = x * 0.9 + i
        text = f"{i}: {x.sum().item():.2f}"
        print(text.upper(), len(text), text == "a", text in ("a",), text + "!", bool(text))
    return x


def texts_in_a_list(x, n):
    seen = []
    for i in range(n):
        x = x * 0.9 + i
        seen.append(f"{i}: {x.sum().item():.2f}")
    return x, seen, "".join(seen)


def characters(x, n):
    for i in range(n):
        x = x * 0.9 + i
        print(f"{i + 65:c}", CHARACTER % (i + 65), WHOLE % x.sum().item())
    return x


def until_data_say_so(x, n):
    while x.abs().sum() > 0.1:
        x = x * 0.5
        print(x.sum().item())
    return x


def large_tensors_of_few_turns(x, n):
    y = x.repeat(20)
    for i in range(n):
        y = y * 0.9 + i
        if i % 10 == 0:
            print(y)
    return y


def an_existing_tensor_that_is_written(x, n):
    x = x.clone()
    for i in range(n):
        print(i, x)
        x += i
    return x


def a_text_of_an_array(u, n):
    text = f"{u.mean():.3f} {u.sum()} {u[1] > 0!r}"
    print(u * 2, u.max(), text)
    return u + 1, text


OTHERS = [
    (what_asks_for_the_text, X), (texts_in_a_list, X), (characters, X), (until_data_say_so, X),
    (large_tensors_of_few_turns, X), (an_existing_tensor_that_is_written, X),
    (a_text_of_an_array, ARRAY),
]  # fmt: skip


def written(function: Any, *args: Any) -> tuple[Any, str]:
    """What a call gives and writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(stream):
            found = function(*args)
    finally:
        LOGGER.removeHandler(handler)
    return found, stream.getvalue()


def parts(text: str) -> tuple[list[str], list[float]]:
    """A text around its fractions, and these, which rounding may change in their last digits."""
    found = re.split(r"(\d+\.\d*)", text)
    return found[::2], list(map(float, found[1::2]))


def assert_written(expected: str, found: str) -> None:
    assert parts(expected)[0] == parts(found)[0]
    np.testing.assert_allclose(parts(found)[1], parts(expected)[1], rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize(
    ("function", "x"), [*LOOPS, *OTHERS], ids=lambda x: getattr(x, "__name__", "")
)
def test_what_is_written_is_what_plain_python_writes(function: Any, x: Any) -> None:
    """For many numbers of turns, called twice with the first."""
    compiled = dj.compile(function)
    for n in (20, 20, 3, 40, 1):
        expected, found = written(function, x, n), written(compiled, x, n)
        assert_written(expected[1], found[1])
        assert_written(str(expected[0]), str(found[0]))


@pytest.mark.parametrize(("function", "x"), LOOPS, ids=lambda x: getattr(x, "__name__", ""))
def test_turns_that_write_out_are_one_loop(function: Any, x: Any) -> None:
    """In one graph."""
    report, _ = written(dj.explain(function), x, 40)
    assert report.graph_count == 1
    assert written(lambda: loops_of(function, x, 40))[0] >= 1


def test_a_text_of_a_number_that_is_computed_ends_no_graph() -> None:
    """Of an array's numbers, outside of loops."""
    compiled = dj.compile(a_text_of_an_array, fullgraph=True)
    (_, expected), shown = written(a_text_of_an_array, ARRAY, 1)
    (_, found), other = written(compiled, ARRAY, 1)
    assert (expected, shown) == (found, other)


def test_nothing_is_written_twice_where_a_turn_raises() -> None:
    """The launch refuses its values, and plain Python writes up to the turn that raises."""

    def run(x):
        for i in range(30):
            x = x + x[i]
            print("turn", i)
        return x

    found = []
    for function in (run, dj.compile(run)):
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream), pytest.raises(IndexError):
            function(dj.arange(12.0))
        found.append(stream.getvalue())
    assert found[0] == found[1]
    assert found[0].count("turn") == 12
