"""Channels that stand before an engine's: one counts what is called, one is as slow as it is told.

Contract: `_Before` hands everything on; tensors arrive as without it.
"""

import time
from typing import Any

from dynajit.distributed.channels.channel import Array, Channel, Request
from dynajit.distributed.reductions import ReduceOp


class _Before:
    """What a channel says and does.

    Args:
        channel: the engine's.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)


class Counting(_Before):
    """Counts the collectives that are started. Mutable."""

    count = 0

    def __getattr__(self, name: str) -> Any:
        if name in Channel.__abstractmethods__:
            self.count += 1
        return super().__getattr__(name)


class _Late(Request):
    """A transfer that has not arrived before its time."""

    def __init__(self, request: Request, arrival_s: float) -> None:
        self._request = request
        self._arrival_s = arrival_s

    def test(self) -> bool:
        return time.monotonic() >= self._arrival_s and self._request.test()


class SlowLink(_Before):
    """All-reduces travel one after the other, and take so long. Mutable: it is busy.

    Args:
        channel: of whose messages.
        byte_s: seconds of a byte.
    """

    def __init__(self, channel: Channel, byte_s: float) -> None:
        super().__init__(channel)
        self._byte_s = byte_s
        self._free_s = 0.0

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        """As of the channel, later."""
        self._free_s = max(time.monotonic(), self._free_s) + array.nbytes * self._byte_s
        return _Late(self.channel.all_reduce(array, op), self._free_s)
