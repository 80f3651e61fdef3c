"""Reading of arguments: numbers that a dtype cannot hold are refused, as in PyTorch; integers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import known_number

OVERFLOWS = {
    "full": lambda m: m.full((1,), 300, dtype=m.uint8),
    "full float": lambda m: m.full((1,), 1e40),
    "full_like": lambda m: m.full_like(m.ones(1, dtype=m.int8), 200),
    "fill_": lambda m: m.ones(1, dtype=m.uint8).fill_(300),
    "clamp": lambda m: m.ones(1, dtype=m.uint8).clamp(max=300),
    "where": lambda m: m.where(m.tensor([True]), m.ones(1, dtype=m.uint8), 300),
    "masked_fill": lambda m: m.ones(1, dtype=m.int8).masked_fill(m.tensor([True]), 300),
}
WRAPS = {
    "full": lambda m: m.full((1,), -1, dtype=m.uint8),
    "fill_": lambda m: m.ones(1, dtype=m.uint8).fill_(-2),
    "full bool": lambda m: m.full((1,), 7, dtype=m.bool),
    "full infinity": lambda m: m.full((1,), float("inf"), dtype=m.float16),
    "clamp raises the dtype": lambda m: m.ones(1, dtype=m.uint8).clamp(max=0.5),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_number_that_does_not_fit_is_refused(name: str) -> None:
    """Nothing wraps silently; PyTorch refuses the same."""
    make: Callable[[Any], Any] = OVERFLOWS[name]
    with pytest.raises(RuntimeError, match="without overflow"):
        make(dj)
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="without overflow"):
        make(torch)


@pytest.mark.parametrize("name", WRAPS)
def test_what_pytorch_accepts_is_accepted(name: str) -> None:
    """Negative numbers wrap into uint8, any number is a bool, infinities stay."""
    torch = pytest.importorskip("torch")
    expected, actual = WRAPS[name](torch), WRAPS[name](dj)

    assert expected.tolist() == actual.tolist()
    assert str(expected.dtype).removeprefix("torch.") == actual.dtype.name


def test_a_count_is_a_float_now_and_a_float64_tensor_in_a_graph() -> None:
    found = known_number(dj.tensor(3.0))
    assert (float, 3.0) == (type(found), found)

    @dj.compile(fullgraph=True)
    def double(count):
        return known_number(count) * 2

    assert (dj.float64, 8.0) == (double(dj.tensor(4.0)).dtype, double(dj.tensor(4.0)).item())


class Three:
    """An integer of a class of its own."""

    def __index__(self) -> int:
        return 3


INTEGERS = (3, np.int64(3), np.uint8(3), np.array(3), dj.tensor(3), dj.tensor([3]), Three())
NO_INTEGERS = (
    True, np.True_, 3.0, np.float32(3), dj.tensor(3.0), dj.tensor(True), dj.tensor([3, 3]), "3",
)  # fmt: skip


@pytest.mark.parametrize("value", INTEGERS, ids=repr)
def test_an_integer_of_any_kind_becomes_an_int(value: Any) -> None:
    found = arguments.size(value, "f")
    assert (int, 3, True) == (type(found), found, arguments.is_integer(value))


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_what_is_no_integer_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        arguments.size(value, "f")


def test_a_bool_counts_behind_the_first_of_several_sizes() -> None:
    """PyTorch looks at the first entry only."""
    assert (2, 1) == arguments.sizes((np.int64(2), True), "f")
    with pytest.raises(TypeError, match="bool"):
        arguments.sizes((True, 2), "f")


def test_a_number_stands_for_a_sequence_of_one() -> None:
    assert (3,) == arguments.integers(np.int64(3), "f")
    assert (3, 4) == arguments.integers([dj.tensor(3), 4], "f")


def test_arguments_that_are_annotated_as_integers_become_such() -> None:
    @arguments.with_integers
    def function(x: Any, k: int, n: int | None = None, *, shape: Sequence[int] = ()) -> Any:
        return k, n, shape

    three = np.uint8(3)
    assert (3, None, ()) == function(three, three)
    found = function(three, three, n=dj.tensor(4), shape=(three, 2))
    assert ((3, 4, (3, 2)), [int] * 4) == (found, [type(n) for n in (*found[:2], *found[2])])


def test_an_unsigned_integer_does_not_wrap_in_what_is_computed_of_it() -> None:
    x, one = dj.arange(6.0), np.uint8(1)
    plain = (x.roll(1), x.chunk(1), dj.nn.functional.pad(x, (1, 0)), x.diag(1))
    wrapped = (x.roll(one), x.chunk(one), dj.nn.functional.pad(x, (one, 0)), x.diag(one))

    assert [str(part) for part in plain] == [str(part) for part in wrapped]
