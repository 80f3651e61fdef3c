"""NCCL through CuPy: arrays on GPUs of their processes; arrays in host memory go another way.

Contract: as `channel.Channel`, of arrays of both kinds. NCCL's work is put on CuPy's current stream
and is done when an event behind it is. Messages, and what NCCL has no type or operation for
(complex numbers, truth values, bits), go over the host. The first array on a GPU makes the
communicator, in all processes at the same collective; each process has a GPU of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime
from dynajit.core.errors import DistBackendError, UnsupportedError
from dynajit.distributed.channels.channel import DONE, Array, Channel, Request
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.work import finished

#: Numbers of types and operations. Source: ncclDataType_t and ncclRedOp_t in nccl.h.
_TYPES: Final = {
    "int8": 0, "uint8": 1, "int32": 2, "int64": 4,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_OPERATIONS: Final = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}
_BYTES: Final = _TYPES["uint8"]

#: Seconds in which all processes make the communicator.
_START_LIMIT_S: Final = 600.0


def why_not() -> str | None:
    """Why NCCL is not here, None where it is."""
    if not runtime.is_available():
        return runtime.why_not()
    try:
        runtime.nccl()
    except UnsupportedError as error:
        return str(error)
    return None


class _Enqueued(Request):
    """Work on a stream. Mutable: it ends.

    Args:
        held: arrays that NCCL reads and writes until then.
    """

    def __init__(self, held: tuple[Array | None, ...]) -> None:
        stream = runtime.current_stream()
        self._event = runtime.module().cuda.Event(disable_timing=True)
        self._event.record(stream)
        self._held: tuple[Array | None, ...] = held

    def test(self) -> bool:
        if not self._event.done:
            return False
        self._held = ()
        return True


class _ByHost(Request):
    """A transfer of copies in host memory. Mutable: it ends.

    Args:
        request: of the copies.
        written: arrays on a GPU, each with the copy that is written.
    """

    def __init__(self, request: Request, written: Sequence[tuple[Array, Array]]) -> None:
        self._request = request
        self._written = written

    def test(self) -> bool:
        if not self._request.test():
            return False
        for array, copy in self._written:
            any_arrays.copy_into(array, any_arrays.placed_like(copy, array))
        self.source, self._written = self._request.source, ()
        return True


class NcclChannel(Channel):
    """Processes that reach each other by a host channel, and their GPUs by NCCL.

    Mutable: it makes the communicator when it is first used.

    Args:
        host: carries arrays in host memory, and NCCL's identification.
    """

    engine = "nccl"
    on_host = False

    def __init__(self, host: Channel) -> None:
        self._host = host
        self.rank = host.rank
        self.size = host.size
        self._made: Any = None

    def split(self, ranks: Sequence[int]) -> "NcclChannel | None":
        host = self._host.split(ranks)
        return None if host is None else NcclChannel(host)

    def barrier(self) -> Request:
        if runtime.is_loaded():
            runtime.synchronize()
        return self._host.barrier()

    def broadcast(self, array: Array, root: int) -> Request:
        if not runtime.is_gpu_array(array):
            return self._host.broadcast(array, root)
        place, count = array.data.ptr, array.nbytes
        return self._enqueued(
            lambda nccl, stream: nccl.broadcast(place, place, count, _BYTES, root, stream), array
        )

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        if not _is_joined_by_nccl(array, op):
            return self._by_host(lambda copy: self._host.all_reduce(copy, op), array)
        place = array.data.ptr
        return self._enqueued(
            lambda nccl, stream: nccl.allReduce(
                place, place, array.size, _type(array), _OPERATIONS[op], stream
            ),
            array,
        )

    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        if not _is_joined_by_nccl(array, op):
            return self._by_host(lambda copy: self._host.reduce(copy, root, op), array)
        target = array if self.rank == root else runtime.module().empty_like(array)
        return self._enqueued(
            lambda nccl, stream: nccl.reduce(
                array.data.ptr, target.data.ptr, array.size, _type(array), _OPERATIONS[op], root,
                stream,
            ),
            array, target,
        )  # fmt: skip

    def all_gather(self, output: Array, source: Array) -> Request:
        if not runtime.is_gpu_array(source):
            return self._host.all_gather(output, source)
        return self._enqueued(
            lambda nccl, stream: nccl.allGather(
                source.data.ptr, output.data.ptr, source.nbytes, _BYTES, stream
            ),
            output, source,
        )  # fmt: skip

    def gather(self, output: Array | None, source: Array, root: int) -> Request:
        if not runtime.is_gpu_array(source):
            return self._host.gather(output, source, root)

        def start(nccl: Any, stream: int) -> None:
            nccl.send(source.data.ptr, source.nbytes, _BYTES, root, stream)
            if output is not None:
                for peer in range(self.size):
                    place = output.data.ptr + peer * source.nbytes
                    nccl.recv(place, source.nbytes, _BYTES, peer, stream)

        return self._together(start, output, source)

    def scatter(self, output: Array, source: Array | None, root: int) -> Request:
        if not runtime.is_gpu_array(output):
            return self._host.scatter(output, source, root)

        def start(nccl: Any, stream: int) -> None:
            if source is not None:
                for peer in range(self.size):
                    place = source.data.ptr + peer * output.nbytes
                    nccl.send(place, output.nbytes, _BYTES, peer, stream)
            nccl.recv(output.data.ptr, output.nbytes, _BYTES, root, stream)

        return self._together(start, output, source)

    def reduce_scatter(self, output: Array, source: Array, op: ReduceOp) -> Request:
        if not _is_joined_by_nccl(source, op):
            if not runtime.is_gpu_array(source):
                return self._host.reduce_scatter(output, source, op)
            copy, given = runtime.to_host(output), runtime.to_host(source)
            return _ByHost(self._host.reduce_scatter(copy, given, op), [(output, copy)])
        return self._enqueued(
            lambda nccl, stream: nccl.reduceScatter(
                source.data.ptr, output.data.ptr, output.size, _type(source), _OPERATIONS[op],
                stream,
            ),
            output, source,
        )  # fmt: skip

    def all_to_all(
        self,
        output: Array,
        source: Array,
        output_counts: Sequence[int],
        source_counts: Sequence[int],
    ) -> Request:
        if not runtime.is_gpu_array(source):
            return self._host.all_to_all(output, source, output_counts, source_counts)
        width = source.dtype.itemsize

        def start(nccl: Any, stream: int) -> None:
            given, target = source.data.ptr, output.data.ptr
            counts = zip(source_counts, output_counts, strict=True)
            for peer, (sent, received) in enumerate(counts):
                nccl.send(given, width * sent, _BYTES, peer, stream)
                nccl.recv(target, width * received, _BYTES, peer, stream)
                given, target = given + width * sent, target + width * received

        return self._together(start, output, source)

    def send(self, array: Array, peer: int, tag: int) -> Request:
        given = runtime.to_host(array) if runtime.is_gpu_array(array) else array
        return self._host.send(given, peer, tag)

    def receive(self, array: Array, peer: int | None, tag: int) -> Request:
        return self._by_host(lambda copy: self._host.receive(copy, peer, tag), array)

    def fail(self, reason: str) -> None:
        self._host.fail(reason)

    def _by_host(self, start: Callable[[Array], Request], array: Array) -> Request:
        """A transfer that reads and writes an array, wherever that is."""
        if not runtime.is_gpu_array(array):
            return start(array)
        copy = runtime.to_host(array)
        return _ByHost(start(copy), [(array, copy)])

    def _enqueued(self, start: Callable[[Any, int], None], *held: Array | None) -> Request:
        communicator = self._communicator()
        if all(array is None or not array.size for array in held):
            return DONE
        try:
            start(communicator, runtime.current_stream().ptr)
        except RuntimeError as error:
            raise DistBackendError(f"NCCL: {error}") from error
        return _Enqueued(held)

    def _together(self, start: Callable[[Any, int], None], *held: Array | None) -> Request:
        """Sends and receipts that NCCL starts at once: one by one they would wait for each
        other."""

        def grouped(communicator: Any, stream: int) -> None:
            nccl = runtime.nccl()
            nccl.groupStart()
            try:
                start(communicator, stream)
            finally:
                nccl.groupEnd()

        return self._enqueued(grouped, *held)

    def _communicator(self) -> Any:
        if self._made is None:
            nccl = runtime.nccl()
            # Bytes of the identification, which CuPy gives as small integers.
            found = nccl.get_unique_id() if self.rank == 0 else ()
            size = np.array([len(found)])
            self._tell(size)
            content = np.array(found or [0] * int(size[0]), np.int64)
            self._tell(content)
            try:
                self._made = nccl.NcclCommunicator(self.size, tuple(content.tolist()), self.rank)
            except RuntimeError as error:
                raise DistBackendError(
                    f"NCCL: {error}.  Expected a GPU for each process: call "
                    "dynajit.cuda.set_device(LOCAL_RANK) first, or use the backend 'gloo'."
                ) from error
        return self._made

    def _tell(self, array: Array) -> None:
        """Give every process the first one's numbers."""
        finished(self._host.broadcast(array, 0), None, _START_LIMIT_S, "the start of NCCL")


def _is_joined_by_nccl(array: Array, op: ReduceOp) -> bool:
    is_known = op in _OPERATIONS and array.dtype.name in _TYPES
    return is_known and runtime.is_gpu_array(array)


def _type(array: Array) -> int:
    return _TYPES[array.dtype.name]
