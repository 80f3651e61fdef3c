"""`python -m benchmarks cpu`: the table of what is asked of dynajit on a CPU, beside what users
would pick instead.

Each number of threads is a process of its own, in which all libraries take turns on every case
(`benchmarks.measuring`); compile times, import and memory are measured in fresh processes. Ratios
of one run hold where absolute times do not: other programs on the machine slow all of them down.

    python -m benchmarks cpu --cases 'softmax|norm' --threads 1,2 --compare torch-compile,jax
    python -m benchmarks cpu --json table.json --plot table.png
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks import fresh_processes, libraries, measuring
from benchmarks.plotting import plot
from dynajit.measuring.timing import seconds

Row = dict[str, Any]

BASELINE: Final = "torch-compile"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks cpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", default="", metavar="PATTERN", help="searched in 'group: name'")
    parser.add_argument("--threads", default="1", help="such as 1,2")
    parser.add_argument(
        "--compare",
        default="torch-compile,torch-eager",
        help=f"of {', '.join(libraries.LIBRARIES)}; those that are not installed are named",
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing per case, about")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG, needs matplotlib")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args(arguments)


def thread_environment(threads: int) -> dict[str, str]:
    """What tells every library how many threads to use, before it is loaded."""
    number = str(threads)
    names = (
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
        "DYNAJIT_NUM_THREADS", "NPROC",
    )  # fmt: skip
    jax = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    return dict.fromkeys(names, number) | {"XLA_FLAGS": jax}


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that choose a library's kernels or memory, and so change its speed."""
    prefixes = ("OPENBLAS_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_CPU", "MALLOC_", "GOMP_", "OMP_")
    return {name: value for name, value in environ.items() if name.startswith(prefixes)}


def measure_in_processes(options: argparse.Namespace, names: Sequence[str]) -> list[Row]:
    """Rows of all cases but the fresh processes."""
    cases = measuring.chosen(measuring.all_cases(), options.cases)
    environments = [dict(pairs) for pairs in {tuple(case.environment.items()) for case in cases}]
    rows: list[Row] = []
    for threads in map(int, options.threads.split(",")):
        for environment in sorted(environments, key=len):
            request = measuring.Request(
                options.cases, tuple(names), threads, environment, options.seconds
            )
            rows += _measure_in_process(request)
    return rows


def _measure_in_process(request: measuring.Request) -> list[Row]:
    """Rows of one process; what it wrote counts even where it died later."""
    env = dict(os.environ) | thread_environment(request.threads) | dict(request.environment)
    command = [sys.executable, "-m", "benchmarks.measuring", json.dumps(asdict(request))]
    rows = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))
            print_row(rows[-1])
    if process.returncode:
        print(f"the process ended with {process.returncode}; the cases after these are missing")
    return rows


def figure(row: Row, value: float) -> str:
    """A row's figure with its unit."""
    kind = row.get("figure", "")
    if kind == "graphs":
        return str(int(value))
    if kind.endswith("bytes"):
        return f"{value / fresh_processes.MEGABYTE:.0f} MB"
    return seconds(value)


def verdict(row: Row) -> str:
    """Whether what is asked is reached; empty where it cannot be told."""
    mine = row["seconds"].get(measuring.MEASURED)
    if mine is None:
        return ""
    parts = []
    limit = row.get("limit_s")
    if limit is not None:
        parts.append(f"asked <= {figure(row, limit)}: {'yes' if mine <= limit else 'NO'}")
    asked, baseline = row.get("ratio"), row["seconds"].get(BASELINE)
    if asked is not None:
        reached = "" if baseline is None else f": {'yes' if baseline / mine >= asked else 'NO'}"
        parts.append(f"asked {asked:g}x{reached}")
    if row.get("asked"):
        parts.append(row["asked"])
    return "; ".join(parts)


def print_row(row: Row) -> None:
    """One line: figures, how many times dynajit's each is, the roofline, what is asked.

    Behind `cpu`: how many times dynajit's processor time each takes, where other programs or more
    threads than asked for make that another number.
    """
    if "limits" in row:
        _print_limits(row)
        return
    mine = row["seconds"].get(measuring.MEASURED)
    cells = [f"{row['name']:52s}"]
    for name, value in row["seconds"].items():
        cells.append(f"{name} {figure(row, value)}{_ratios(row, name)}")
    if row.get("least_s") and mine:
        cells.append(f"roofline {row['least_s'] / mine:.0%}")
    cells.append(verdict(row))
    print("  ".join(cell for cell in cells if cell), flush=True)
    if row["missing"]:
        reasons = (f"{name}: {reason}" for name, reason in row["missing"].items())
        print(f"    not available: {'; '.join(reasons)}", flush=True)


def _ratios(row: Row, name: str) -> str:
    """A contestant's time over dynajit's, and the same of processor time where it differs."""
    mine = row["seconds"].get(measuring.MEASURED)
    if name == measuring.MEASURED or not mine:
        return ""
    ratio = row["seconds"][name] / mine
    cpu = row.get("cpu_seconds", {})
    processor = cpu[name] / cpu[measuring.MEASURED] if name in cpu else ratio
    differs = not 0.9 <= processor / ratio <= 1.1
    return f" ({ratio:.2f}x, cpu {processor:.2f}x)" if differs else f" ({ratio:.2f}x)"


def _print_limits(row: Row) -> None:
    limits = row["limits"]
    names = ("core's cache", "shared cache", "memory")
    streams = ", ".join(
        f"{name} {rate / 1e9:.0f}" for name, rate in zip(names, limits["stream"], strict=True)
    )
    updates = ", ".join(f"{rate / 1e9:.0f}" for rate in limits["update"])
    print(
        f"== {row['threads']} thread(s): GB/s of c = a + b: {streams}; of a += 1: {updates}; "
        f"product {limits['flops'] / 1e9:.0f} GFLOP/s",
        flush=True,
    )


def geometric_mean(rows: Sequence[Row], baseline: str, kind: str = "seconds") -> float | None:
    """Of baseline time over dynajit time, over the run-time rows that have both.

    Args:
        rows: of the table.
        baseline: a contestant.
        kind: "seconds", or "cpu_seconds".
    """
    ratios = [
        row[kind][baseline] / row[kind][measuring.MEASURED]
        for row in rows
        if row.get("group") not in (None, "fresh processes")
        and {baseline, measuring.MEASURED} <= row.get(kind, {}).keys()
    ]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def behind(row: Row, allowed: float = 1.1) -> str | None:
    """Which contestant is more than 10 % faster than dynajit, or None."""
    mine = row["seconds"].get(measuring.MEASURED)
    others = {n: s for n, s in row["seconds"].items() if n != measuring.MEASURED}
    if mine is None or not others:
        return None
    fastest = min(others, key=lambda name: others[name])
    if mine <= allowed * others[fastest]:
        return None
    return f"{row['name']}: {fastest} is {mine / others[fastest]:.2f}x faster"


def summary(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Means, and the rows that are behind."""
    lines = []
    for name in names:
        mean, cpu = geometric_mean(rows, name), geometric_mean(rows, name, "cpu_seconds")
        if mean is not None and name != measuring.MEASURED:
            processor = "" if cpu is None else f" (of processor time {cpu:.2f}x)"
            lines.append(f"geometric mean of {name} / dynajit: {mean:.2f}x{processor}")
    slower = [line for row in rows if "seconds" in row and (line := behind(row))]
    if slower:
        lines += ["more than 10 % behind:", *(f"  {line}" for line in slower)]
    return lines


def document(rows: Sequence[Row], options: argparse.Namespace) -> Mapping[str, Any]:
    """What `--json` writes."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "compare": options.compare,
        "environment": settings(os.environ),
        "rows": list(rows),
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write what is asked for."""
    options = parse(arguments)
    if options.list:
        for case in measuring.chosen(measuring.all_cases(), options.cases):
            print(f"{case.group}: {case.name}")
        for row in fresh_processes.chosen(options.cases):
            print(f"fresh processes: {row.name}")
        return
    names = [measuring.MEASURED, *(name for name in options.compare.split(",") if name)]
    contestants = libraries.named(names)
    for name, value in settings(os.environ).items():
        print(f"set in the environment: {name}={value}")
    rows = measure_in_processes(options, names)
    for row in fresh_processes.measure(
        fresh_processes.chosen(options.cases), contestants, thread_environment(1)
    ):
        print_row(row)
        rows.append(row)
    print("\n".join(summary(rows, names)))
    if options.json:
        options.json.write_text(json.dumps(document(rows, options), indent=1))
    if options.plot:
        plot([row for row in rows if "seconds" in row], options.plot)
