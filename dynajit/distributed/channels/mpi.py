"""MPI through mpi4py: processes of one machine or of many, arrays in host memory.

Contract: as `channel.Channel`. Arrays are handed to MPI where they lie. Elements that MPI has no
type for are sent as bytes; 16-bit floats are joined as float32 and rounded once. mpi4py asks for
MPI_THREAD_MULTIPLE, so another thread may move requests forward.
"""

import ctypes
import fcntl
import functools
import importlib.util
import os
import stat
import sys
import sysconfig
import termios
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import ml_dtypes
import numpy as np

from dynajit.core.errors import DistBackendError, UnsupportedError
from dynajit.core.process import optional
from dynajit.distributed.channels.channel import TESTS_AT_ONCE, Again, Array, Channel, Request
from dynajit.distributed.channels.meeting import MEETINGS, Meeting
from dynajit.distributed.launching.runtimes import LIBRARIES
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.stores.store import Store

INSTALL: Final = "dynajit[mpi]"

#: Seconds in which the starter of the processes passes their last words on, before they end; and
#: the longest wait for it to read them.
_PASSED_ON_S: Final = 0.2
_READ_S: Final = 2.0

#: Characters of dtypes that MPI cannot join: they are joined as float32.
_WIDENED: Final = frozenset((np.dtype(np.float16).char, np.dtype(ml_dtypes.bfloat16).char))

#: MPICH halves medium arrays of `Ireduce_scatter_block` again and again, through memory that is
#: fresh in every call: 0.7 ms for 1 MB of two processes, where exchanges by pairs take 0.08. Of so
#: many processes pairs are no slower for small arrays either.
_PAIRED: Final = "MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM", "sched_pairwise"
_MOST_PAIRED: Final = 4

_OPERATIONS: Final = {
    ReduceOp.SUM: ("SUM", "LOR"),
    ReduceOp.PRODUCT: ("PROD", "LAND"),
    ReduceOp.MIN: ("MIN", "LAND"),
    ReduceOp.MAX: ("MAX", "LOR"),
    ReduceOp.BAND: ("BAND", "LAND"),
    ReduceOp.BOR: ("BOR", "LOR"),
    ReduceOp.BXOR: ("BXOR", "LXOR"),
}
"""MPI's names: of numbers, and of truth values, whose sum is true where one is."""


@functools.cache
def engine() -> ModuleType:
    """`mpi4py.MPI`, which starts MPI when it is imported.

    Raises:
        UnsupportedError: mpi4py or an MPI runtime is missing.
    """
    started = os.environ.get("PMI_SIZE", "")  # by MPICH's mpiexec: how many processes
    if started.isdecimal() and int(started) <= _MOST_PAIRED:
        os.environ.setdefault(*_PAIRED)
    try:
        found = optional.load(
            "mpi4py.MPI", needed_for="A group of several processes", install=INSTALL
        )
    except RuntimeError as error:  # mpi4py is here, and the library that it loads is not
        raise UnsupportedError(
            f"A group of several processes needs an MPI library, which mpi4py cannot load "
            f"({' '.join(str(error).split())}).  Install one with: pip install {INSTALL!r}"
        ) from error
    return found


def is_available() -> bool:
    """Whether mpi4py and an MPI runtime are here; does not start MPI."""
    return "mpi4py.MPI" in sys.modules or _is_installed()


@functools.cache
def _is_installed() -> bool:
    """Whether mpi4py is here, and a library of MPI's that can be loaded.

    `import mpi4py.MPI` would start it. An mpi4py that was built here is linked to its library; the
    one from PyPI loads what MPI4PY_LIBMPI names, what lies beside the interpreter, or what the
    system finds, in this order.
    """
    found = importlib.util.find_spec("mpi4py")
    if found is None or not found.submodule_search_locations:
        return False
    built = Path(
        found.submodule_search_locations[0], f"MPI{sysconfig.get_config_var('EXT_SUFFIX')}"
    )
    if built.exists():
        return _loads(str(built))
    named = os.environ.get("MPI4PY_LIBMPI")
    if named:
        return _loads(named)
    beside = Path(sys.prefix, "lib")
    return any(_loads(str(beside / name)) or _loads(name) for name in LIBRARIES)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class _Transfer(Request):
    """A request of MPI's.

    Small arrays take no longer than Python takes: what runs in every call is kept short.

    Args:
        request: MPI's.
        held: arrays that MPI reads and writes until it is done.
        finish: called once, when it is done.
    """

    def __init__(
        self, request: Any, held: tuple[Array | None, ...], finish: Callable[[], None] | None = None
    ) -> None:
        self._request = request
        self._held = held
        self._finish = finish

    def test(self) -> bool:
        if self._request is None:
            return True
        try:
            if not self._request.Test():
                return False
        except Exception as error:
            raise DistBackendError(f"MPI: {error}") from error
        self._request, self._held = None, ()
        if self._finish is not None:
            self._finish()
        return True


class _Receipt(_Transfer):
    """A message that is to come, from a process that the transfer tells.

    Args:
        request: MPI's.
        target: gets the elements: as many as are sent.
    """

    def __init__(self, request: Any, target: Array) -> None:
        super().__init__(request, (target,))
        self._size_bytes = target.nbytes

    def test(self) -> bool:
        if self._request is None:
            return True
        status = engine().Status()
        try:
            if not self._request.Test(status):
                return False
        except engine().Exception as error:
            if error.Get_error_class() != engine().ERR_TRUNCATE:
                raise DistBackendError(f"MPI: {error}") from error
            raise DistBackendError(
                f"recv: the message is longer than the tensor, which has {self._size_bytes} bytes."
                "  Expected a tensor of the size and dtype that is sent."
            ) from error
        received = status.Get_count(engine().BYTE)
        if received != self._size_bytes:
            raise DistBackendError(
                f"recv: a message of {received} bytes for a tensor of {self._size_bytes}.  "
                "Expected a tensor of the size and dtype that is sent."
            )
        self.source = status.Get_source()
        self._request, self._held = None, ()
        return True


def _again(start: Callable[..., Any], count: int, dtype: np.dtype[Any], operation: Any) -> Again:
    """What joins arrays that are described once; small ones take no longer than Python takes.

    Args:
        start: of MPI's, starts it.
        count: elements of what is written; mpi4py would find it, and the type, again in every call.
    """
    kind, in_place = engine().Datatype.fromcode(dtype.char), engine().IN_PLACE
    failure, tests = engine().Exception, range(TESTS_AT_ONCE)

    def again(output: Array, source: Array | None) -> Request | None:
        received = output, count, kind
        sent = in_place if source is None else (source, count, kind)
        try:
            request = start(sent, received, operation)
            test = request.Test
            for _ in tests:
                if test():
                    return None
        except failure as error:
            raise DistBackendError(f"MPI: {error}") from error
        return _Transfer(request, (sent, received))

    return again


class MpiChannel(Channel):
    """The processes of an MPI communicator.

    Args:
        communicator: used for nothing else.
    """

    engine = "mpi"

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self._in_place = engine().IN_PLACE
        self._of_numbers, self._of_truth = _operations()
        self.rank = communicator.Get_rank()
        self.size = communicator.Get_size()

    def split(self, ranks: Sequence[int]) -> "MpiChannel | None":
        if self.rank not in ranks:
            return None
        group = self._communicator.Get_group().Incl(list(ranks))
        return MpiChannel(self._communicator.Create_group(group))

    def barrier(self) -> Request:
        return self._started(self._communicator.Ibarrier, ())

    def broadcast(self, array: Array, root: int) -> Request:
        return self._started(self._communicator.Ibcast, (_elements(array), root))

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        array, finish = _joinable(array)
        operation = self._operation(op, array)
        arguments = (self._in_place, array, operation)
        return self._started(self._communicator.Iallreduce, arguments, finish)

    def all_reduce_again(self, array: Array, op: ReduceOp) -> Again | None:
        if array.dtype.char in _WIDENED:
            return None
        operation = self._operation(op, array)
        return _again(self._communicator.Iallreduce, array.size, array.dtype, operation)

    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        array, finish = _joinable(array)
        operation = self._operation(op, array)
        if self.rank != root:
            return self._started(self._communicator.Ireduce, (array, None, operation, root))
        arguments = (self._in_place, array, operation, root)
        return self._started(self._communicator.Ireduce, arguments, finish)

    def all_gather(self, output: Array, source: Array) -> Request:
        return self._started(self._communicator.Iallgather, (_elements(source), _elements(output)))

    def gather(self, output: Array | None, source: Array, root: int) -> Request:
        target = None if output is None else _elements(output)
        return self._started(self._communicator.Igather, (_elements(source), target, root))

    def scatter(self, output: Array, source: Array | None, root: int) -> Request:
        given = None if source is None else _elements(source)
        return self._started(self._communicator.Iscatter, (given, _elements(output), root))

    def reduce_scatter(self, output: Array, source: Array, op: ReduceOp) -> Request:
        wide, _ = _joinable(source)
        target, finish = _joinable(output)
        operation = self._operation(op, wide)
        arguments = (wide, target, operation)
        return self._started(self._communicator.Ireduce_scatter_block, arguments, finish)

    def reduce_scatter_again(self, output: Array, source: Array, op: ReduceOp) -> Again | None:
        if source.dtype.char in _WIDENED:
            return None
        start, operation = self._communicator.Ireduce_scatter_block, self._operation(op, source)
        return _again(start, output.size, source.dtype, operation)

    def all_to_all(
        self,
        output: Array,
        source: Array,
        output_counts: Sequence[int],
        source_counts: Sequence[int],
    ) -> Request:
        given, target = _elements(source), _elements(output)
        width = given.size // source.size if source.size else 1
        arguments = (
            (given, [width * count for count in source_counts]),
            (target, [width * count for count in output_counts]),
        )
        return self._started(self._communicator.Ialltoallv, arguments)

    def send(self, array: Array, peer: int, tag: int) -> Request:
        return self._started(self._communicator.Isend, (_elements(array), peer, tag))

    def receive(self, array: Array, peer: int | None, tag: int) -> Request:
        given = engine().ANY_SOURCE if peer is None else peer
        target = _elements(array)
        try:
            return _Receipt(self._communicator.Irecv(target, given, tag), target)
        except engine().Exception as error:
            raise DistBackendError(f"MPI: {error}") from error

    def _operation(self, op: ReduceOp, array: Array) -> Any:
        return self._of_truth[op] if array.dtype.char == "?" else self._of_numbers[op]

    def _started(
        self,
        start: Callable[..., Any],
        arguments: tuple[Any, ...],
        finish: Callable[[], None] | None = None,
    ) -> Request:
        try:
            return _Transfer(start(*arguments), arguments, finish)
        except engine().Exception as error:
            raise DistBackendError(f"MPI: {error}") from error

    def fail(self, reason: str) -> None:
        print(reason, file=sys.stderr, flush=True)
        sys.stdout.flush()
        _wait_until_read()
        engine().COMM_WORLD.Abort(1)


def _wait_until_read() -> None:
    """Wait until the starter has taken what this process has printed: where a job is aborted, it
    may drop what is on its way through its processes."""
    deadline = time.monotonic() + _READ_S
    while any(_unread_bytes(stream) for stream in (1, 2)) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(_PASSED_ON_S)


def _unread_bytes(descriptor: int) -> int:
    """In a pipe of which this process has the end that is written to; 0 for what is no pipe."""
    count = bytearray(4)  # a C int
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:  # closed
        return 0
    return int.from_bytes(count, sys.byteorder)


def is_alone() -> bool:
    """Whether nobody who starts ranks has started this process, and MPI does not run in it."""
    if any(name.startswith(("PMI_", "PMIX_", "OMPI_COMM_")) for name in os.environ):
        return False
    return "mpi4py.MPI" not in sys.modules and "DYNAJIT_LAUNCHED" not in os.environ


def meet(store: Store, size: int, rank: int, limit: timedelta) -> None:
    """Start MPI with processes that are alone, and have a store in common.

    Raises:
        UnsupportedError: MPI is missing.
        DistStoreError, DistNetworkError: they do not all come within the limit.
    """
    settings = optional.load("mpi4py", needed_for="A group of several processes", install=INSTALL)
    settings.rc.initialize = settings.rc.finalize = False
    meeting = Meeting(store, size, rank, limit)
    meeting.start(engine)
    MEETINGS.append(meeting)


def world(size: int, rank: int) -> MpiChannel:
    """The channel of all processes that were started together, in the order of `rank`.

    Raises:
        UnsupportedError: MPI is missing, or started another number of processes.
    """
    communicator = engine().COMM_WORLD
    found = communicator.Get_size()
    if found != size:
        raise DistBackendError(
            f"init_process_group(world_size={size}): MPI started {found} process"
            f"{'' if found == 1 else 'es'}.  Expected as many as the group has.  Start the program "
            f"with: python -m dynajit.distributed.run --nproc-per-node {size} program.py, or by "
            "multiprocessing.spawn.  Processes that a program starts itself find each other by "
            "MASTER_ADDR and MASTER_PORT, tcp://HOST:PORT, file:///PATH or a store, with MPICH."
        )
    return MpiChannel(communicator.Split(0, rank))


def announced() -> tuple[int, int] | None:
    """World size and rank where mpiexec started this process, else None; starts no MPI."""
    for size, rank in (("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")):
        if size in os.environ and rank in os.environ:
            return int(os.environ[size]), int(os.environ[rank])
    return None


def _elements(array: Array) -> Array:
    """The array as MPI takes it: bytes, where it has no type for the elements."""
    flat = array.reshape(-1)
    if flat.dtype.isbuiltin == 1 and flat.dtype != np.float16:
        return flat
    return flat.view(np.uint8)


def _joinable(array: Array) -> tuple[Array, Callable[[], None] | None]:
    """The array, or a wider copy and what writes it back."""
    if array.dtype.char not in _WIDENED:
        return array, None
    flat = array.reshape(-1)
    wide = flat.astype(np.float32)
    return wide, lambda: np.copyto(flat, wide, casting="unsafe")


@functools.cache
def _operations() -> tuple[dict[ReduceOp, Any], dict[ReduceOp, Any]]:
    """MPI's operations, of numbers and of truth values."""
    numbers = {op: getattr(engine(), names[0]) for op, names in _OPERATIONS.items()}
    return numbers, {op: getattr(engine(), names[1]) for op, names in _OPERATIONS.items()}
