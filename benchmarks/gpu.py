"""`python -m benchmarks --gpu`: the table of what is asked of a GPU, beside what users would pick.

Contestants run in one process, over tensors that are on the GPU already, and take turns. A time is
that of the GPU between two events around many calls; of launches it is that of the host. Bandwidth
counts the bytes that the least program must move, and is compared with a copy on the same GPU.
Rows are written as soon as they are measured, and the rest is left out when `--budget` seconds are
over.

    python -m benchmarks --gpu --json gpu.json
    python -m benchmarks --gpu --cases 'softmax|norm' --compare torch-compile
    python -m benchmarks --gpu --small          (tries the programs out, also on a stand-in)
"""

import argparse
import gc
import json
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import gpu_cases
from benchmarks.gpu_cases import SMALL, Case, Run, Sizes
from benchmarks.gpu_libraries import LIBRARIES, GpuLibrary
from benchmarks.measuring import why_not_equal
from dynajit.codegen.device import driver as device_driver

REFERENCE: Final = "dynajit-eager"
"""Its results are what the others must agree with: no compiler is involved."""
MEASURED: Final = ("dynajit", "dynajit-graphs", "dynajit-tuned")
ROUNDS: Final = 7
ROUND_MS: Final = 60.0
"""Of a turn: long beside its start, at which the host is not ahead of the GPU yet."""
COPIED_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case.

    Args:
        name: of the case.
        ms: median milliseconds per call, by contestant.
        missing: why a contestant has no time.
        first_call_s: building and the first call, by contestant.
        bytes, flops, of_copy, against, host: as in the case.
        copy_bytes_s: bandwidth of a copy on this GPU, bytes per second.
    """

    name: str
    ms: Mapping[str, float]
    missing: Mapping[str, str]
    first_call_s: Mapping[str, float]
    bytes: int
    flops: int
    of_copy: float | None
    against: str | None
    host: bool
    copy_bytes_s: float

    def of_copy_reached(self, name: str) -> float:
        """Part of a copy's bandwidth."""
        return self.bytes / (self.ms[name] / 1e3) / self.copy_bytes_s


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks --gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", default="", metavar="PATTERN", help="searched in the name")
    parser.add_argument("--compare", default=",".join(LIBRARIES), help="names of contestants")
    parser.add_argument("--budget", type=float, default=300.0, metavar="S", help="seconds in all")
    parser.add_argument("--small", action="store_true", help="tiny sizes: only tries it out")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


# ---------------------------------------------------------------------------------------------
# one case


@dataclass(slots=True)
class Contest:
    """Callables that agree, and what is known of all. Mutable: contestants join."""

    runs: dict[str, Run] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    first_call_s: dict[str, float] = field(default_factory=dict)


def contest(case: Case, names: Sequence[str], until: float) -> Contest:
    """Build and call every contestant; keep those whose results agree with the reference."""
    sets = [case.inputs(number) for number in range(case.sets)]
    found, expected = Contest(), None
    for name in dict.fromkeys((REFERENCE, *names)):
        library = LIBRARIES[name]
        reason = case.why_not(library)
        if reason is None and time.monotonic() > until:
            reason = "the time for all cases is over"
        if reason is None:
            try:
                result = _join(case, library, sets, found)
                expected = result if expected is None else expected
                reason = why_not_equal([expected], [result], case.tolerance)
            except Exception as error:  # a contestant that cannot run a case is part of the table
                reason = f"{type(error).__name__}: {str(error).strip()[:300]}"
        if reason is not None or name not in names:
            found.runs.pop(name, None)
        if reason is not None:
            found.missing[name] = reason
    return found


def _join(case: Case, library: GpuLibrary, sets: Sequence[Any], found: Contest) -> Any:
    """Adds a contestant; returns its first result."""
    library.allow_tf32()
    start = time.perf_counter()
    run = case.builds[library.family](library, sets)
    result = library.array(run(0))
    library.synchronize()
    found.first_call_s[library.name] = time.perf_counter() - start
    found.runs[library.name] = run
    return np.array(result, copy=True)


def times_ms(case: Case, runs: Mapping[str, Run]) -> dict[str, float]:
    """Median milliseconds per call; contestants take turns in every round."""
    measure = _host_ms if case.host else _gpu_ms
    counts = {name: _calibrated(measure, LIBRARIES[name], run) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, run in runs.items():
                samples[name].append(measure(LIBRARIES[name], run, counts[name]))
    finally:
        gc.enable()
    return {name: statistics.median(found) for name, found in samples.items()}


def _gpu_ms(library: GpuLibrary, run: Run, count: int) -> float:
    """Milliseconds of the GPU per call."""

    def work() -> None:
        for number in range(count):
            run(number)

    return library.timed_ms(work) / count


def _host_ms(library: GpuLibrary, run: Run, count: int) -> float:
    """Milliseconds of the host per call, the GPU not waited for."""
    library.synchronize()
    start = time.perf_counter()
    for number in range(count):
        run(number)
    elapsed = time.perf_counter() - start
    library.synchronize()
    return 1e3 * elapsed / count


def _calibrated(
    measure: Callable[[GpuLibrary, Run, int], float], library: GpuLibrary, run: Run
) -> int:
    """Calls that take about `ROUND_MS`; the first ones warm up."""
    measure(library, run, 4)
    each = max(measure(library, run, 4), 1e-4)
    return max(4, min(200, int(ROUND_MS / each)))


def measure_case(case: Case, names: Sequence[str], copy_bytes_s: float, until: float) -> Row:
    """One row."""
    for name in names:
        if case.why_not(LIBRARIES[name]) is None:
            LIBRARIES[name].reset()
    made = contest(case, names, until)
    ms = times_ms(case, made.runs) if made.runs else {}
    return Row(
        case.name, ms, made.missing, made.first_call_s, case.bytes, case.flops, case.of_copy,
        case.against, case.host, copy_bytes_s,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# the machine


def copy_bandwidth(size: int = COPIED_BYTES) -> float:
    """Bytes read and written per second by a copy on the GPU: the best of several."""
    library = LIBRARIES[REFERENCE]
    source = library.tensor(np.ones(size // 4, np.float32))
    target = library.tensor(np.zeros(size // 4, np.float32))

    def work() -> None:
        target.copy_(source)

    library.timed_ms(work)
    best = min(library.timed_ms(work) for _ in range(10))
    return 2 * size / max(best / 1e3, 1e-9)


def machine() -> dict[str, Any]:
    """The GPU and the versions that were measured."""
    found: dict[str, Any] = {}
    for name in ("dynajit", "torch", "cupy"):
        library = next(each for each in LIBRARIES.values() if each.module == name)
        if library.why_not_available() is None:
            found[name] = getattr(library.namespace, "__version__", "")
    found["gpu"] = device_driver.driver().name(0)
    found["capability"] = list(device_driver.capability(0))
    found["driver"] = device_driver.driver().version
    return found


# ---------------------------------------------------------------------------------------------
# the table


def verdicts(row: Row) -> list[str]:
    """Whether what is asked is reached; empty where it cannot be told."""
    mine = [name for name in MEASURED if name in row.ms]
    if not mine:
        return []
    best = min(mine, key=lambda name: row.ms[name])
    found = []
    if row.of_copy is not None:
        reached = row.of_copy_reached(best)
        mark = "yes" if reached >= row.of_copy else "NO"
        found.append(f"asked {row.of_copy:.0%} of a copy: {mark} ({reached:.0%}, {best})")
    if row.against in row.ms:
        ratio = row.ms[row.against] / row.ms[best]
        mark = "yes" if ratio >= 1 else "NO"
        found.append(f"asked >= {row.against}: {mark} ({ratio:.2f}x, {best})")
    return found


def print_row(row: Row) -> None:
    """A few lines: times, bandwidth or rate, what is asked."""
    print(f"{row.name}{'  [host]' if row.host else ''}")
    for name, ms in sorted(row.ms.items(), key=lambda pair: pair[1]):
        cells = [f"    {name:16s} {1e3 * ms:10.1f} us"]
        if row.bytes:
            rate = row.bytes / (ms / 1e3) / 1e9
            cells.append(f"{rate:7.0f} GB/s {row.of_copy_reached(name):5.0%} of a copy")
        if row.flops:
            cells.append(f"{row.flops / (ms / 1e3) / 1e12:7.1f} TFLOP/s")
        cells.append(f"first call {row.first_call_s[name]:.1f} s")
        print("  ".join(cells))
    for name, reason in row.missing.items():
        print(f"    {name:16s} -- {reason}")
    for verdict in verdicts(row):
        print(f"    {verdict}")


def main(arguments: Sequence[str]) -> None:
    """Measure and print; write JSON after every row."""
    options = parse(arguments)
    until = time.monotonic() + options.budget
    names = options.compare.split(",")
    unknown = [name for name in names if name not in LIBRARIES]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; choose from {', '.join(LIBRARIES)}")
    reason = LIBRARIES[REFERENCE].why_not_available()
    if reason is not None:
        raise SystemExit(
            f"python -m benchmarks --gpu: {reason}; python -m dynajit doctor says why."
        )
    copy_bytes_s = copy_bandwidth(1 << 12 if options.small else COPIED_BYTES)
    about = {**machine(), "copy_bytes_s": copy_bytes_s, "small": options.small}
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    rows: list[Row] = []
    for case in gpu_cases.cases(SMALL if options.small else Sizes()):
        if re.search(options.cases, case.name):
            rows.append(measure_case(case, names, copy_bytes_s, until))
            print_row(rows[-1])
            if options.json:
                table = {"machine": about, "rows": [asdict(row) for row in rows]}
                options.json.write_text(json.dumps(table, indent=1))
