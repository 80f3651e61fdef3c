"""Interleaved timing: every candidate runs in turn, many rounds, and medians are compared.

A machine's speed drifts; candidates that run in turn drift together, so their ratio holds where
absolute times do not.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

Candidate = Callable[[], object]
Surroundings = Mapping[str, Callable[[], AbstractContextManager[object]]]
"""By name of a candidate: what its calls run within. It is entered and left outside of the time."""

_NOTHING: Final[Surroundings] = MappingProxyType({})


def calibrate(candidate: Candidate, target_s: float) -> int:
    """How many calls of `candidate` take about `target_s` seconds."""
    repeats = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            candidate()
        elapsed = time.perf_counter() - start
        if elapsed > target_s / 4:
            return max(1, int(repeats * target_s / elapsed))
        repeats *= 4


@dataclass(frozen=True, slots=True)
class Times:
    """Medians per call.

    Args:
        wall_s: of the clock.
        cpu_s: of the processor, all threads together: what other programs take does not count.
    """

    wall_s: float
    cpu_s: float


def interleaved_times(
    candidates: Mapping[str, Candidate],
    *,
    rounds: int = 15,
    round_s: float = 0.02,
    within: Surroundings = _NOTHING,
) -> dict[str, Times]:
    """Times per call of each candidate; the candidates take turns in every round."""
    repeats = {}
    for name, candidate in candidates.items():
        with within.get(name, nullcontext)():
            candidate()
            repeats[name] = calibrate(candidate, round_s)
    samples: dict[str, list[Times]] = {name: [] for name in candidates}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, candidate in candidates.items():
                with within.get(name, nullcontext)():
                    samples[name].append(_round(candidate, repeats[name]))
    finally:
        if collecting:
            gc.enable()
    return {
        name: Times(
            statistics.median(times.wall_s for times in found),
            statistics.median(times.cpu_s for times in found),
        )
        for name, found in samples.items()
    }


def _round(candidate: Candidate, count: int) -> Times:
    """Times per call of `count` calls in a row, after one that does not count: it meets the caches,
    and the threads, of the candidate before it."""
    candidate()
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(count):
        candidate()
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    return Times(wall_s / count, cpu_s / count)


def interleaved(
    candidates: Mapping[str, Candidate],
    *,
    rounds: int = 15,
    round_s: float = 0.02,
    within: Surroundings = _NOTHING,
) -> dict[str, float]:
    """Median seconds per call of each candidate; the candidates take turns in every round."""
    found = interleaved_times(candidates, rounds=rounds, round_s=round_s, within=within)
    return {name: times.wall_s for name, times in found.items()}


def seconds(value: float) -> str:
    """A time with a unit that fits: `12.3 us`."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def row(name: str, times: Mapping[str, float], baseline: str) -> str:
    """One line: every time, and how much faster than `baseline` each candidate is."""
    cells = [f"{name:34s}"]
    for candidate, value in times.items():
        ratio = "" if candidate == baseline else f" ({times[baseline] / value:5.2f}x)"
        cells.append(f"{candidate} {seconds(value):>8s}{ratio}")
    return "  ".join(cells)
