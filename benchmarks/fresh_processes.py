"""Rows that need a process of their own: cold and warm compile, import, memory, batch sizes.

Every measurement starts `benchmarks.fresh_child` with caches in a temporary folder: empty for cold,
kept from the cold run for warm. The bytecode of Python files is cached before, as on a machine
where a program has run once. Figures are medians; libraries that take short are measured more than
once, in turns.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.libraries import Library

MEGABYTE: Final = 1e6
IMPORT: Final = "import"
_TIMEOUT_S: Final = 230
REPEATS: Final = 5
SHORT_S: Final = 2.0
"""A library whose processes took less together is measured again, up to REPEATS times."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """One row.

    Args:
        name: of the row.
        program: of `benchmarks.fresh_programs`, or IMPORT.
        figure: which of the child's figures is the row's.
        warm: the cache is that of an earlier process.
        limit: asked of dynajit, in the figure's unit; None: less than the others.
        is_async: dynajit compiles in the background and runs eagerly meanwhile; the others, which
            have no such mode, as ever.
    """

    name: str
    program: str
    figure: str
    warm: bool
    limit: float | None
    is_async: bool = False


def _compile_rows() -> list[Fresh]:
    asked = {
        "chain": (0.35, 0.05),
        "MLP step": (1.0, 0.2),
        "transformer inference": (1.5, 0.4),
        "transformer training": (4.0, 1.0),
    }
    return [
        Fresh(f"{'warm' if warm else 'cold'} compile, {program}", program, "first_s", warm,
              limits[warm])
        for warm in (False, True)
        for program, limits in asked.items()
    ] + [
        Fresh(f"first result, {program}", program, "first_s", False, None, is_async=True)
        for program in asked
    ]  # fmt: skip


ROWS: Final = (
    *_compile_rows(),
    Fresh("chain, batch 1 to 20: compiled graphs", "chain, batch 1 to 20", "graphs", False, 2),
    Fresh("MLP, batch 1 to 20: compiled graphs", "MLP, batch 1 to 20", "graphs", False, 2),
    Fresh("import", IMPORT, "import_s", True, 0.2),
    Fresh("resident memory after import, MB", IMPORT, "resident_bytes", True, 80 * MEGABYTE),
)

#: Libraries whose processes `fresh_child` knows.
KNOWN: Final = ("dynajit", "dynajit-async", "torch-compile", "jax", "numpy", "numba")
#: Libraries that compile.
COMPILING: Final = ("dynajit", "dynajit-async", "torch-compile", "jax")


def chosen(pattern: str) -> list[Fresh]:
    """The rows that `pattern` is found in."""
    return [row for row in ROWS if re.search(pattern, f"fresh processes: {row.name}")]


def why_not(row: Fresh, library: Library) -> str | None:
    """Why `library` has no part in a row, or None."""
    if library.name not in (KNOWN if row.program == IMPORT else COMPILING):
        return "not measured in fresh processes"
    return library.why_not_available()


def environment(folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """`base` with the caches of every library in `folder`."""
    made = dict(base)
    made.pop("PYTHONDONTWRITEBYTECODE", None)
    return made | {
        "DYNAJIT_CACHE_DIR": str(folder / "dynajit"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


def run_child(library: str, program: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The child's figures.

    Raises:
        RuntimeError: it failed, or took longer than 230 s.
    """
    command = [sys.executable, "-m", "benchmarks.fresh_child", library, program]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"longer than {_TIMEOUT_S} s") from error
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


@dataclass(frozen=True, slots=True)
class Found:
    """What the processes of one program and library said, cold and warm."""

    cold: Mapping[str, Any]
    warm: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """Of both processes, without what Python takes to start."""
        return sum(value for figures in (self.cold, self.warm)
                   for name, value in figures.items() if name.endswith("_s"))  # fmt: skip


def _median(runs: Sequence[Found]) -> Found:
    """The median of every figure."""

    def medians(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            name: value if value is None else statistics.median(each[name] for each in figures)
            for name, value in figures[0].items()
        }

    return Found(medians([run.cold for run in runs]), medians([run.warm for run in runs]))


def measure_program(library: str, program: str, env: Mapping[str, str]) -> Found:
    """One cold process and one warm one."""
    with tempfile.TemporaryDirectory() as name:
        full = environment(Path(name), env)
        cold = run_child(library, program, full)
        return Found(cold, run_child(library, program, full))


def measure(
    rows: Sequence[Fresh], libraries: Sequence[Library], threads_env: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Rows as `measuring.Measurement` has them, one by one; `seconds` holds the row's figure."""
    found: dict[tuple[str, str], Found | str] = {}
    env = dict(os.environ) | dict(threads_env)
    if rows:
        _cache_bytecode(libraries, env)
    for row in rows:
        taking_part = [each for each in libraries if why_not(row, each) is None]
        keys = dict.fromkeys((_contestant(row, library), row.program) for library in taking_part)
        found |= _measure_in_turns([key for key in keys if key not in found], env)
        yield _as_row(row, libraries, found)


def _measure_in_turns(
    keys: Sequence[tuple[str, str]], env: Mapping[str, str]
) -> dict[tuple[str, str], Found | str]:
    """What libraries and programs take, or why that is not known."""
    runs: dict[tuple[str, str], list[Found]] = {key: [] for key in keys}
    failed: dict[tuple[str, str], Found | str] = {}
    for _ in range(REPEATS):
        for key, before in runs.items():
            if key in failed or sum(run.seconds for run in before) > SHORT_S:
                continue
            try:
                before.append(measure_program(*key, env))
            except RuntimeError as error:
                failed[key] = str(error)
    return {key: _median(each) for key, each in runs.items() if key not in failed} | failed


def _contestant(row: Fresh, library: Library) -> str:
    is_other = row.is_async and library.name == "dynajit"
    return "dynajit-async" if is_other else library.name


def _cache_bytecode(libraries: Sequence[Library], env: Mapping[str, str]) -> None:
    for library in libraries:
        if library.name in KNOWN and library.why_not_available() is None:
            program = "chain" if library.name in COMPILING else IMPORT
            measure_program(library.name, program, env)


def _as_row(
    row: Fresh, libraries: Sequence[Library], found: Mapping[tuple[str, str], Found | str]
) -> dict[str, Any]:
    figures, missing = {}, {}
    for library in libraries:
        key = (_contestant(row, library), row.program)
        result = found.get(key, why_not(row, library))
        if not isinstance(result, Found):
            missing[library.name] = str(result)
            continue
        figure = (result.warm if row.warm else result.cold)[row.figure]
        if figure is None:
            missing[library.name] = "the library does not count its graphs"
        else:
            figures[library.name] = figure
    return {
        "name": row.name,
        "group": "fresh processes",
        "threads": 0,
        "figure": row.figure,
        "seconds": figures,
        "missing": missing,
        "limit_s": row.limit,
    }
