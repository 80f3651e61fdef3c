"""What carries arrays between the processes of a group: the interface that engines implement.

Contract: arrays are contiguous and of a dtype that the engine knows; nothing is checked but what
the engine checks. Every method starts a transfer and returns a `Request` at once; the arrays are
neither written by others nor let go of until the request is done. All processes of a group start
the same collectives in the same order. Ranks are places within the group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from dynajit.distributed.reductions import ReduceOp

Array: TypeAlias = Any
"""A contiguous `numpy.ndarray` or `cupy.ndarray`."""

TESTS_AT_ONCE: Final = 50
"""Of a request, after which a thread that waits lets others run: what takes longer is worth that.
Measured on two cores, with 2 and 4 processes."""


class Request(ABC):
    """A transfer that was started. Mutable: it ends.

    Attributes:
        source: the rank that sent what was received, once it is done; -1 for collectives.
    """

    source: int = -1

    @abstractmethod
    def test(self) -> bool:
        """Whether it is done; moves it forward.

        Raises:
            DistBackendError: the engine failed.
        """


class Done(Request):
    """A transfer that ended when it was started."""

    def __init__(self, source: int = -1) -> None:
        self.source = source

    def test(self) -> bool:
        return True


DONE = Done()

Again: TypeAlias = Callable[[Array, Array | None], Request | None]
"""Makes one collective of arrays that it has seen, without looking at them: starts it, and waits a
little for its end. Takes what is written and what is read, None where they are one. Returns the
request of what is not done then."""


class Channel(ABC):
    """The processes of one group, and ways to send arrays between them.

    Attributes:
        rank: the place of this process.
        size: how many there are.
        engine: the name of what carries the arrays.
        on_host: the arrays are in host memory; else on the process's GPU.
    """

    rank: int
    size: int
    engine: str
    on_host: bool = True

    @abstractmethod
    def split(self, ranks: Sequence[int]) -> "Channel | None":
        """The channel of some of the processes, or None in a process that is not among them. Every
        process of this channel calls it; `ranks` are places here, in the order of the new group."""

    @abstractmethod
    def barrier(self) -> Request:
        """Done when every process has called it."""

    @abstractmethod
    def broadcast(self, array: Array, root: int) -> Request:
        """The root's elements in every process's array."""

    @abstractmethod
    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        """The elements of all processes joined, in every process's array."""

    def all_reduce_again(self, array: Array, op: ReduceOp) -> Again | None:
        """What makes the call of this very array, given again; None: nothing does."""
        return None

    @abstractmethod
    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        """The elements of all processes joined, in the root's array; others keep theirs."""

    @abstractmethod
    def all_gather(self, output: Array, source: Array) -> Request:
        """Every process's `source` one after the other in every `output`."""

    @abstractmethod
    def gather(self, output: Array | None, source: Array, root: int) -> Request:
        """Every process's `source` one after the other in the root's `output`."""

    @abstractmethod
    def scatter(self, output: Array, source: Array | None, root: int) -> Request:
        """One of the equal parts of the root's `source` in each process's `output`."""

    @abstractmethod
    def reduce_scatter(self, output: Array, source: Array, op: ReduceOp) -> Request:
        """One of the equal parts of what joins all `source`s in each process's `output`."""

    def reduce_scatter_again(self, output: Array, source: Array, op: ReduceOp) -> Again | None:
        """The same of `reduce_scatter`, of output and source."""
        return None

    @abstractmethod
    def all_to_all(
        self,
        output: Array,
        source: Array,
        output_counts: Sequence[int],
        source_counts: Sequence[int],
    ) -> Request:
        """Part j of process i's `source` as part i of process j's `output`; counts of elements."""

    @abstractmethod
    def send(self, array: Array, peer: int, tag: int) -> Request:
        """The array to a process that receives it with this tag."""

    @abstractmethod
    def receive(self, array: Array, peer: int | None, tag: int) -> Request:
        """What a process, any for None, sends with this tag, in the array."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """End all processes of the job: this one cannot go on, and others would wait for it."""
