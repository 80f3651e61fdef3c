"""MPI between processes that a program started by itself: they are told by a store what `mpiexec`
would tell them.

Contract: every process makes a `Meeting` with the same store and calls `start` once, before MPI was
started in it; then COMM_WORLD has all of them. MPICH asks its process manager in PMI, lines of text
over a socket, and a thread here answers with keys of the store. MPI libraries that ask in another
way stay alone, which `mpi.world` finds. As under `mpiexec`, all end together: who leaves waits for
the others, and where one ends before, the others of its machine get SIGTERM.

Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
Systems" (2010), and the lines of its version 1, as MPICH's `simple_pmi` writes them.
"""

import ctypes
import itertools
import multiprocessing.util
import os
import select
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from types import ModuleType
from typing import Final

from dynajit.core.errors import DistBackendError, DistNetworkError, DistStoreError
from dynajit.distributed.stores.store import PrefixStore, Store

#: Seconds that a process has to say why it fails, when another one ended.
_GRACE_S: Final = 0.5

#: Seconds between two looks at whether this process has left.
_STEP_S: Final = 0.05

#: Seconds that the first process, which may serve the store, waits until all others have left.
_LEAVING: Final = timedelta(seconds=5)

#: A program may compute for long before it leaves.
_FOR_EVER: Final = timedelta(days=365)

_VARIABLES: Final = ("PMI_FD", "PMI_RANK", "PMI_SIZE")

_NOT_FOUND: Final = "cmd=get_result rc=-1 msg=key_not_found value=unknown"


class Answers:
    """What a process manager says to one process. Mutable: it counts barriers.

    Attributes:
        is_waiting: whether it waits for others, and uses the store.

    Args:
        store: of these processes alone.
        size: of processes.
        hosts: names of the machines, by rank.
        name: of these processes, unlike that of any others: MPICH's shared memory is named by it.
    """

    def __init__(self, store: Store, size: int, hosts: Iterable[str], name: str) -> None:
        self._store = store
        self._size = size
        self._mapping = mapping(hosts)
        self._barriers = 0
        self.is_waiting = False
        self._simple = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096",
            "get_appnum": "cmd=appnum rc=0 appnum=0",
            "get_my_kvsname": f"cmd=my_kvsname rc=0 kvsname={name}",
            "get_universe_size": f"cmd=universe_size rc=0 size={size}",
            "finalize": "cmd=finalize_ack rc=0",
        }

    def to(self, line: str) -> str:
        """The answer to a line, without its end; empty where none is expected."""
        words = dict(word.partition("=")[::2] for word in line.split())
        command = words.get("cmd", "")
        if command == "put":
            self._store.set(f"key/{words['key']}", words["value"])
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            return self._value(words["key"])
        if command == "barrier_in":
            self._meet()
            return "cmd=barrier_out rc=0"
        if command == "abort":
            return ""
        return self._simple.get(command, f"cmd={command}_result rc=-1 msg=unknown_command")

    def _value(self, key: str) -> str:
        if key == "PMI_process_mapping":
            return f"cmd=get_result rc=0 msg=success value={self._mapping}"
        if not self._store.check([f"key/{key}"]):
            return _NOT_FOUND
        value = self._store.get(f"key/{key}").decode()
        return f"cmd=get_result rc=0 msg=success value={value}"

    def _meet(self) -> None:
        self._barriers += 1
        if self._store.add(f"barrier/{self._barriers}", 1) == self._size:
            self._store.set(f"met/{self._barriers}", "")
        self.is_waiting = True
        self._store.wait([f"met/{self._barriers}"], _FOR_EVER)
        self.is_waiting = False


def mapping(hosts: Iterable[str]) -> str:
    """Which ranks share a machine, as PMI writes it: blocks of the first machine, a number of
    machines, and ranks of each."""
    numbers: dict[str, int] = {}
    blocks = [
        f"({numbers.setdefault(host, len(numbers))},1,{len(list(ranks))})"
        for host, ranks in itertools.groupby(hosts)
    ]
    return f"(vector,{','.join(blocks)})"


class Meeting:
    """The processes, from their start to their end. Mutable.

    Args:
        store: keys that only these processes see.
        size, rank: of processes, and the place of this one.
        limit: how long they wait for each other at the start.
    """

    def __init__(self, store: Store, size: int, rank: int, limit: timedelta) -> None:
        self._store = PrefixStore("dynajit/mpi", store)
        self._store.set_timeout(limit)
        self._size = size
        self._rank = rank
        self._ours, self._theirs = socket.socketpair()
        self._is_over = threading.Event()
        self._has_failed = False
        self._first_ended: int | None = None
        self._finalize: Callable[[], int] = int
        self._answers: Answers | None = None

    def start(self, load: Callable[[], ModuleType]) -> None:
        """Start MPI with all processes.

        Args:
            load: imports `mpi4py.MPI`, which does not start MPI then.

        Raises:
            DistStoreError, DistNetworkError: the others did not come in time.
            DistBackendError: MPI does not start.
        """
        self._store.set(f"process/{self._rank}", f"{os.getpid()} {socket.gethostname()}")
        keys = [f"process/{rank}" for rank in range(self._size)]
        found = [value.decode().split(" ", 1) for value in self._store.multi_get(keys)]
        answers = Answers(self._store, self._size, [host for _, host in found], self._name())
        self._in_background(lambda: self._answer(answers))
        self._answers = answers
        self._watch([(rank, int(pid)) for rank, (pid, host) in enumerate(found)
                     if rank != self._rank and host == socket.gethostname()])  # fmt: skip
        self._init(load)
        multiprocessing.util.Finalize(self, self.leave, exitpriority=0)

    def _name(self) -> str:
        if self._rank == 0:
            self._store.set("name", f"dynajit-{uuid.uuid4()}")
        return self._store.get("name").decode()

    def _in_background(self, function: Callable[[], None]) -> None:
        threading.Thread(target=function, name="dynajit-meeting", daemon=True).start()

    def _init(self, load: Callable[[], ModuleType]) -> None:
        """`MPI_Init_thread` by ctypes, which lets the thread run that answers meanwhile."""
        found = (str(self._theirs.fileno()), str(self._rank), str(self._size))
        os.environ.update(zip(_VARIABLES, found, strict=True))
        try:
            engine = load()
            library = ctypes.CDLL(engine.__file__)
            wanted, provided = engine.THREAD_MULTIPLE, ctypes.c_int()
            status = library.MPI_Init_thread(None, None, wanted, ctypes.byref(provided))
        finally:
            for name in _VARIABLES:
                os.environ.pop(name, None)
        if status:
            raise DistBackendError(f"MPI_Init_thread failed with status {status}.")
        self._finalize = library.MPI_Finalize
        for communicator in (engine.COMM_WORLD, engine.COMM_SELF):
            communicator.Set_errhandler(engine.ERRORS_RETURN)

    def _answer(self, answers: Answers) -> None:
        """Answer MPI, until it leaves."""
        received = b""
        while content := self._ours.recv(4096):
            *lines, received = (received + content).split(b"\n")
            for line in lines:
                try:
                    answer = answers.to(line.decode())
                except (DistNetworkError, DistStoreError) as error:
                    self._end(self._reason(error))
                    return
                if answer:
                    self._ours.sendall(answer.encode() + b"\n")

    def _watch(self, others: list[tuple[int, int]]) -> None:
        """End this process when another one of this machine has ended before its time."""
        if not hasattr(os, "pidfd_open"):
            return  # processes find out when their patience ends
        watched = {}
        for rank, pid in others:
            try:
                watched[os.pidfd_open(pid)] = rank
            except ProcessLookupError:
                self._in_background(lambda rank=rank: self._lose(rank))  # type: ignore[misc]
                return
        self._in_background(lambda: self._wait_for_ends(watched))

    def _wait_for_ends(self, watched: dict[int, int]) -> None:
        ended, _, _ = select.select(list(watched), [], [])
        self._lose(watched[ended[0]])

    def _lose(self, rank: int) -> None:
        """End, unless the other process has left as it should: then this one is about to."""
        self._first_ended = rank
        start = time.monotonic()
        while not self._is_over.wait(_STEP_S):
            passed = time.monotonic() - start
            if passed > _LEAVING.total_seconds() or (passed > _GRACE_S and self._is_free()):
                break
        if self._is_over.is_set() or (self._is_free() and self._has_left(rank)):
            return
        self._end(self._reason())

    def _reason(self, error: Exception | None = None) -> str:
        """The process that ended first: that the one with the keys is gone, too, comes of it."""
        if self._first_ended is None:
            return f"the processes that it shares a store with are lost: {error}"
        return f"rank {self._first_ended} has ended before the others"

    def _is_free(self) -> bool:
        """Whether the store can be asked."""
        return self._answers is None or not self._answers.is_waiting

    def _has_left(self, rank: int) -> bool:
        with suppress(DistNetworkError, DistStoreError):
            return self._store.check([f"left/{rank}"])
        return False

    def _end(self, reason: str) -> None:
        print(f"rank {self._rank} ends: {reason}.", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    def leave(self) -> None:
        """End MPI with all processes; where this one fails, leave it as it is: when the process has
        ended, the others end."""
        kind, error, _ = sys.exc_info()
        is_exit = isinstance(error, SystemExit) and error.code in (None, 0)
        self._has_failed |= kind is not None and not is_exit
        if self._has_failed or self._is_over.is_set():
            return
        self._finalize()
        self._is_over.set()
        with suppress(DistNetworkError, DistStoreError):
            self._store.set(f"left/{self._rank}", "")
            if self._rank == 0:
                self._store.wait([f"left/{rank}" for rank in range(self._size)], _LEAVING)
        self._ours.shutdown(socket.SHUT_RDWR)


MEETINGS: Final[list[Meeting]] = []
"""Of this process, if it has one: MPI starts once."""
