"""A line search for the strong Wolfe conditions.

Contract: functions of numbers and of one evaluation function, which is not called more often than
it is allowed to.

Source: J. Nocedal, S. Wright, Numerical Optimization, algorithms 3.5 and 3.6.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.records import record

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 0.9
LEAST_CHANGE = 1e-9


@record
class Point:
    """What is known at one place of the line.

    Args:
        step: how far from the origin, in directions.
        loss: the function there.
        gradient: of all parameters, flat.
        slope: its product with the direction.
    """

    step: float
    loss: float
    gradient: Any
    slope: float


def cubic_minimum(first: Point, second: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is least, within bounds.

    Args:
        bounds: least and largest answer; None: between the points.
    """
    low, high = sorted((first, second), key=lambda point: point.step)
    least, most = (low.step, high.step) if bounds is None else bounds
    width = high.step - low.step
    middle = first.slope + second.slope
    middle -= 3 * (first.loss - second.loss) / (first.step - second.step)
    square = middle**2 - first.slope * second.slope
    if not square >= 0:
        return (least + most) / 2.0
    root = math.sqrt(square)
    over, under = high.slope + root - middle, high.slope - low.slope + 2 * root
    if under == 0:  # a line: it falls without end, or is level
        return (least + most) / 2.0 if over == 0 else (most if over < 0 else least)
    return min(max(high.step - width * (over / under), least), most)


def strong_wolfe(
    at: Callable[[float], Point], origin: Point, step: float, reach: float, most_trials: int
) -> tuple[Point, int]:
    """A point with a sufficient decrease and a small slope, or the best that was found.

    Args:
        at: evaluates a step.
        origin: the point of step 0; its slope is negative.
        step: the first to try.
        reach: the largest element of the direction.
        most_trials: how often `at` may be called after the first time.

    Returns:
        The point, and how often `at` was called.
    """
    bracket, trials = _bracket(at, origin, step, most_trials)
    if len(bracket) == 1:
        return bracket[0], trials + 1
    rest = most_trials - trials
    best, used = _zoom(at, origin, bracket, reach, rest)
    return best, trials + used + 1


def _decreases(point: Point, origin: Point) -> bool:
    return not point.loss > origin.loss + SUFFICIENT_DECREASE * point.step * origin.slope


def _is_flat(point: Point, origin: Point) -> bool:
    return abs(point.slope) <= -CURVATURE * origin.slope


def _bracket(
    at: Callable[[float], Point], origin: Point, step: float, most_trials: int
) -> tuple[list[Point], int]:
    """One point that will do, or two that have such a one between them; and the trials but one."""
    before, here = origin, at(step)
    for trial in range(most_trials):
        if not _decreases(here, origin) or (trial > 1 and here.loss >= before.loss):
            return [before, here], trial
        if _is_flat(here, origin):
            return [here], trial
        if here.slope >= 0:
            return [before, here], trial
        bounds = here.step + 0.01 * (here.step - before.step), here.step * 10
        before, here = here, at(cubic_minimum(before, here, bounds))
    return [origin, here], most_trials


def _zoom(
    at: Callable[[float], Point], origin: Point, bracket: list[Point], reach: float, most: int
) -> tuple[Point, int]:
    # Places in the bracket: the order of its points decides how rounding falls.
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stalled, trials = False, 0
    while trials < most:
        first, last = sorted(point.step for point in bracket)
        if (last - first) * reach < LEAST_CHANGE:
            break
        step = cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (last - first)
        near = min(last - step, step - first) < margin
        if near and (stalled or step >= last or step <= first):
            step = last - margin if abs(step - last) < abs(step - first) else first + margin
            near = False
        stalled = near
        here = at(step)
        trials += 1
        if not _decreases(here, origin) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = _is_flat(here, origin)
        if not done and here.slope * (bracket[high].step - bracket[low].step) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if done:
            break
    return bracket[low], trials
