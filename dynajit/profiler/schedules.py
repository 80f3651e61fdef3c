"""Which steps of a long run are recorded.

Contract: a schedule is a function from the number of a step to what is done in it.
"""

import enum
from collections.abc import Callable

from dynajit.core.errors import ExpectationError


class ProfilerAction(enum.Enum):
    """What is done in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def records(self) -> bool:
        """Whether work is recorded."""
        return self in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Rounds of steps: some that are left alone, some for warming up, some that are recorded.

    Args:
        wait: steps of a round that are left alone.
        warmup: steps before those that are recorded; nothing is recorded in them either.
        active: steps that are recorded together.
        repeat: rounds; 0: without end.
        skip_first: steps before the first round.
        skip_first_wait: not 0: the first round has no `wait`.

    Raises:
        ExpectationError: a number is negative, or `active` is 0.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ExpectationError(
            f"schedule(wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}): expected numbers from 0, and at least one active step."
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        within = step % length
        if within < wait:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = within == length - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Without a schedule everything is recorded."""
    return ProfilerAction.RECORD
