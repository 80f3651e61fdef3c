"""Gradients in buckets: which belong together, and the memory in which they travel.

Contract: `assigned` is a function of the parameters alone, so that all processes get the same
buckets. A bucket's gradients lie one after the other, row by row, in one tensor.
"""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.errors import ArgumentError
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import zeros
from dynajit.ops.functions.shapes.index import cat

FIRST_BYTES: Final = 1 << 20
"""Of the first bucket, which shall be on its way soon. Source: PyTorch."""

DEFAULT_MB: Final = 25
"""Of each further one. Source: PyTorch."""


def assigned(parameters: Sequence[Tensor], sizes: Sequence[int]) -> list[list[int]]:
    """Positions of parameters by bucket, in the order given.

    Args:
        parameters: in the order in which their gradients are expected.
        sizes: bytes from which a bucket is full: the first one of its kind, the second, and so on;
            the last holds for all that follow. Each dtype and device has buckets of its own.
    """
    open_ones: dict[Any, list[int]] = {}
    filled: dict[Any, int] = {}
    number: dict[Any, int] = {}
    found: list[list[int]] = []
    for position, parameter in enumerate(parameters):
        kind = (parameter.dtype, str(parameter.device))
        if kind not in open_ones:
            open_ones[kind], filled[kind] = [], 0
            found.append(open_ones[kind])
        open_ones[kind].append(position)
        filled[kind] += parameter.numel() * parameter.element_size()
        if filled[kind] >= sizes[min(number.get(kind, 0), len(sizes) - 1)]:
            number[kind] = number.get(kind, 0) + 1
            del open_ones[kind]
    return found


class Bucket:
    """Gradients that travel together. Mutable: filled in each backward.

    Args:
        index: its place among the buckets.
        positions: of its parameters among those of the module.
        parameters: themselves.

    Attributes:
        buffer: of as many elements as all parameters.
        views: of the buffer, in the shapes of the parameters.
        parts: gradients of a backward within a graph, which are joined when they are all there.
        pending: how many gradients are still to come.
        answer: what is waited for, once it was started: has `wait()`.
    """

    def __init__(self, index: int, positions: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.index = index
        self.positions = tuple(positions)
        self.parameters = tuple(parameters)
        first = parameters[0]
        count = sum(parameter.numel() for parameter in parameters)
        self.buffer: Tensor = zeros(count, dtype=first.dtype, device=first.device)
        self.views: list[Tensor] = []
        self.parts: list[Tensor] = []
        self.pending = len(self.positions)
        self.answer: Any = None
        self.look(self.buffer)

    def look(self, buffer: Tensor) -> None:
        """Let the views show another buffer."""
        self.buffer = buffer
        self.views, start = [], 0
        for parameter in self.parameters:
            end = start + parameter.numel()
            self.views.append(buffer[start:end].view(tuple(parameter.shape)))
            start = end

    def join(self) -> Tensor:
        """The parts in one tensor, of which they are views from now on."""
        whole: Tensor = cat([part.reshape(-1) for part in self.parts])
        self.part(whole)
        return whole

    def part(self, whole: Tensor) -> None:
        """Let the parts be views of a tensor."""
        self.parts, start = [], 0
        for parameter in self.parameters:
            end = start + parameter.numel()
            self.parts.append(whole[start:end].view(tuple(parameter.shape)))
            start = end

    def take(self, result: Tensor, is_joined: bool) -> None:
        """What a hook gave in the place of the buffer, or of the parts that were joined."""
        if is_joined:
            self.part(result.detach().reshape(-1))
        elif result is not self.buffer:
            with no_grad():
                self.buffer.copy_(result.detach().reshape(-1))


class GradBucket:
    """A bucket as communication hooks see it.

    Args:
        bucket: of this process.
        buffer: its gradients, not yet divided.
        is_last: no other one follows in this backward.
    """

    __slots__ = ("_bucket", "_buffer", "_is_last")

    def __init__(self, bucket: Bucket, buffer: Tensor, is_last: bool) -> None:
        self._bucket = bucket
        self._buffer = buffer
        self._is_last = is_last

    def index(self) -> int:
        """Its place among the buckets."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """The gradients one after the other, one dim."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Another tensor in the place of the buffer.

        Raises:
            ArgumentError: it has another number of elements.
        """
        if buffer.numel() != self._bucket.buffer.numel():
            raise ArgumentError(
                f"GradBucket.set_buffer: got {buffer.numel()} elements.  Expected "
                f"{self._bucket.buffer.numel()}, one for each of the bucket's gradients."
            )
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Views of the buffer, in the shapes of the parameters."""
        sizes = [parameter.numel() for parameter in self._bucket.parameters]
        parts = self._buffer.reshape(-1).split(sizes)
        return [
            part.view(tuple(parameter.shape))
            for part, parameter in zip(parts, self._bucket.parameters, strict=True)
        ]

    def parameters(self) -> list[Tensor]:
        """Whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether no other one follows in this backward."""
        return self._is_last
