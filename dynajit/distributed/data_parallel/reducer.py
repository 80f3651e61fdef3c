"""Gradients of all processes become their means while backward goes on.

Contract: a bucket is on its way as soon as its gradients and all buckets before it are there, so
that all processes send the same buckets in the same order; the end of backward waits for them. The
buckets of the first backward are those of the parameters from last to first, later ones follow the
order in which process 0 got its gradients.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.capture.control import is_compiling
from dynajit.core.errors import ArgumentError, ShapeError, UnsupportedError
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.data_parallel.buckets import Bucket, GradBucket, assigned
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.objects import broadcast_object_list
from dynajit.distributed.work import Work
from dynajit.eager.backward.arrivals import Watcher, forget, watch
from dynajit.eager.backward.present import queue_callback
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tape.node import Node
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor

MSG_UNFINISHED: Final = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss.  Pass "
    "find_unused_parameters=True to DistributedDataParallel, and let all outputs of its forward "
    "take part in the loss.  Parameters which did not receive grad for rank {rank}: {names}.  "
    "Parameter indices which did not receive grad for rank {rank}: {places}"
)
MSG_TWICE: Final = (
    "Expected to mark a variable ready only once. This error is caused by a module that is "
    "differentiated several times in one backward (re-entrant checkpoints, parameters that "
    "several forward passes share).  Parameter {place} ({name}) has been marked as ready twice.  "
    "If the graph does not change over iterations, pass static_graph=True to "
    "DistributedDataParallel."
)
MSG_RECORDED: Final = (
    "Using DistributedDataParallel with create_graph=True: gradients of gradients are those of "
    "this process alone; they are not averaged, and backpropagation does not pass the average."
)


class Reducer:
    """The buckets of one module. Mutable: a state per backward.

    Args:
        group: whose processes share the work.
        named: parameters that require gradients, by name.
        sizes: bytes from which the first bucket, and each further one, is full.
        find_unused: parameters may get no gradient.
        is_static: each backward does what the first one does.
        as_views: gradients are views of the buckets.
    """

    def __init__(
        self,
        group: ProcessGroup,
        named: Sequence[tuple[str, Tensor]],
        sizes: tuple[int, int],
        find_unused: bool,
        is_static: bool,
        as_views: bool,
    ) -> None:
        self.group = group
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.find_unused = find_unused
        self.is_static = is_static
        self.hook: tuple[Any, Callable[[Any, GradBucket], Any]] | None = None
        self.counted: tuple[Work, Tensor] | None = None
        """The number of processes that have not ended, where that is what sums are divided by."""
        self._sizes = sizes
        self._as_views = as_views
        self._place = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._buckets: list[Bucket] = []
        self._where: dict[int, tuple[Bucket, int]] = {}
        self._arrange(list(reversed(range(len(self.parameters)))))
        self._is_rebuilt = False
        self._usual: list[int] | None = None  # arrivals per parameter, of static graphs
        self._expects = False
        self._is_joined = False
        self._is_open = False  # a backward has begun, and its averages are not there yet
        self._order: list[int] = []
        self._left: list[int] = []  # arrivals to come, per parameter
        self._used = [0] * len(self.parameters)
        self._everywhere = self._used
        self._next = 0
        self._watcher = Watcher(self.arrived, sizes)
        watch(self.parameters, self._watcher)

    def stop(self) -> None:
        """Watch the parameters no more: until then backward keeps this object alive."""
        forget([id(parameter) for parameter in self.parameters], self._watcher)

    def _arrange(self, order: list[int]) -> None:
        """Make the buckets of parameters that come in this order."""
        groups = assigned([self.parameters[i] for i in order], self._sizes)
        groups.sort(key=lambda places: places[0])
        self._buckets = [
            Bucket(index, positions, [self.parameters[i] for i in positions])
            for index, positions in enumerate([[order[i] for i in group] for group in groups])
        ]
        self._where = {
            position: (bucket, k)
            for bucket in self._buckets
            for k, position in enumerate(bucket.positions)
        }
        if self._as_views:
            for bucket in self._buckets:
                for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                    if parameter.grad is not None:
                        with no_grad():
                            view.copy_(parameter.grad.detach())
                        parameter.grad = view

    @property
    def bucket_sizes(self) -> list[list[int]]:
        """Positions of the parameters of each bucket."""
        return [list(bucket.positions) for bucket in self._buckets]

    # -- one backward --------------------------------------------------------------------------

    def check_finished(self) -> None:
        """Refuse to go on where the last backward left parameters without a gradient.

        Raises:
            ShapeError: it did; a RuntimeError, as in PyTorch.
        """
        if not self._is_open:
            return
        missing = [i for i, left in enumerate(self._left) if left > 0]
        raise ShapeError(
            MSG_UNFINISHED.format(
                rank=self.group.rank(),
                names=", ".join(self.names[i] for i in missing),
                places=" ".join(map(str, missing)),
            )
        )

    def expect(self, outputs: Sequence[Tensor] | None) -> None:
        """Average in the backward that follows.

        Args:
            outputs: of forward, of which unused parameters are told; None: all are used.
        """
        self._expects = True
        self._next = 0
        self._order = []
        self._used = [0] * len(self.parameters)
        self._left = [1] * len(self.parameters) if self._usual is None else list(self._usual)
        #: Graphs keep gradients in tensors of their own: one that lies in the memory of several
        #: cannot be followed there.
        self._is_joined = is_compiling()
        if self.find_unused and outputs is not None and not self._is_joined:
            reached = _leaves_below(outputs)
            self._left = [int(id(parameter) in reached) for parameter in self.parameters]
        for bucket in self._buckets:
            bucket.pending = sum(self._left[i] > 0 for i in bucket.positions)
            bucket.answer = None
            bucket.parts = list(bucket.parameters) if self._is_joined else []

    def arrived(self, leaf: Tensor) -> None:
        """The gradient of a parameter is complete.

        Raises:
            ShapeError: for the second time, in a graph that is not static; a RuntimeError.
            UnsupportedError: it is sparse.
        """
        if not self._expects:
            return
        place = self._place[id(leaf)]
        if not self._is_open:
            self._begin()
        self._used[place] = 1
        if self.is_static and self._usual is None:
            self._order.append(place)  # sent at the end: nobody knows how often each comes
            return
        if self._left[place] <= 0:
            if self.find_unused and not self._where[place][0].answer and self._left[place] == 0:
                self._fill(place)  # reached in another way than by the outputs
                return
            raise ShapeError(MSG_TWICE.format(place=place, name=self.names[place]))
        self._left[place] -= 1
        if self._left[place]:
            return
        self._order.append(place)
        self._left[place] = 0 if self.is_static else -1
        self._fill(place)
        self._where[place][0].pending -= 1
        self._send()

    def _begin(self) -> None:
        queue_callback(self._end)
        self._is_open = True
        for place, left in enumerate(self._left):
            if left == 0:
                self._fill(place)
        if not self.is_static or self._usual is not None:
            self._send()

    def _fill(self, place: int) -> None:
        """The gradient, divided by the number of processes, in its bucket: zeros if there is
        none."""
        bucket, k = self._where[place]
        gradient, view = self.parameters[place].grad, bucket.views[k]
        factor = 1.0 if self.hook is not None else 1.0 / self._divisor()
        with no_grad():
            if self._is_joined:
                known = view.new_zeros(view.shape) if gradient is None else gradient.detach()
                bucket.parts[k] = known if factor == 1.0 else known * factor
                return
            if gradient is None:
                view.zero_()
                return
            if gradient.requires_grad:
                warnings.warn(MSG_RECORDED, stacklevel=2)
            if gradient.layout is not view.layout:
                raise UnsupportedError(
                    f"DistributedDataParallel: the gradient of {self.names[place]} is sparse.  "
                    "Expected strided gradients: make its layer with sparse=False."
                )
            if gradient is not view:
                view.copy_(gradient.detach())
            if factor != 1.0:
                view.mul_(factor)

    def _divisor(self) -> int:
        if self.counted is None:
            return self.group.size()
        work, count = self.counted
        work.wait()
        return max(int(count), 1)

    def _send(self) -> None:
        """Start every bucket whose turn it is."""
        while self._next < len(self._buckets) and self._buckets[self._next].pending == 0:
            self._start(self._buckets[self._next])
            self._next += 1

    def _start(self, bucket: Bucket) -> None:
        with no_grad():
            whole = bucket.join() if self._is_joined else bucket.buffer
            if self.hook is None:
                bucket.answer = all_reduce(whole, group=self.group, async_op=True)
                return
            state, hook = self.hook
            bucket.answer = hook(state, GradBucket(bucket, whole, bucket is self._buckets[-1]))
        if not hasattr(bucket.answer, "wait"):
            raise ArgumentError(
                f"a communication hook returned {type(bucket.answer).__name__}.  Expected a Future "
                "of the tensor in which the gradients are."
            )

    def _end(self) -> None:
        """Wait for the averages, and hand them out; unless gradients are missing."""
        if self.is_static and self._usual is None:
            self._learn()
        elif self.find_unused:
            for place, left in enumerate(self._left):
                if left > 0:
                    self._fill(place)
                    self._left[place] = 0
            for bucket in self._buckets:
                bucket.pending = 0
            self._send()
        if self._next < len(self._buckets):
            return
        self._receive()
        self._share_used()
        for bucket in self._buckets:
            for position, parameter, view in zip(
                bucket.positions, bucket.parameters, bucket.parts or bucket.views, strict=True
            ):
                if self._everywhere[position]:
                    self._hand_out(parameter, view)
            bucket.parts = []
        self._is_open = self._expects = False
        if self._is_joined:  # a graph has its order, which all processes know
            self._is_rebuilt = True
        self._rebuild()

    def _receive(self) -> None:
        for bucket in self._buckets:
            value = bucket.answer.wait()
            bucket.answer = None
            if self.hook is not None:
                bucket.take(_only(value), self._is_joined)

    def _hand_out(self, parameter: Tensor, view: Tensor) -> None:
        gradient = parameter.grad
        if self._as_views:
            if gradient is not view:
                parameter.grad = view
        elif gradient is None:
            parameter.grad = view.clone()
        else:
            with no_grad():
                gradient.copy_(view)

    def _learn(self) -> None:
        """What the first backward of a static graph did: then all is sent."""
        counts = [0] * len(self.parameters)
        for place in self._order:
            counts[place] += 1
        self._order = list(dict.fromkeys(self._order))
        for place in range(len(self.parameters)):
            self._fill(place)
        for bucket in self._buckets:
            bucket.pending = 0
        self._left = [0] * len(self.parameters)
        self._send()
        self._usual = counts

    def _share_used(self) -> None:
        """Which parameters some process used."""
        if self.find_unused or (self.is_static and not self._is_rebuilt):
            used = tensor(self._used)
            all_reduce(used, group=self.group)
            #: What all use here is used: graphs need not look at what arrived.
            self._everywhere = self._used if all(self._used) else used.tolist()
        elif not self.is_static:
            self._everywhere = [1] * len(self._used)

    def _rebuild(self) -> None:
        """Once: buckets in the order in which process 0 got its gradients."""
        if self._is_rebuilt or (self.find_unused and not self.is_static):
            return
        self._is_rebuilt = True
        rest = [i for i in reversed(range(len(self.parameters))) if i not in set(self._order)]
        order: list[Any] = [self._order + rest]
        broadcast_object_list(order, group=self.group, group_src=0)
        self._arrange(order[0])

    # -- processes that have ended ---------------------------------------------------------------

    def shadow(self) -> None:
        """What a process without inputs does while the others run backward: it adds zeros."""
        self._next = 0
        self._order = []
        self._is_joined = False
        self._used = [0] * len(self.parameters)
        for bucket in self._buckets:
            with no_grad():
                bucket.buffer.zero_()
            bucket.pending = 0
        self._send()
        self._receive()
        self._share_used()
        self._rebuild()


def _only(value: Any) -> Tensor:
    """The tensor of a future: itself, or the one of a list, as a work's future gives."""
    found = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
    if not isinstance(found, Tensor):
        raise ArgumentError(
            f"a communication hook's future gave {type(value).__name__}.  Expected a tensor."
        )
    return found


def _leaves_below(outputs: Sequence[Tensor]) -> set[int]:
    """Identities of the leaves that a gradient of the outputs may reach."""
    found: set[int] = set()
    seen: set[Node] = set()
    stack: list[Any] = []
    for output in outputs:
        if output.requires_grad:
            stack.append(output if output.grad_fn is None else output.grad_fn)
    while stack:
        target = stack.pop()
        if not isinstance(target, Node):
            found.add(id(target))
        elif target not in seen:
            seen.add(target)
            stack.extend(edge for edge in target.edges if edge is not None)
    return found


__all__ = ["Reducer"]
