"""A group of one process: what it sends it receives.

Contract: as `channel.Channel`; every request is done when it is returned, but `receive`, which
waits for a `send` with its tag.
"""

from collections.abc import Sequence

from dynajit.core.arrays import any_arrays
from dynajit.distributed.channels.channel import DONE, Array, Channel, Done, Request
from dynajit.distributed.reductions import ReduceOp


class _Arrival(Request):
    """A receipt that waits for what the process sends itself."""

    def __init__(self, array: Array, sent: list[Array]) -> None:
        self._array = array
        self._sent = sent
        self._arrived = False

    def test(self) -> bool:
        if not self._arrived and self._sent:
            _copy(self._array, self._sent.pop(0))
            self._arrived, self.source = True, 0
        return self._arrived


class OneProcess(Channel):
    """The channel of a process to itself. Mutable: it holds what was sent and not yet received."""

    rank = 0
    size = 1
    engine = "one process"

    def __init__(self) -> None:
        self._sent: dict[int, list[Array]] = {}

    def split(self, ranks: Sequence[int]) -> "OneProcess | None":
        return OneProcess() if list(ranks) == [0] else None

    def barrier(self) -> Request:
        return DONE

    def broadcast(self, array: Array, root: int) -> Request:
        return DONE

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        return DONE

    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        return DONE

    def all_gather(self, output: Array, source: Array) -> Request:
        return _copy(output, source)

    def gather(self, output: Array | None, source: Array, root: int) -> Request:
        return _copy(output, source)

    def scatter(self, output: Array, source: Array | None, root: int) -> Request:
        return _copy(output, source)

    def reduce_scatter(self, output: Array, source: Array, op: ReduceOp) -> Request:
        return _copy(output, source)

    def all_to_all(
        self,
        output: Array,
        source: Array,
        output_counts: Sequence[int],
        source_counts: Sequence[int],
    ) -> Request:
        return _copy(output, source)

    def send(self, array: Array, peer: int, tag: int) -> Request:
        self._sent.setdefault(tag, []).append(array.copy())
        return DONE

    def receive(self, array: Array, peer: int | None, tag: int) -> Request:
        return _Arrival(array, self._sent.setdefault(tag, []))

    def fail(self, reason: str) -> None:
        """Nothing: nobody waits for this process."""


def _copy(output: Array, source: Array) -> Done:
    any_arrays.copy_into(output.reshape(-1), source.reshape(-1))
    return DONE
