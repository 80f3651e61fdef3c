"""Processes that a program starts itself, without `mpiexec`: they meet by a store."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dynajit.core.errors import DistNetworkError
from dynajit.distributed.channels.meeting import Answers, Meeting, mapping
from dynajit.distributed.stores.store import HashStore
from tests.support.ranks import LIMIT_S, mpiexec

pytestmark = pytest.mark.one_python

NEEDS_MPICH = pytest.mark.skipif(
    mpiexec() is None or not hasattr(os, "pidfd_open"), reason="needs mpi4py, MPICH and Linux"
)

PROGRAM = """
import multiprocessing, os, signal, sys, time
import dynajit as dj
import dynajit.distributed as dist

def run(rank, size, how, folder):
    if how == "file":
        dist.init_process_group("gloo", f"file://{folder}/keys", rank=rank, world_size=size)
    elif how == "store":
        store = dist.FileStore(f"{folder}/store", size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    else:
        dist.init_process_group("gloo", rank=rank, world_size=size)
    x = dj.full((3,), rank + 1.0)
    dist.all_reduce(x)
    other = dist.new_group(list(range(size - 1)))
    if rank < size - 1:
        dist.all_reduce(x, group=other)
    assert x.tolist() == [size * (size + 1) / 2 * (size - 1 if rank < size - 1 else 1)] * 3
    if how == "raises" and rank == 1:
        raise ValueError("of rank 1")
    if how == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "late" and rank == 1:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    if how in ("raises", "killed"):
        dist.all_reduce(x)
    if how == "again":
        dist.destroy_process_group()
        dist.init_process_group("gloo", rank=rank, world_size=size)
        dist.all_reduce(x)
    os.write(1, f"rank {rank} has {x.tolist()[0]}\\n".encode())  # a line at once

if __name__ == "__main__":
    how, folder, method = sys.argv[1:]
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    os.environ["MASTER_PORT"] = str(store.port)
    del store
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=run, args=(rank, 3, how, folder)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes])
"""


def ended(folder: Path, how: str, method: str = "fork") -> "subprocess.CompletedProcess[str]":
    """A program that starts three processes."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, str(path), how, str(folder), method]
    root = str(Path(__file__).parents[2])
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@NEEDS_MPICH
@pytest.mark.parametrize(
    ("how", "method"),
    [("environment", "fork"), ("environment", "spawn"), ("file", "fork"), ("store", "fork"),
     ("again", "fork")],
)  # fmt: skip
def test_processes_of_a_program_make_a_group(tmp_path: Path, how: str, method: str) -> None:
    """By MASTER_ADDR and MASTER_PORT, by a file or by a store; and a second time."""
    found = ended(tmp_path, how, method)
    *lines, codes = found.stdout.splitlines()
    assert "[0, 0, 0]" == codes, found.stdout + found.stderr
    numbers = (30.0, 30.0, 30.0) if how == "again" else (12.0, 12.0, 6.0)
    assert sorted(lines) == [f"rank {rank} has {x}" for rank, x in enumerate(numbers)]


@NEEDS_MPICH
@pytest.mark.parametrize(("how", "code"), [("raises", 1), ("killed", -signal.SIGKILL),
                                           ("late", -signal.SIGKILL)])  # fmt: skip
def test_all_end_where_one_does(tmp_path: Path, how: str, code: int) -> None:
    """Within seconds, and say which one it was; also where the others are leaving."""
    start = time.monotonic()
    found = ended(tmp_path, how)
    assert time.monotonic() - start < 30
    assert f"[{-signal.SIGTERM}, {code}, {-signal.SIGTERM}]" in found.stdout, found.stderr
    for rank in (0, 2):
        assert f"rank {rank} ends: rank 1 has ended before the others." in found.stderr
    assert ("ValueError: of rank 1" in found.stderr) == (how == "raises")


def answers(store: HashStore, size: int = 2) -> Answers:
    return Answers(store, size, ["a"] * size, "these")


def test_the_process_that_ended_first_is_named_where_the_keys_are_lost_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rank 0, which serves the keys, may end before rank 2 has looked whether rank 1 has left."""

    class Lost:
        is_waiting = True

        def to(self, line: str) -> str:
            raise DistNetworkError("closed by the other side")

    store, lost, reasons = HashStore(), Lost(), list[str]()
    meeting: Any = Meeting(store, 3, 2, timedelta(seconds=60))
    monkeypatch.setattr(meeting, "_answers", lost)
    monkeypatch.setattr(meeting, "_end", reasons.append)

    def lose_keys() -> str:
        meeting._theirs.sendall(b"cmd=barrier_in\n")
        meeting._answer(lost)
        return reasons[-1]

    assert lose_keys().endswith("a store with are lost: closed by the other side")
    watching = threading.Thread(target=meeting._lose, args=(1,))
    watching.start()
    while meeting._first_ended is None:
        time.sleep(0.001)
    assert lose_keys() == "rank 1 has ended before the others"
    meeting._is_over.set()
    watching.join(60)
    meeting._ours.close()
    meeting._theirs.close()


def test_keys_that_one_process_puts_another_gets() -> None:
    store: Any = HashStore()
    first, second = answers(store), answers(store)
    assert "rc=-1" in second.to("cmd=get kvsname=these key=address")
    assert "rc=0" in first.to("cmd=put kvsname=these key=address value=abc")
    assert second.to("cmd=get kvsname=these key=address").endswith("value=abc")


def test_a_barrier_waits_for_all_each_time() -> None:
    store: Any = HashStore()
    order: list[int] = []

    def meet(number: int) -> None:
        manager = answers(store)
        for _ in range(2):
            assert "cmd=barrier_out rc=0" == manager.to("cmd=barrier_in")
            order.append(number)

    first = threading.Thread(target=meet, args=(0,))
    first.start()
    time.sleep(0.05)
    assert [] == order
    meet(1)
    first.join(60)
    assert [0, 1] == sorted(order[:2]) == sorted(order[2:])


def test_questions_are_answered_as_mpich_asks_them() -> None:
    manager = answers(HashStore())
    assert "pmi_version=1" in manager.to("cmd=init pmi_version=1 pmi_subversion=1")
    assert "kvsname=these" in manager.to("cmd=get_my_kvsname")
    assert "size=2" in manager.to("cmd=get_universe_size")
    assert manager.to("cmd=get kvsname=these key=PMI_process_mapping").endswith("(vector,(0,1,2))")
    assert "" == manager.to("cmd=abort exitcode=1")
    assert "cmd=spawn_result rc=-1" in manager.to("cmd=spawn")


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("aa", "(vector,(0,1,2))"),
        ("aab", "(vector,(0,1,2),(1,1,1))"),
        ("aba", "(vector,(0,1,1),(1,1,1),(0,1,1))"),
    ],
)
def test_ranks_of_a_machine_are_told(hosts: str, expected: str) -> None:
    assert expected == mapping(hosts)
