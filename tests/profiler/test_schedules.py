"""Schedules of steps."""

import warnings

import pytest

from dynajit.core.errors import ExpectationError
from dynajit.profiler import schedule

CASES = [
    {"wait": 1, "warmup": 1, "active": 2},
    {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 3},
    {"wait": 0, "warmup": 0, "active": 1},
    {"wait": 2, "warmup": 0, "active": 3, "repeat": 1},
]


@pytest.mark.parametrize("options", CASES)
def test_steps_are_those_of_pytorch(options: dict[str, int]) -> None:
    """Action by action."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(action="ignore"):  # it warns where nothing warms up
        theirs = torch.profiler.schedule(**options)
    ours = schedule(**options)

    assert [theirs(step).name for step in range(20)] == [ours(step).name for step in range(20)]


@pytest.mark.parametrize("wrong", [{"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}])
def test_numbers_that_make_no_round_are_refused(wrong: dict[str, int]) -> None:
    """As in PyTorch, by an assertion."""
    with pytest.raises(ExpectationError, match="expected numbers from 0"):
        schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})
