"""Parts of a tensor, placed otherwise: what processes send each other for it.

Contract: `moved` gives this process's part by new placements, from parts by old ones, without
gradients: the given tensor itself where they are the same, else memory of its own. All processes of
a mesh call it with the same layouts, in the same order. What is sent depends on layouts alone.
Every step changes one dim of the mesh.
"""

from typing import Any, Final

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.memory_format import contiguous_format
from dynajit.distributed.collectives import (
    all_gather_into_tensor,
    all_reduce,
    all_to_all_single,
    reduce_scatter_tensor,
)
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.tensor.layouts import Layout, Placements, chunk
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import zeros, zeros_like
from dynajit.ops.functions.shapes.index import cat

_REDUCTIONS: Final = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
    "product": ReduceOp.PRODUCT,
}


def moved(local: Tensor, layout: Layout, placements: Placements) -> Tensor:
    """This process's part by `placements`.

    Args:
        local: its part by `layout`.
    """
    if layout.placements == placements:
        return local
    with no_grad():
        move = _Move(local.detach(), layout)
        move.to(placements)
    return move.local


class _Move:
    """A part on its way. Mutable: it is placed otherwise step by step."""

    def __init__(self, local: Tensor, layout: Layout) -> None:
        self.local = local
        self.layout = layout
        self.place = layout.coordinate()

    def to(self, placements: Placements) -> None:
        """Let the part lie as told."""
        if self._exchanged(placements):
            return
        for at in range(len(placements)):
            if isinstance(self.layout.placements[at], Partial) and self._differs(at, placements):
                self._reduce(at, placements)
        for at in reversed(self._to_gather(placements)):
            self._gather(at)
        for at in self.layout.with_placements(placements).order():
            if self._differs(at, placements):
                self._cut(at, placements[at])
        for at, placement in enumerate(placements):
            if self._differs(at, placements):
                self._become_partial(at, placement)

    def _differs(self, at: int, placements: Placements) -> bool:
        return self.layout.placements[at] != placements[at]

    def _now(self, at: int, placement: Placement, local: Tensor) -> None:
        known = list(self.layout.placements)
        known[at] = placement
        self.layout = self.layout.with_placements(known)
        self.local = local

    def _to_gather(self, placements: Placements) -> list[int]:
        """Dims of the mesh whose parts are to be joined, in the order in which they split: those
        that change, and what splits parts of theirs or of what they will split."""
        order = self.layout.order()
        wanted = self.layout.with_placements(placements).order()
        split = {at: self.layout.placements[at].dim for at in order}  # type: ignore[attr-defined]
        will = {at: placements[at].dim for at in wanted}  # type: ignore[attr-defined]
        found: list[int] = []
        for position, at in enumerate(order):
            before = [other for other in order[:position] if split[other] == split[at]]
            then = [other for other in wanted if will[other] == split[at]]
            is_kept = not self._differs(at, placements) and then[: len(before) + 1] == [*before, at]
            if not is_kept or any(other in found for other in before):
                found.append(at)
        return found

    def _exchanged(self, placements: Placements) -> bool:
        """Whether one dim of the mesh splits another dim of the tensor now, which nothing else
        splits: every process sends each other one a block."""
        changed = [at for at in range(len(placements)) if self._differs(at, placements)]
        if len(changed) != 1:
            return False
        (at,) = changed
        old, new = self.layout.placements[at], placements[at]
        if type(old) is not Shard or type(new) is not Shard:
            return False
        others = [p for place, p in enumerate(placements) if place != at]
        if any(isinstance(p, Shard) and p.dim in (old.dim, new.dim) for p in others):
            return False
        self._exchange(at, old, new)
        return True

    def _exchange(self, at: int, old: Shard, new: Shard) -> None:
        count, place = self.layout.mesh.size(at), self.place[at]
        whole = self.layout.shape[old.dim]
        sizes = [chunk(self.local.shape[new.dim], count, p)[1] for p in range(count)]
        blocks = self.local.split(sizes, new.dim)
        shape = list(self.local.shape)
        shape[new.dim] = sizes[place]
        shapes = []
        for sender in range(count):
            shape[old.dim] = chunk(whole, count, sender)[1]
            shapes.append(tuple(shape))
        sent = cat([block.reshape(-1) for block in blocks])
        counts = [_count(shape) for shape in shapes]
        received = empty(sum(counts), dtype=sent.dtype, device=sent.device)
        all_to_all_single(
            received, sent, counts, [block.numel() for block in blocks], group=self._group(at)
        )
        parts = [x.reshape(s) for x, s in zip(received.split(counts), shapes, strict=True)]
        self._now(at, new, cat(parts, old.dim))

    def _group(self, at: int) -> Any:
        return self.layout.mesh.get_group(at)

    def _reduce(self, at: int, placements: Placements) -> None:
        """Join the parts of a sum (or another reduction)."""
        old, wanted = self.layout.placements[at], placements[at]
        assert isinstance(old, Partial)
        others = [*self.layout.placements, *placements[:at], *placements[at + 1 :]]
        if type(wanted) is Shard and not any(
            isinstance(other, Shard) and other.dim == wanted.dim for other in others
        ):
            self._reduce_in_parts(at, old, wanted)
            return
        if isinstance(wanted, Partial):
            raise UnsupportedError(
                f"redistribute from {old!r} to {wanted!r}: go over Replicate() in between."
            )
        local = self.local.clone().contiguous()
        all_reduce(local, _REDUCTIONS[old.reduce_op], group=self._group(at))
        self._now(at, Replicate(), local)

    def _reduce_in_parts(self, at: int, old: Partial, wanted: Shard) -> None:
        """Join the parts of a sum, of which this process keeps its part."""
        dim, count = wanted.dim, self.layout.mesh.size(at)
        size = self.layout.shape[dim]
        step = -(-size // count)
        front = _padded(self.local.movedim(dim, 0), step * count)
        joined = empty((step, *front.shape[1:]), dtype=front.dtype, device=front.device)
        operator = _REDUCTIONS[old.reduce_op]
        reduce_scatter_tensor(joined, front, operator, group=self._group(at))
        length = chunk(size, count, self.place[at])[1]
        self._now(at, wanted, joined[:length].movedim(0, dim).contiguous())

    def _gather(self, at: int) -> None:
        """Join the parts that one dim of the mesh splits."""
        placement = self.layout.placements[at]
        assert isinstance(placement, Shard)
        dim, count = placement.dim, self.layout.mesh.size(at)
        rest = list(self.layout.placements)
        rest[at] = Replicate()
        size = self.layout.with_placements(rest).local_shape()[dim]
        step = -(-size // count)
        front = _padded(self.local.movedim(dim, 0), step)
        joined = empty((step * count, *front.shape[1:]), dtype=front.dtype, device=front.device)
        all_gather_into_tensor(joined, front, group=self._group(at))
        self._now(at, Replicate(), joined[:size].movedim(0, dim).contiguous())

    def _cut(self, at: int, placement: Placement) -> None:
        """Keep a part of what is there."""
        assert isinstance(placement, Shard)
        size = self.local.shape[placement.dim]
        start, length = chunk(size, self.layout.mesh.size(at), self.place[at])
        part = self.local.narrow(placement.dim, start, length)
        self._now(at, placement, part.clone(memory_format=contiguous_format))

    def _become_partial(self, at: int, placement: Placement) -> None:
        """Let a whole be what a reduction gives."""
        assert isinstance(placement, Partial)
        local = self.local.clone()
        if placement.reduce_op == "sum" and self.place[at]:
            local = zeros_like(local)
        elif placement.reduce_op == "product":
            raise UnsupportedError("redistribute to Partial('product'): not available.")
        self._now(at, placement, local)


def _padded(x: Tensor, rows: int) -> Tensor:
    """A tensor row by row, with zeros behind, so that it has so many rows."""
    missing = rows - x.shape[0]
    if missing:
        behind = zeros((missing, *x.shape[1:]), dtype=x.dtype, device=x.device)
        return cat([x, behind])  # type: ignore[no-any-return]
    return x.contiguous()  # type: ignore[no-any-return]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
