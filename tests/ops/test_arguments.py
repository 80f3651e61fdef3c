"""Reading of arguments: numbers that a dtype cannot hold are refused, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

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
