"""Functions of tests that run on several processes: each gives its result back, by rank.

Contract: `on_ranks` starts one job for all that it is given; a job is a second or so, so a test
module gives it many functions at once. Tests are skipped where there is no MPI.
"""

import datetime
import functools
import importlib
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 120
"""Seconds after which a job is given up: it hangs."""

GROUP_LIMIT_S = 60
"""Seconds that processes wait for each other."""


@functools.cache
def mpiexec() -> str | None:
    """The program that starts MPI's processes, beside this Python or on the path; None without."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


class Raised:
    """What stands for the result of a function that raised.

    Args:
        kind: names of the classes of the exception.
        text: its traceback.
    """

    def __init__(self, kind: tuple[str, ...], text: str) -> None:
        self.kind = kind
        self.text = text

    def __repr__(self) -> str:
        return self.text


def run_program(text: str, size: int, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A program on several processes, to its end: for what ends processes.

    Args:
        text: of the program.
        environment: variables in addition.
    """
    starter = _needed_mpiexec()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(text)
        return _started([starter, "-n", str(size), sys.executable, str(program)], environment)


def _needed_mpiexec() -> str:
    starter = mpiexec()
    if starter is None:
        pytest.skip("mpi4py or mpiexec is not installed: pip install mpi4py mpich")
    return starter


def _started(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    root = Path(__file__).parents[2]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root), **environment}
    return subprocess.run(
        command, cwd=root, env=variables, capture_output=True, text=True, timeout=LIMIT_S
    )


def on_ranks(
    functions: Sequence[Callable[[], Any]], size: int, **environment: str
) -> list[list[Any]]:
    """Results of functions of a test module, by function and rank; `Raised` where one raised.

    Args:
        functions: of no arguments, or `functools.partial` of picklable ones; called one after the
            other in a group of `size` processes (backend "gloo"), with a barrier in between.
        environment: variables in addition.
    """
    starter = _needed_mpiexec()
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "functions")
        calls = [functools.partial(function) for function in functions]  # flat, if it is one
        given.write_bytes(
            pickle.dumps([(c.func.__module__, c.func.__name__, c.args, c.keywords) for c in calls])
        )
        command = [starter, "-n", str(size), sys.executable, "-m", "tests.support.ranks", folder]
        ended = _started(command, environment)
        found = [Path(folder, f"results{rank}") for rank in range(size)]
        assert all(path.exists() for path in found), ended.stdout + ended.stderr
        by_rank = [pickle.loads(path.read_bytes()) for path in found]
    return [list(results) for results in zip(*by_rank, strict=True)]


def _run(folder: str) -> None:
    import dynajit.distributed as dist

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=GROUP_LIMIT_S))
    results = []
    for module, name, args, keywords in pickle.loads(Path(folder, "functions").read_bytes()):
        function = getattr(importlib.import_module(module), name)
        try:
            results.append(function(*args, **keywords))
        except Exception as error:
            kinds = tuple(kind.__name__ for kind in type(error).__mro__)
            results.append(Raised(kinds, traceback.format_exc()))
        dist.barrier()
    rank = dist.get_rank()
    Path(folder, f"part{rank}").write_bytes(pickle.dumps(results))
    Path(folder, f"part{rank}").rename(Path(folder, f"results{rank}"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    from tests.support import ranks

    ranks._run(sys.argv[1])
