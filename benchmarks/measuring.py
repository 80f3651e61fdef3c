"""One process of the CPU table: build the contestants of each case, check, time them in turn.

`python -m benchmarks.measuring REQUEST` gets a `Request` as JSON and prints one JSON line per case.
`benchmarks.cpu` starts it, with the number of threads and what else a case asks for in the
environment: libraries read both when they are loaded.
"""

import contextlib
import gc
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from benchmarks import latency, libraries, pointwise, reductions, training
from benchmarks.case import Case, Run
from benchmarks.libraries import Library
from dynajit.measuring import machine
from dynajit.measuring.timing import Times, interleaved_times

GROUPS: Final = (latency, pointwise, reductions, training)

#: Contestants that are compared with, and the one that is measured.
MEASURED: Final = "dynajit"
#: Its results are what the others must agree with: no compiler is involved.
REFERENCE: Final = "dynajit-eager"


@dataclass(frozen=True, slots=True)
class Request:
    """What one process measures.

    Args:
        pattern: a regular expression that is searched in "group: name".
        libraries: contestants by name.
        threads: of every library; the environment says it, too.
        environment: the cases to measure are those that ask for just this.
        seconds: spent on timing one case, about.
    """

    pattern: str
    libraries: tuple[str, ...]
    threads: int
    environment: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row at one number of threads.

    Args:
        seconds: median per call, by contestant.
        cpu_seconds: the same of processor time, all threads together.
        missing: why a contestant has no time, by contestant.
        first_call_s: building and the first call, by contestant.
        least_s: the roofline's time, or None where the case states no work.
    """

    name: str
    group: str
    threads: int
    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    first_call_s: Mapping[str, float] = field(default_factory=dict)
    least_s: float | None = None
    ratio: float | None = None
    limit_s: float | None = None
    asked: str = ""


def all_cases() -> list[Case]:
    """Every row that is measured in one process with others."""
    return [case for group in GROUPS for case in group.cases()]


def chosen(cases: Iterable[Case], pattern: str) -> list[Case]:
    """The cases that `pattern` is found in."""
    return [case for case in cases if re.search(pattern, f"{case.group}: {case.name}")]


def results_of(run: Run, library: Library, calls: int) -> list[np.ndarray[Any, Any]]:
    """Results of the first calls, copied: a library may give the same memory again."""
    return [np.array(library.array(run()), copy=True) for _ in range(calls)]


def why_not_equal(
    expected: Sequence[np.ndarray[Any, Any]],
    found: Sequence[np.ndarray[Any, Any]],
    tolerance: float,
) -> str | None:
    """How two contestants differ, or None where they agree to within `tolerance`.

    The largest difference is taken relative to the largest magnitude of each result.
    """
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.shape != other.shape:
            return f"result {number} has shape {other.shape}, expected {one.shape}"
        if one.dtype.kind in "iu":
            wrong = int((one != other).sum())
            if wrong:
                return f"{wrong} of {one.size} integers of result {number} differ"
            continue
        scale = float(np.abs(one).max(initial=0)) or 1.0
        worst = float(np.abs(one - other).max(initial=0)) / scale
        if not worst <= tolerance:
            return f"result {number} differs by {worst:.1e}, allowed {tolerance:.0e}"
    return None


@dataclass(frozen=True, slots=True)
class Contestants:
    """Callables that agree, and what is known of all.

    Args:
        runs: what is timed, by contestant.
        missing, first_call_s: see `Measurement`.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    first_call_s: dict[str, float] = field(default_factory=dict)


def build(case: Case, contestants: Sequence[Library]) -> Contestants:
    """Build and call every contestant; keep those whose results agree with the reference."""
    arrays = case.inputs()
    reference = libraries.LIBRARIES[REFERENCE]
    expected = results_of(case.builds[reference.family](reference, arrays), reference, case.calls)
    made = Contestants()
    for library in contestants:
        reason = case.why_not(library)
        if reason is None:
            reason = _build_one(case, library, expected, made)
        if reason is not None:
            made.missing[library.name] = reason
    return made


def _build_one(
    case: Case, library: Library, expected: Sequence[np.ndarray[Any, Any]], made: Contestants
) -> str | None:
    """Adds to `made`, or says why not."""
    arrays = case.inputs()
    start = time.perf_counter()
    try:
        run = case.builds[library.family](library, arrays)
        first = results_of(run, library, 1)
        made.first_call_s[library.name] = time.perf_counter() - start
        found = [*first, *results_of(run, library, case.calls - 1)]
    except Exception as error:  # a contestant that cannot run a case is part of the table
        return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    reason = why_not_equal(expected, found, case.tolerance)
    if reason is None:
        made.runs[library.name] = run
    return reason


def rounds_within(seconds: float, runs: Mapping[str, Run]) -> int:
    """How many rounds of all contestants fit; at least 5, at most 31."""
    elapsed = 0.0
    for run in runs.values():
        start = time.perf_counter()
        run()
        elapsed += max(time.perf_counter() - start, _ROUND_S)
    return min(31, max(5, int(seconds / elapsed)))


_ROUND_S: Final = 0.02


def measure(
    case: Case, contestants: Sequence[Library], limits: machine.Limits, request: Request
) -> Measurement:
    """One row."""
    with contextlib.ExitStack() as stack:
        for library in contestants:
            if case.why_not(library) is None:
                stack.enter_context(libraries.fresh(library))
        made = build(case, contestants)
        times: dict[str, Times] = {}
        if made.runs:
            rounds = rounds_within(request.seconds, made.runs)
            times = interleaved_times(made.runs, rounds=rounds, round_s=_ROUND_S)
    gc.collect()
    return Measurement(
        name=case.name,
        group=case.group,
        threads=request.threads,
        seconds={name: found.wall_s for name, found in times.items()},
        cpu_seconds={name: found.cpu_s for name, found in times.items()},
        missing=made.missing,
        first_call_s=made.first_call_s,
        least_s=limits.seconds(case.work) or None,
        ratio=case.ratio,
        limit_s=case.limit_s,
        asked=case.asked,
    )


def set_threads(contestants: Sequence[Library], threads: int) -> None:
    """What cannot be said in the environment: PyTorch's pool."""
    for library in contestants:
        if library.module == "torch" and library.why_not_available() is None:
            library.namespace.set_num_threads(threads)


def main(text: str) -> None:
    """Measure what the request asks for."""
    # What libraries print must not be taken for results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = Request(**json.loads(text))
    contestants = libraries.named(request.libraries)
    set_threads(contestants, request.threads)
    limits = machine.measure(request.threads)
    print(json.dumps({"limits": asdict(limits), "threads": request.threads}), file=results)
    for case in chosen(all_cases(), request.pattern):
        if case.environment == request.environment:
            measurement = measure(case, contestants, limits, request)
            print(json.dumps(asdict(measurement)), file=results, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
