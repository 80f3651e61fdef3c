"""Which elements of a tensor each process of a mesh has: a mesh, placements and the whole's shape.

Contract: a `Layout` is a value. A dim of the tensor is split as `Tensor.chunk` splits: into parts
of `ceil(size / count)`, of which the last ones may be smaller, or empty. What several dims of the
mesh split is split by the first of them first; a `_StridedShard` comes after those behind it.
Nothing here communicates.
"""

import functools
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import ArgumentError, BoundsError, InvalidValueError, ShapeError
from dynajit.core.records import record
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.tensor.placements import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)

Placements = tuple[Placement, ...]


def chunk(size: int, count: int, place: int) -> tuple[int, int]:
    """Where part `place` of `count` begins in a dim, and how long it is."""
    step = -(-size // count)
    start = min(place * step, size)
    return start, min(start + step, size) - start


@record
class Layout:
    """See the module.

    Args:
        mesh: the processes.
        placements: one for each dim of the mesh; dims of the tensor count from the front.
        shape: of the whole.
    """

    mesh: DeviceMesh
    placements: Placements
    shape: tuple[int, ...]

    def order(self) -> tuple[int, ...]:
        """The dims of the mesh that split, in the order in which they do."""
        return order_of(self.placements)

    def coordinate(self) -> tuple[int, ...]:
        """The place of this process along every dim of the mesh.

        Raises:
            ShapeError: it is outside.
        """
        return coordinate_in(self.mesh)

    def spans(self, coordinate: Sequence[int] | None = None) -> tuple[tuple[int, int], ...]:
        """Of each dim where a process's part begins, and how long it is.

        Args:
            coordinate: of the process; None: of this one.
        """
        place = self.coordinate() if coordinate is None else coordinate
        spans = [(0, size) for size in self.shape]
        for at in self.order():
            placement = self.placements[at]
            assert isinstance(placement, Shard)
            start, length = spans[placement.dim]
            inside, length = chunk(length, self.mesh.size(at), place[at])
            spans[placement.dim] = start + inside, length
        return tuple(spans)

    def local_shape(self, coordinate: Sequence[int] | None = None) -> tuple[int, ...]:
        """The shape of a process's part."""
        return tuple(length for _, length in self.spans(coordinate))

    def with_placements(self, placements: Sequence[Placement]) -> "Layout":
        """The same tensor, placed otherwise."""
        return Layout(self.mesh, tuple(placements), self.shape)

    def is_replicated(self) -> bool:
        """Whether every process has the whole."""
        return all(isinstance(placement, Replicate) for placement in self.placements)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.placements))
        return f"({shown}) on {self.mesh!r}"


@functools.lru_cache(maxsize=1024)
def order_of(placements: Placements) -> tuple[int, ...]:
    """See `Layout.order`."""
    plain = [
        at
        for at, placement in enumerate(placements)
        if isinstance(placement, Shard) and not isinstance(placement, _StridedShard)
    ]
    strided = [at for at, p in enumerate(placements) if isinstance(p, _StridedShard)]
    return (*plain, *reversed(strided))


@functools.lru_cache(maxsize=256)
def coordinate_in(mesh: DeviceMesh) -> tuple[int, ...]:
    """See `Layout.coordinate`."""
    found = mesh.get_coordinate()
    if found is None:
        raise ShapeError(
            f"this process is not in {mesh!r}.  Only processes of a mesh make and use tensors that "
            "are spread over it."
        )
    return found


def checked_placements(placements: Any, mesh: DeviceMesh, rank: int, name: str) -> Placements:
    """Placements with dims from the front; None: the whole everywhere.

    Args:
        rank: the number of dims of the tensor.
        name: of what was called, for messages.

    Raises:
        ArgumentError: one is no placement.
        InvalidValueError: there are more or fewer than the mesh has dims, or they do not go
            together.
        BoundsError: the tensor has no such dim.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if isinstance(placements, Placement):
        raise ArgumentError(
            f"{name}: placements is {placements!r}.  Expected a sequence, one for each dim of the "
            "mesh, such as [Shard(0)]."
        )
    listed = list(placements)
    if len(listed) != mesh.ndim:
        raise InvalidValueError(
            f"{name}: `placements` must have the same length as `device_mesh.ndim`! Found "
            f"{len(listed)} placements, and device_mesh.ndim is {mesh.ndim}."
        )
    found = tuple(_from_the_front(placement, rank, name) for placement in listed)
    kinds = {placement.reduce_op for placement in found if isinstance(placement, Partial)}
    if len(kinds) > 1:
        raise InvalidValueError(
            f"{name}: placements {found} mix reductions ({', '.join(sorted(kinds))}).  Expected "
            "one reduction on all dims of the mesh."
        )
    return found


def _from_the_front(placement: Any, rank: int, name: str) -> Placement:
    if not isinstance(placement, Placement):
        raise ArgumentError(
            f"{name}: {placement!r} is no placement.  Expected Shard(dim), Replicate() or "
            "Partial()."
        )
    if not isinstance(placement, Shard):
        return placement
    dim = placement.dim
    if not -rank <= dim < rank:
        raise BoundsError(
            f"{name}: {placement!r} of a tensor with {rank} dims.  Expected a dim from {-rank} to "
            f"{rank - 1}."
        )
    if dim >= 0:
        return placement
    if isinstance(placement, _StridedShard):
        return _StridedShard(dim + rank, split_factor=placement.split_factor)
    return Shard(dim + rank)


def for_gradient(placements: Placements) -> Placements:
    """Where the gradient of a tensor lies: the parts of a sum have the gradient of the sum."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)
