"""NCCL of the stand-in: its calls on host memory, by MPI between processes that mpiexec started.

Work is done when its call returns, or when the group of calls ends.
"""

import ctypes

import ml_dtypes
import numpy as np
from mpi4py import MPI

available = True

_TYPES = {
    0: np.int8, 1: np.uint8, 2: np.int32, 4: np.int64,
    6: np.float16, 7: np.float32, 8: np.float64, 9: ml_dtypes.bfloat16,
}  # fmt: skip
_OPERATIONS = [np.sum, np.prod, np.max, np.min]
_pending = []
_depth = 0
calls = []


def get_unique_id():
    return tuple([7, -1] * 64)


def groupStart():
    global _depth
    _depth += 1


def groupEnd():
    global _depth
    _depth -= 1
    if not _depth:
        MPI.Request.Waitall([start() for start in _pending])
        _pending.clear()


def _array(place, count, kind):
    dtype = np.dtype(_TYPES[kind])
    if not count:
        return np.empty(0, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(place)
    return np.frombuffer(memory, dtype)


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):
        assert commId == get_unique_id()
        self._comm = MPI.COMM_WORLD.Dup()
        assert (self._comm.size, self._comm.rank) == (ndev, rank)

    def _joined(self, source, op):
        return _OPERATIONS[op](np.stack(self._comm.allgather(source.copy())), axis=0)

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        calls.append("allReduce")
        _array(recvbuf, count, datatype)[:] = self._joined(_array(sendbuf, count, datatype), op)

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        calls.append("reduce")
        found = self._joined(_array(sendbuf, count, datatype), op)
        if self._comm.rank == root:
            _array(recvbuf, count, datatype)[:] = found

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        calls.append("broadcast")
        _array(recvbuff, count, datatype)[:] = self._comm.bcast(
            _array(sendbuff, count, datatype).copy(), root
        )

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        calls.append("reduceScatter")
        whole = self._joined(_array(sendbuf, recvcount * self._comm.size, datatype), op)
        start = recvcount * self._comm.rank
        _array(recvbuf, recvcount, datatype)[:] = whole[start : start + recvcount]

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        calls.append("allGather")
        found = np.concatenate(self._comm.allgather(_array(sendbuf, count, datatype).copy()))
        _array(recvbuf, count * self._comm.size, datatype)[:] = found

    def send(self, sendbuf, count, datatype, peer, stream):
        assert _depth, "alone, it would wait for the other"
        calls.append("send")
        source = _array(sendbuf, count, datatype)
        _pending.append(lambda: self._comm.Isend(source, peer))

    def recv(self, recvbuf, count, datatype, peer, stream):
        assert _depth
        calls.append("recv")
        target = _array(recvbuf, count, datatype)
        _pending.append(lambda: self._comm.Irecv(target, peer))
