"""`multiprocessing.spawn` on ranks of MPI, and without MPI."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
import dynajit.multiprocessing as mp
from tests.support.launching import Start, launched, needs_mpi


class Box:
    """A class of the module that spawns."""

    def __init__(self, value: int) -> None:
        self.value = value


def _meet(rank: int, size: int, box: Box, queue: Any, shared: Any) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    shared[rank] = comm.size
    names = ("DYNAJIT_LAUNCHED", "MASTER_PORT")
    queue.put((rank == comm.rank, size, box.value, *(os.environ[name] for name in names)))


@needs_mpi
def test_spawned_processes_are_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process i is rank i; queues, shared tensors, own classes and the environment arrive."""
    monkeypatch.setenv("MASTER_PORT", "29512")
    queue = mp.get_context("spawn").SimpleQueue()
    shared = dj.zeros(2).share_memory_()
    assert mp.spawn(_meet, (2, Box(5), queue, shared), nprocs=2) is None

    assert [(True, 2, 5, "spawn", "29512")] * 2 == [queue.get(), queue.get()]
    assert [2.0, 2.0] == shared.tolist()
    queue.close()


def _end(rank: int, how: str) -> None:
    if rank == 1:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(4)
    signal.pause()


@needs_mpi
@pytest.mark.parametrize(
    ("how", "code", "name"), [("kill", -signal.SIGKILL, "SIGKILL"), ("exit", 4, None)]
)
def test_bad_ends_are_raised(how: str, code: int, name: str | None) -> None:
    """The others, which would wait for ever, are ended."""
    started = mp.spawn(_end, (how,), nprocs=2, join=False)
    assert isinstance(started, mp.ProcessContext)
    assert 2 == len(set(started.pids()))
    with pytest.raises(mp.ProcessExitedException) as caught:
        while not started.join(timeout=1):
            pass

    assert (1, code, name) == (
        caught.value.error_index, caught.value.exit_code, caught.value.signal_name
    )  # fmt: skip
    assert started.pids()[1] == caught.value.pid
    assert [False, False] == [process.is_alive() for process in started.processes]


@needs_mpi
def test_processes_end_with_the_program_that_spawned_them(tmp_path: Path) -> None:
    """Daemons at once, others when they are done; `launched` sees that none is left."""
    text = (
        "import pathlib, signal\n"
        "import dynajit.multiprocessing as mp\n"
        "def writes(rank): pathlib.Path('done').touch()\n"
        "def waits(rank): signal.pause()\n"
        "if __name__ == '__main__':\n"
        "    mp.spawn(writes, nprocs=1, join=False)\n"
        "    mp.spawn(waits, nprocs=1, join=False, daemon=True)\n"
    )
    done = launched(tmp_path, text, "--nproc=1")

    assert (0, "") == (done.returncode, done.stderr)
    assert (tmp_path / "done").exists()


@needs_mpi
def test_an_interrupt_ends_spawned_processes(tmp_path: Path) -> None:
    """It is passed on, and the program that spawned them gets it, too."""
    text = (
        "import pathlib, signal\n"
        "import dynajit.multiprocessing as mp\n"
        "def waits(rank):\n"
        "    pathlib.Path('runs').touch()\n"
        "    signal.pause()\n"
        "if __name__ == '__main__':\n"
        "    mp.spawn(waits, nprocs=1)\n"
    )
    text = f"import tempfile\ntempfile.tempdir = {str(tmp_path)!r}\n{text}"
    start = Start(tmp_path, text, module=None)
    start.wait_for(tmp_path / "runs")
    start.process.send_signal(signal.SIGINT)
    done = start.done()

    assert "KeyboardInterrupt" in done.stderr
    assert [] == start.left()
    assert [] == list(tmp_path.glob("dynajit-spawn-*"))


def _tell(rank: int, queue: Any) -> None:
    queue.put((rank, "DYNAJIT_LAUNCHED" in os.environ))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_are_plain_without_mpi(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """And where they are to be forks of this one."""
    if method == "spawn":
        monkeypatch.setenv("DYNAJIT_MPIEXEC", "/nowhere/mpiexec")
    queue = mp.get_context(method).SimpleQueue()
    mp.start_processes(_tell, (queue,), nprocs=2, start_method=method)

    assert [(0, False), (1, False)] == sorted([queue.get(), queue.get()])
    queue.close()
