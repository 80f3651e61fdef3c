"""24 NumPy programs, unchanged, compiled by dynajit, beside NumPy, Numba and JAX.

Run: `python -m benchmarks arrays --compare numba,jax`. Install both where the program finds them,
in an environment of their own or in a folder: `pip install --target FOLDER numba jax`, then
`PYTHONPATH=FOLDER OPENBLAS_NUM_THREADS=1 python -m benchmarks arrays --compare numba,jax`.

Every form gives NumPy's numbers before it is timed. Candidates take turns in one process, with one
thread each; of Numba also `parallel=True`, with all cores. Figures are milliseconds of a call, as
processor time of all its threads, which other programs on the machine do not count in; with
`parallel` that is the work, not how long one waits. Ratios are to dynajit: above 1 the other one is
slower. "compile" is the first call, seconds of the clock.

`python -m benchmarks arrays_on_cores` is the same with all cores for each (without
OPENBLAS_NUM_THREADS), by the clock: what one waits, on a machine that does nothing else.
"""

import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import dynajit as dj
from benchmarks.arrays.programs import PROGRAMS
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved_times

#: What `--compare` takes.
OTHERS: Final = ("numba", "jax")

PAUSE_S: Final = 0.03
"""In front of the calls of a candidate on all cores: threads of the one before it look for work
until then, on a core each."""


def numba_forms(program: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The loops of a program, compiled for one thread and for several."""
    numba = optional.load("numba", needed_for="--compare numba", install="numba")
    from benchmarks.arrays import loops  # noqa: PLC0415 (needs Numba)

    function = getattr(loops, program)
    yield "numba", numba.njit(function, fastmath=False)
    yield "parallel", numba.njit(function, parallel=True)


def jax_form(program: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The program in JAX; arrays are JAX's before it is timed, and results are waited for."""
    jax = optional.load("jax", needed_for="--compare jax", install="jax")
    from benchmarks.arrays import jax_forms  # noqa: PLC0415 (needs JAX)

    compiled = jax.jit(jax_forms.form(program))
    yield "jax", lambda *arguments: compiled(*arguments).block_until_ready()


def candidates(
    program: Callable[..., Any], size: float, compare: Sequence[str] = (), backend: str = "native"
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name -> a call with arguments of this size."""
    arguments = PROGRAMS[program](size)
    yield "dynajit", functools.partial(dj.compile(program, backend=backend), *arguments)
    yield "numpy", functools.partial(program, *arguments)
    if "numba" in compare:
        for name, form in numba_forms(program.__name__):
            yield name, functools.partial(form, *arguments)
    if "jax" in compare:
        jax = optional.load("jax", needed_for="--compare jax", install="jax")
        for name, form in jax_form(program.__name__):
            yield name, functools.partial(form, *map(jax.numpy.asarray, arguments))


def first_calls(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of the first call of each.

    Raises:
        AssertionError: a form gives other numbers than NumPy.
    """
    seconds, results = {}, {}
    for name, call in calls.items():
        start = time.perf_counter()
        results[name] = np.asarray(call())
        seconds[name] = time.perf_counter() - start
    for name, found in results.items():
        # what is cut to an int may differ by one
        slack = 1 if found.dtype.kind == "i" else 1e-9
        np.testing.assert_allclose(found, results["numpy"], rtol=1e-7, atol=slack, err_msg=name)
    return seconds


@contextmanager
def _rested() -> Iterator[None]:
    time.sleep(PAUSE_S)
    yield


def _set_threads(cores: int, compare: Sequence[str]) -> None:
    dj.set_num_threads(cores)
    if cores == 1 and "jax" in compare:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ.setdefault("XLA_FLAGS", flags)


def _line(title: str, cells: Mapping[str, str]) -> str:
    return f"{title:19}" + "".join(f"{name:>10} {cell:>8}" for name, cell in cells.items())


def main(
    compare: Sequence[str] = (),
    size: float = 1.0,
    rounds: int = 7,
    programs: Sequence[Callable[..., Any]] = tuple(PROGRAMS),
    cores: int = 1,
) -> None:
    """Print the table, and the geometric means of the ratios."""
    unknown = set(compare) - {*OTHERS, "torch"}
    if unknown:
        raise SystemExit(f"arrays: --compare takes {', '.join(OTHERS)}, not {', '.join(unknown)}")
    before = dj.get_num_threads()
    _set_threads(cores, compare)
    ratios: dict[str, list[float]] = {}
    for program in programs:
        dj.reset()
        calls = dict(candidates(program, size, compare))
        compiled = first_calls(calls)
        within = dict.fromkeys(calls, _rested) if cores > 1 else {}
        found = interleaved_times(calls, rounds=rounds, round_s=0.05 * size, within=within)
        times = {name: t.wall_s if cores > 1 else t.cpu_s for name, t in found.items()}
        own = times["dynajit"]
        cells = {"dynajit": f"{own * 1e3:.3f}ms"}
        for name, taken in times.items():
            if name != "dynajit":
                ratios.setdefault(name, []).append(taken / own)
                cells[name] = f"{taken / own:.2f}x"
        print(_line(program.__name__, cells), flush=True)
        print(_line("  compile", {n: f"{s:.2f}s" for n, s in compiled.items() if n != "numpy"}))
    means = {name: math.exp(sum(map(math.log, x)) / len(x)) for name, x in ratios.items()}
    print(_line("geometric mean", {name: f"{mean:.2f}x" for name, mean in means.items()}))
    if "numba" in ratios and "jax" in ratios:
        names = ("numba", "parallel", "jax") if cores > 1 else ("numba", "jax")
        each = zip(*(ratios[name] for name in names), strict=True)
        fastest = [math.log(min(found)) for found in each]
        print(_line("", {"fastest": f"{math.exp(sum(fastest) / len(fastest)):.2f}x"}))
    dj.set_num_threads(before)
