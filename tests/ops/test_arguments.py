"""Reading of arguments: numbers that a dtype cannot hold are refused, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.ops.arguments import known_number

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
