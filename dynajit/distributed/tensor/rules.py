"""Where the result of a row lies, and where its operands have to, on one dim of a mesh.

Contract: `options` lists what a row can do with parts: placements of operands, and of the result
that the row gives for those parts. Each option is right whatever the values are; a row without any
has `whole`, which always is. They follow from what the row says of itself: its kind, its index
map, in which operands it is linear, along which dims it works (`sample_rules.Along`); rows for
which that says too little are named in `_NAMED`. Dims of a mesh are independent of each other.
Nothing here communicates, or knows tensors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType
from dynajit.distributed.tensor.index_maps import carried
from dynajit.distributed.tensor.layouts import chunk
from dynajit.distributed.tensor.placements import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from dynajit.ops.rows.movement import matching_groups
from dynajit.ops.table import sample_rules
from dynajit.ops.table.op_table import TABLE, Kind, Op

REPLICATE: Final = Replicate()

Wants = tuple[Placement | None, ...]


@record
class Call:
    """A row and its operands, seen along one dim of a mesh.

    Args:
        op: the row.
        types: of whole operands; a ScalarType, or None, of what is no tensor.
        attributes: as of the whole.
        out: of the whole result.
        placements: of the operands on this dim of the mesh; None of what is no tensor.
        count: processes along it.
        others: processes along the other dims of the mesh that split anything.
    """

    op: Op
    types: tuple[Any, ...]
    attributes: Mapping[str, Any]
    out: TensorType
    placements: Wants
    count: int
    others: int = 1

    def shape(self, place: int) -> tuple[int, ...]:
        """Of a whole operand."""
        return tuple(self.types[place].shape)

    def result_shape(self) -> tuple[int, ...]:
        """Of the whole result."""
        return tuple(map(int, self.out.shape))

    def tensors(self) -> list[int]:
        """Places of the operands that are tensors."""
        return [place for place, type in enumerate(self.types) if isinstance(type, TensorType)]

    def kinds(self) -> set[Partial]:
        """The reductions that operands wait for."""
        return {p for p in self.placements if isinstance(p, Partial)}


@record
class Option:
    """What a row can do with parts.

    Args:
        wants: placements of the operands; None of what is no tensor.
        result: of the result.
        looks_up: the operand at place 0 is split along the dim in which the row looks positions up:
            those of other processes give 0.
    """

    wants: Wants
    result: Placement
    looks_up: bool = False


def whole(call: Call) -> Option:
    """Every process computes everything."""
    return Option(_wants(call, {}), REPLICATE)


def options(call: Call) -> list[Option]:
    """What a row can do with parts of its operands, the cheapest to hold first."""
    named = _NAMED.get(call.op)
    if named is not None:
        found = list(named(call))
    elif isinstance(call.op.samples, sample_rules.Along):
        found = list(_beside(call, call.op.samples.names))
    else:
        found = list(_OF_KIND.get(call.op.kind, _none)(call))
    return [*found, *_linear(call)]


def is_named(op: Op) -> bool:
    """Whether a row that stands for others has options of its own, which are preferred."""
    return op in _NAMED


def _none(call: Call) -> Iterable[Option]:
    return ()


def _wants(call: Call, chosen: Mapping[int, Placement]) -> Wants:
    return tuple(
        chosen.get(place, REPLICATE) if isinstance(type, TensorType) else None
        for place, type in enumerate(call.types)
    )


def _shards(call: Call) -> set[tuple[int, int]]:
    """(place, dim) of the operands that are split."""
    return {
        (place, placement.dim)
        for place, placement in enumerate(call.placements)
        if isinstance(placement, Shard)
    }


# -- element by element ----------------------------------------------------------------------------


def _pointwise(call: Call) -> Iterator[Option]:
    """All operands that have a dim of the result's size are split along it, those of size 1 are
    not."""
    if "shape" in call.attributes:
        return
    rank = len(call.out.shape)
    yield from _strided(call)
    dims = {dim + rank - len(call.shape(place)) for place, dim in _shards(call)}
    for dim in sorted(dims):
        chosen: dict[int, Placement] = {}
        for place in call.tensors():
            shape = call.shape(place)
            own = dim - rank + len(shape)
            if own >= 0 and shape[own] == call.out.shape[dim]:
                chosen[place] = Shard(own)
        yield Option(_wants(call, chosen), Shard(dim))


def _strided(call: Call) -> Iterator[Option]:
    """Operands of one shape, split in a way that has no other name."""
    for placement in set(call.placements):
        if isinstance(placement, _StridedShard):
            places = [p for p in call.tensors() if call.shape(p) == tuple(call.out.shape)]
            others = [p for p in call.tensors() if p not in places]
            if all(call.types[p].numel == 1 for p in others):
                yield Option(_wants(call, dict.fromkeys(places, placement)), placement)


# -- rows that are linear --------------------------------------------------------------------------


def _linear(call: Call) -> Iterator[Option]:
    """A linear row of the parts of a sum gives the parts of the result."""
    if call.out.dtype.category < Category.FLOATING:
        return
    for kind in call.kinds():
        if kind.reduce_op in ("sum", "avg"):
            for chosen in _linear_in(call):
                if chosen is not None:
                    yield Option(_wants(call, dict.fromkeys(chosen, kind)), kind)
        elif call.op.kind is Kind.MOVEMENT and call.op.rule.rearranges:
            yield Option(_wants(call, {0: kind}), kind)


def _linear_in(call: Call) -> Iterator[list[int] | None]:
    """Places of operands in which the row is linear, all together."""
    op, tensors = call.op, call.tensors()
    if op.kind is Kind.MOVEMENT and op.name == "pad" and call.attributes["value"]:
        return
    if op.variadic:
        if op.kind is Kind.MOVEMENT:
            yield tensors
        return
    added = [place for place, name in enumerate(op.inputs) if name in _added(op)]
    numbers = [p for p in added if call.types[p] is not None and p not in tensors]
    if numbers:  # a number would be added once by every process
        return
    added = [place for place in added if place in tensors]
    for place, name in enumerate(op.inputs):
        if name in op.factors and place in tensors:
            yield [place, *added]
    if added and not op.factors:
        yield added


def _added(op: Op) -> tuple[str, ...]:
    """Names of the inputs in which a row is linear, all together: see `RowFacts.linear`."""
    if op.linear is not None:
        return op.linear
    if op.kind in (Kind.MOVEMENT, Kind.SCATTER):
        return tuple(name for name in op.inputs if op.vjp.get(name) is not None)
    return ("x",) if op is TABLE.sum else ()


# -- reductions ------------------------------------------------------------------------------------

_JOINED_BY: Final = {"sum": "sum", "amax": "max", "amin": "min"}
"""Reductions of parts of which the same reduction gives that of the whole, by name in Partial."""


def _reduction(call: Call) -> Iterator[Option]:
    dims, keeps = call.attributes["dim"], call.attributes["keepdim"]
    for _, dim in sorted(_shards(call)):
        if dim not in dims:
            removed = 0 if keeps else sum(other < dim for other in dims)
            yield Option((Shard(dim),), Shard(dim - removed))
        elif call.op.name in _JOINED_BY and (call.op is TABLE.sum or _is_full(call, dim)):
            yield Option((Shard(dim),), Partial(_JOINED_BY[call.op.name]))


def _is_full(call: Call, dim: int) -> bool:
    """Whether every process has something of a dim."""
    size = call.shape(0)[dim]
    return call.others == 1 and chunk(size, call.count, call.count - 1)[1] > 0


# -- movements and scatters ------------------------------------------------------------------------


def _movement(call: Call) -> Iterator[Option]:
    if call.op is TABLE.reshape:
        yield from _reshape(call)
        return
    if call.op in (TABLE.index_select, TABLE.gather):
        yield from _lookup(call)
    if call.op not in _CARRYING:
        return
    shards = _shards(call)
    for dim in carried(call.op, call.types, call.attributes, call.out):
        places = {place: at for place, at in enumerate(dim.operands) if at is not None}
        if shards.isdisjoint(places.items()) or dim.result is None:
            continue
        if all(call.shape(p)[at] == call.out.shape[dim.result] for p, at in places.items()):
            chosen: dict[int, Placement] = {p: Shard(at) for p, at in places.items()}
            yield Option(_wants(call, chosen), Shard(dim.result))


_CARRYING: Final = frozenset((
    TABLE.cat, TABLE.clone, TABLE.conj_view, TABLE.detach, TABLE.diagonal, TABLE.expand, TABLE.flip,
    TABLE.gather, TABLE.imag, TABLE.index, TABLE.index_select, TABLE.laid_out, TABLE.neg_view,
    TABLE.pad, TABLE.permute, TABLE.read_again, TABLE.real, TABLE.select, TABLE.slice,
    TABLE.slice_scatter, TABLE.tril, TABLE.triu, TABLE.view_as_complex, TABLE.view_as_real,
))  # fmt: skip
"""Movements of which `localized` knows the attributes that speak of sizes."""


def _reshape(call: Call) -> Iterator[Option]:
    """The first dim of a run of dims that become others stays split, where parts end at the same
    elements."""
    old, new = call.shape(0), call.result_shape()
    for _, dim in sorted(_shards(call)):
        for first, last, then, end in matching_groups(old, new):
            if not first <= dim < last:
                continue
            source = next((d for d in range(first, last) if old[d] != 1), first)
            target = next((d for d in range(then, end) if new[d] != 1), then)
            if dim == source and target < end and _ends_alike(call, old[dim], new[target]):
                yield Option((Shard(dim),), Shard(target))


def _ends_alike(call: Call, old: int, new: int) -> bool:
    """Whether parts of a dim of one size hold the same elements as those of another, of which each
    step is as many or as few."""
    if old == new:
        return True
    count = call.count
    if not old or not new:
        return False
    if call.others > 1:
        return old % (count * call.others) == new % (count * call.others) == 0
    wide, narrow = max(old, new), min(old, new)
    if wide % narrow:
        return False
    return bool(-(-wide // count) == -(-narrow // count) * (wide // narrow))


def _scatter(call: Call) -> Iterator[Option]:
    """Of what is added: parts of a dim that is summed up give parts of a sum."""
    shards = _shards(call)
    for dim in carried(call.op, call.types, call.attributes, call.out):
        places = {place: at for place, at in enumerate(dim.operands) if at is not None and place}
        if shards.isdisjoint(places.items()):
            continue
        chosen: dict[int, Placement] = {place: Shard(at) for place, at in places.items()}
        sizes = {call.shape(place)[at] for place, at in places.items()}
        if dim.result is not None:
            if sizes == {call.out.shape[dim.result]}:
                yield Option(_wants(call, {**chosen, 0: Shard(dim.result)}), Shard(dim.result))
        elif call.op.rule.mode == "add" and len(sizes) == 1:
            total = Partial()
            yield Option(_wants(call, {**chosen, 0: total}), total)


def _lookup(call: Call) -> Iterator[Option]:
    """What a process does not have counts as 0, and is added by who has it."""
    dim = call.attributes.get("dim", 0)
    if (0, dim) in _shards(call) and call.out.dtype.category >= Category.FLOATING:
        yield Option(_wants(call, {0: Shard(dim)}), Partial(), looks_up=True)


# -- rows along dims, products, tables -------------------------------------------------------------


def _beside(call: Call, names: Sequence[str]) -> Iterator[Option]:
    """Operands of one shape are split along a dim that the row does not work along."""
    along: set[int] = set()
    for name in names:
        dims = call.attributes[name]
        along |= set(dims) if isinstance(dims, (tuple, list)) else {dims}
    shapes = {call.shape(place) for place in call.tensors()}
    if shapes != {tuple(call.out.shape)}:
        if call.op.kind is Kind.MOVEMENT:
            yield from _movement(call)
        elif call.op.kind is Kind.REDUCTION:
            yield from _reduction(call)
        elif call.op.kind is Kind.SCATTER:
            yield from _scatter(call)
        return
    if call.op.kind in (Kind.MOVEMENT, Kind.REDUCTION, Kind.SCATTER):
        yield from _OF_KIND[call.op.kind](call)
        return
    for dim in sorted({dim for _, dim in _shards(call)}):
        if dim not in along:
            yield Option(_wants(call, dict.fromkeys(call.tensors(), Shard(dim))), Shard(dim))


def _matmul(call: Call) -> Iterator[Option]:
    left, right = call.shape(0), call.shape(1)
    rank = len(call.out.shape)
    for place, dim in sorted(_shards(call)):
        own = (left, right)[place]
        from_the_end = dim - len(own)
        if from_the_end == (-1, -2)[place]:
            yield Option((Shard(len(left) - 1), Shard(len(right) - 2)), Partial())
        elif from_the_end == (-2, -1)[place]:
            wants: list[Placement] = [REPLICATE, REPLICATE]
            wants[place] = Shard(dim)
            yield Option(tuple(wants), Shard(rank + from_the_end))
        else:
            batch = dim - len(own) + rank
            at = [batch - rank + len(shape) for shape in (left, right)]
            wants = [
                Shard(d) if d >= 0 and shape[d] == call.out.shape[batch] else REPLICATE
                for d, shape in zip(at, (left, right), strict=True)
            ]
            if own[dim] == call.out.shape[batch]:
                yield Option(tuple(wants), Shard(batch))


def _linear_layer(call: Call) -> Iterator[Option]:
    """Of `linear(x, weight, bias)`: columns of the result, sums over what goes in, rows of x."""
    inner, shards = len(call.shape(0)) - 1, _shards(call)
    has_bias = isinstance(call.types[2], TensorType) and bool(call.shape(2))
    if (1, 0) in shards or (2, 0) in shards:
        bias: dict[int, Placement] = {2: Shard(0)} if has_bias else {}
        yield Option(_wants(call, {1: Shard(0), **bias}), Shard(inner))
    if (0, inner) in shards or (1, 1) in shards:
        yield Option(_wants(call, {0: Shard(inner), 1: Shard(1), 2: Partial()}), Partial())
    for place, dim in sorted(shards):
        if place == 0 and dim < inner:
            yield Option(_wants(call, {0: Shard(dim)}), Shard(dim))


def _embedding(call: Call) -> Iterator[Option]:
    """Of `embedding(weight, indices)`."""
    last = len(call.out.shape) - 1
    for place, dim in sorted(_shards(call)):
        if place == 1:
            yield Option((REPLICATE, Shard(dim)), Shard(dim))
        elif dim == 1:
            yield Option((Shard(1), REPLICATE), Shard(last))
        else:
            yield from _lookup(call)


_OF_KIND: Final[dict[Kind, Callable[[Call], Iterable[Option]]]] = {
    Kind.POINTWISE: _pointwise,
    Kind.REDUCTION: _reduction,
    Kind.MOVEMENT: _movement,
    Kind.SCATTER: _scatter,
}
_NAMED: Final[dict[Op, Callable[[Call], Iterable[Option]]]] = {
    TABLE.matmul: _matmul,
    TABLE.linear: _linear_layer,
    TABLE.embedding: _embedding,
    TABLE.overwrite: _pointwise,
    TABLE.overwrite_unrecorded: _pointwise,
    TABLE.to_device: _pointwise,
    TABLE.sgn: _pointwise,
    TABLE.conj: _pointwise,
    TABLE.angle: _pointwise,
    TABLE.complex: _pointwise,
}


# -- attributes ------------------------------------------------------------------------------------

_SIZES: Final = {"reshape": "shape", "expand": "shape"}


def localized(
    op: Op, attributes: Mapping[str, Any], local: Sequence[int], out: Sequence[int]
) -> dict[str, Any]:
    """Attributes as they are of parts.

    Args:
        local: the shape of the part of operand 0.
        out: that of the part of the result.
    """
    found = dict(attributes)
    if op.name in _SIZES:
        found[_SIZES[op.name]] = tuple(out)
    elif op.name in ("slice", "slice_scatter"):
        found["stop"] = tuple(min(s, n) for s, n in zip(attributes["stop"], local, strict=True))
    return found
