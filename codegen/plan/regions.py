"""Regions: what one kernel computes, while it is being decided.

Contract: a region has a domain (the row-major index space `shape`, of which the dims in `reduced`
are reduced per row, or the one dim is scanned) and a list of anchors: values that it stores, scans
or reduces. `add` takes a further anchor or refuses with `NotFusable`, which says why; a refused
anchor leaves the region unchanged. A value of the region is read by another one only at the same
element or row. `codegen.plan.lowering` turns finished regions into kernels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynajit.codegen.loops.elements import (
    Elements,
    Storage,
    is_inline_reduction,
    linear,
    nothing,
    position_expression,
    regroup,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Apply,
    Axis,
    Buffer,
    Expression,
    Load,
    Slot,
    walk,
)
from dynajit.codegen.loops.scans import COMBINES, accumulator, direction, is_scan
from dynajit.codegen.loops.symbolic import Scalar, SymbolicScalars, cast, lift, literal
from dynajit.core.types import symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir.node import Node, type_of
from dynajit.ops.table.op_table import Kind

ELEMENT = "element"
ROW = "row"
ELEMENT_TOTAL = "element total"
ROW_TOTAL = "row total"
FINAL = "final"

LARGEST_EXPRESSION = 600
"""Nodes of one region's expressions; a larger kernel compiles slowly and spills registers."""

LARGEST_SINGLE_ROW = 1 << 15
"""A whole-array reduction up to this size is one row, so its result can be used in the kernel."""


class NotFusable(Exception):
    """Why a value cannot join a region; used only between `Region` and its callers."""


@dataclass(slots=True)
class Anchor:
    """One value of a region: what it is, and its expressions. Mutable only while built.

    Args:
        node: the value.
        level: ELEMENT, ROW or FINAL for a stored value; ROW, ELEMENT_TOTAL or ROW_TOTAL for a
            reduction. A scan has a running value at each ELEMENT.
        value: the stored expression, or of a reduction or scan the finished result.
        accumulate: for a reduction or scan.
        store: where the value is stored, None for a reduction that nothing outside reads.
        offset: position of the stored element.
    """

    node: Node
    level: str
    value: Expression
    accumulate: Accumulate | None = None
    store: Buffer | None = None
    offset: Number = 0


def is_reduction(node: Node) -> bool:
    """True for a reduction that is a loop."""
    return node.op is not None and node.op.kind is Kind.REDUCTION and not is_inline_reduction(node)


def reduced_type(node: Node) -> TensorType:
    """Type of what a reduction reduces."""
    given = type_of(node.args[0])
    assert isinstance(given, TensorType)
    return given


def collapsed(shape: Shape, reduced: frozenset[int]) -> list[tuple[Number, bool]]:
    """(size, reduced?) of runs of neighbouring dims of one sort; dims of size 1 vanish."""
    runs: list[tuple[Number, bool]] = []
    for d, size in enumerate(shape):
        if size == 1:
            continue
        if runs and runs[-1][1] == (d in reduced):
            runs[-1] = (runs[-1][0] * size, d in reduced)
        else:
            runs.append((size, d in reduced))
    return runs


def reduces_all(shape: Shape, reduced: frozenset[int]) -> bool:
    """True if one element is left."""
    return all(size == 1 for d, size in enumerate(shape) if d not in reduced)


def is_single_row(shape: Shape) -> bool:
    """True if a reduction of the whole of `shape` may be one row; no for unknown sizes."""
    return symint.is_at_least(LARGEST_SINGLE_ROW, numel(shape))


def reduces_columns(shape: Shape, reduced: frozenset[int]) -> bool:
    """True if the innermost dims are kept, so that lanes should be results, not elements."""
    runs = collapsed(shape, reduced)
    return len(runs) > 1 and not runs[-1][1]


@dataclass(slots=True, eq=False)
class Region:
    """A kernel being decided. Mutable: anchors are added. See the module."""

    storage: Storage
    shape: Shape
    reduced: frozenset[int] = frozenset()
    columns: bool = False
    scanned: int = 0  # the direction in which the dim in `reduced` is scanned, not reduced
    anchors: dict[Node, Anchor] = field(default_factory=dict)
    needs: set[Any] = field(default_factory=set)
    elements: Elements = field(init=False)
    axes: tuple[Axis, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.axes = tuple(Axis(f"i{d}", size) for d, size in enumerate(self.shape))
        self.elements = Elements(self.storage, self._own)

    # -- the domain

    @property
    def row_shape(self) -> Shape:
        """Sizes of the dims that are not reduced."""
        return tuple(size for d, size in enumerate(self.shape) if d not in self.reduced)

    @property
    def row_index(self) -> tuple[Number, ...]:
        """Loop variables of the dims that are not reduced."""
        return tuple(axis.symbol for d, axis in enumerate(self.axes) if d not in self.reduced)

    @property
    def index(self) -> tuple[Number, ...]:
        """Loop variables of all dims."""
        return tuple(axis.symbol for axis in self.axes)

    def index_of(self, shape: Shape, level: str) -> tuple[Number, ...]:
        """Index, in a value of `shape`, of the element or row at hand."""
        if level == ELEMENT:
            return regroup(self.index, self.shape, shape)
        if level == ROW:
            return regroup(self.row_index, self.row_shape, shape)
        return (0,) * len(shape)

    def _level_of(self, shape: Shape) -> str:
        size = numel(shape)
        if size == numel(self.shape) and not self.columns:
            return ELEMENT
        if self.scanned:
            raise NotFusable("it has fewer elements than the scan")
        if self.reduced and size == numel(self.row_shape):
            return ROW
        if size == 1 and not self.columns:
            return FINAL
        raise NotFusable(f"its {size} elements are not those of the domain {list(self.shape)}")

    # -- values that the region computes itself

    def _own(self, node: Node, index: tuple[Number, ...]) -> Expression | None:
        anchor = self.anchors.get(node)
        if anchor is None:
            # Another shape of a value of this region: its memory is not written yet.
            return self.elements.compute(node, index) if self._shares_memory(node) else None
        shape = node.type.shape
        level = FINAL if anchor.level in (ELEMENT_TOTAL, ROW_TOTAL) else anchor.level
        if linear(index, shape) != linear(self.index_of(shape, level), shape):
            raise NotFusable(f"it reads {node.name} at other elements than its own")
        return anchor.value

    def _shares_memory(self, node: Node) -> bool:
        buffer = self.storage.buffers.get(node)
        return buffer is not None and any(
            self.storage.buffers.get(member) == buffer for member in self.anchors
        )

    # -- adding

    def try_add(self, node: Node) -> str | None:
        """Let `node` join; the reason if it cannot (the region is unchanged then)."""
        try:
            self.add(node)
        except NotFusable as refusal:
            return str(refusal)
        return None

    def add(self, node: Node, forced: bool = False) -> None:
        """Let `node` join, however large the kernel becomes if `forced`.

        Raises:
            NotFusable: it cannot.
        """
        upgraded = self._upgrade_for(node)
        if upgraded is not None:
            upgraded.add(node)
            self._become(upgraded)
            return
        mark = self.elements.remembered()
        try:
            anchor = self._anchor(node, forced)
        except NotFusable:
            self.elements.forget_since(mark)
            raise
        anchor.store = self.storage.add(node)
        self.anchors[node] = anchor

    def check_domains(self, nodes: Iterable[Node]) -> None:
        """Refuse what cannot be computed over the domain, before any of it is.

        Raises:
            NotFusable: the values of a node are not those of the domain.
        """
        if not self.reduced and not self.columns:
            return  # it may become another domain
        for node in nodes:
            if is_reduction(node):
                self._reduction_level(node)
            elif not is_scan(node):
                self._level_of(node.type.shape)

    def is_apart_from(self, other: "Region") -> bool:
        """True if both have one domain, and neither reads a value of the other, nor data as index.

        Data indices have names of their own in each region.
        """
        mine, others = (
            (region.shape, region.reduced, region.columns, region.scanned)
            for region in (self, other)
        )
        if mine != others or self.elements.data_indices.all() or other.elements.data_indices.all():
            return False
        return self not in other.needs and other not in self.needs

    def joined(self, other: "Region", members: Sequence[Node]) -> "Region":
        """The region with the anchors of both, in the order of `members`.

        Requires: `is_apart_from`, so that no expression changes.
        """
        region = Region(self.storage, self.shape, self.reduced, self.columns, self.scanned)
        anchors = {**self.anchors, **other.anchors}
        region.anchors = {member: anchors[member] for member in members}
        region.elements.take_over(self.elements)
        region.elements.take_over(other.elements)
        return region

    def _upgrade_for(self, node: Node) -> "Region | None":
        """This region with rows, if `node` reduces or scans what is so far a pointwise domain."""
        if self.reduced or self.columns:
            return None
        if is_scan(node):
            return self._with_scan(node)
        if not is_reduction(node):
            return None
        shape = reduced_type(node).shape
        reduced = frozenset(node.attributes["dim"])
        whole = reduces_all(shape, reduced)
        if numel(shape) != numel(self.shape) or reduces_columns(shape, reduced):
            return None
        if whole and not is_single_row(shape):
            return None
        region = Region(self.storage, shape, reduced, needs=set(self.needs))
        for member in self.anchors:
            region.add(member)
        return region

    def _with_scan(self, node: Node) -> "Region":
        shape = node.type.shape
        if numel(shape) != numel(self.shape):
            raise NotFusable(f"it scans another domain than {list(self.shape)}")
        reduced = frozenset((node.attributes["dim"],))
        scanned = direction(node)
        region = Region(self.storage, shape, reduced, scanned=scanned, needs=set(self.needs))
        for member in self.anchors:
            region.add(member)
        return region

    def _become(self, other: "Region") -> None:
        """Take over everything of a region over the same values."""
        self.shape, self.reduced, self.scanned = other.shape, other.reduced, other.scanned
        self._restart()
        self.anchors = {}
        for member in other.anchors:
            self.add(member, forced=True)

    def _anchor(self, node: Node, forced: bool) -> Anchor:
        if is_scan(node):
            anchor = self._scan(node)
        else:
            anchor = self._reduction(node) if is_reduction(node) else self._stored(node)
        self._check(anchor, forced)
        return anchor

    def _stored(self, node: Node) -> Anchor:
        shape = node.type.shape
        level = self._level_of(shape)
        index = self.index_of(shape, level)
        empty = numel(shape) == 0
        value = nothing(node) if empty else self.elements.compute(node, index)
        return Anchor(node, level, value, offset=linear(index, shape))

    def _scan(self, node: Node) -> Anchor:
        """A running value: the accumulator after the element at hand."""
        assert node.op is not None and isinstance(node.type, TensorType)
        shape = node.type.shape
        own = frozenset((node.attributes["dim"],))
        is_same = collapsed(shape, own) == collapsed(self.shape, self.reduced)
        if self.scanned != direction(node) or not is_same:
            raise NotFusable("it scans, which is done along one dim in one direction per kernel")
        index = self.index_of(shape, ELEMENT)
        dtype = accumulator(node)
        function, start = COMBINES[node.op.name]
        accumulate = Accumulate(
            node.name,
            (cast(self.elements.at(node.args[0], index), dtype),),
            None,
            (literal(start, dtype),),
            (Apply(function, (Slot("a", 0, dtype), Slot("b", 0, dtype)), dtype),),
        )
        value = cast(Accumulated(node.name, 0, dtype), node.type.dtype)
        return Anchor(node, ELEMENT, value, accumulate, offset=linear(index, shape))

    def _reduction(self, node: Node) -> Anchor:
        level, index = self._reduction_level(node)
        accumulate = self._accumulate(node, index)
        assert node.op is not None and isinstance(node.type, TensorType)
        parts = tuple(
            Scalar(Accumulated(node.name, k, x.dtype)) for k, x in enumerate(accumulate.element)
        )
        result = node.op.rule.finish(SymbolicScalars(), parts)
        value = cast(lift(result, node.type.dtype), node.type.dtype)
        shape = node.type.shape
        where = self.index_of(shape, level) if level == ROW else (0,) * len(shape)
        return Anchor(node, level, value, accumulate, offset=linear(where, shape))

    def _reduction_level(self, node: Node) -> tuple[str, tuple[Number, ...]]:
        """Level of a reduction and the index, in what it reduces, of the element at hand."""
        shape = reduced_type(node).shape
        reduced = frozenset(node.attributes["dim"])
        size = numel(shape)
        whole = reduces_all(shape, reduced)
        if self.scanned:
            raise NotFusable("it reduces what is scanned")
        if self.reduced and collapsed(shape, reduced) == collapsed(self.shape, self.reduced):
            return ROW, self.index_of(shape, ELEMENT)
        if self.columns or not whole:
            raise NotFusable(f"it reduces another domain than {list(self.shape)}")
        if not self.reduced and size == numel(self.shape):
            return ELEMENT_TOTAL, self.index_of(shape, ELEMENT)
        if self.reduced and size == numel(self.row_shape):
            return ROW_TOTAL, self.index_of(shape, ROW)
        raise NotFusable(f"it reduces another domain than {list(self.shape)}")

    def _accumulate(self, node: Node, index: tuple[Number, ...]) -> Accumulate:
        assert node.op is not None
        rule = node.op.rule
        given = reduced_type(node)
        compute = rule.compute(given.dtype)
        shape, dim = given.shape, sorted(node.attributes["dim"])
        namespace = SymbolicScalars()

        def element(at: tuple[Number, ...]) -> tuple[Expression, ...]:
            x = Scalar(cast(self.elements.at(node.args[0], at), compute))
            position = linear([at[d] for d in dim], [shape[d] for d in dim])
            parts = rule.init(namespace, x, Scalar(position_expression(position)))
            return tuple(lift(part, compute) for part in parts)

        parts = element(index)
        sides = [
            tuple(Scalar(Slot(side, k, x.dtype)) for k, x in enumerate(parts)) for side in "ab"
        ]
        combined = tuple(
            cast(lift(c, x.dtype), x.dtype)
            for c, x in zip(rule.combine(namespace, *sides), parts, strict=True)
        )
        identity = rule.identity(compute)
        if identity is not None:
            start = tuple(cast(lift(v, x.dtype), x.dtype)
                          for v, x in zip(identity, parts, strict=True))  # fmt: skip
            return Accumulate(node.name, parts, None, start, combined)
        first = element(tuple(0 if d in dim else i for d, i in enumerate(index)))
        return Accumulate(node.name, parts, first, None, combined)

    # -- what may be read where

    def _check(self, anchor: Anchor, forced: bool) -> None:
        read = self._reads(anchor, forced)
        levels = {self.anchors[member].level for member in read}
        if anchor.level == FINAL:
            if not levels or not levels <= {ELEMENT_TOTAL, ROW_TOTAL, FINAL}:
                raise NotFusable("it is one number that does not follow from the totals")
            return
        if levels & {ELEMENT_TOTAL, ROW_TOTAL, FINAL}:
            raise NotFusable("it needs a total over all rows, which is known only at the end")
        if self.columns and anchor.accumulate is not None and levels:
            raise NotFusable("it needs a result over columns, which take one pass")

    def _reads(self, anchor: Anchor, forced: bool) -> set[Node]:
        """Members of the region that an anchor's expressions refer to."""
        names = {member.name: member for member in self.anchors}
        roots = (anchor.value,) if anchor.accumulate is None else anchor.accumulate.element
        found = expand(roots, self.elements)
        if len(found) > LARGEST_EXPRESSION and not forced:
            raise NotFusable(f"the kernel would have more than {LARGEST_EXPRESSION} operations")
        accumulated = {e.name for e in found if isinstance(e, Accumulated)}
        return {names[name] for name in accumulated if name in names}

    def loads(self) -> set[Buffer]:
        """Buffers that the region reads."""
        roots: list[Expression] = []
        for anchor in self.anchors.values():
            roots.append(anchor.value)
            if anchor.accumulate is not None:
                roots.extend(anchor.accumulate.element)
                roots.extend(anchor.accumulate.first or ())
        return {e.buffer for e in expand(tuple(roots), self.elements) if isinstance(e, Load)}


def expand(roots: tuple[Expression, ...], elements: Elements) -> list[Expression]:
    """Every expression below `roots`, through data indices too."""
    found = walk(roots)
    data = elements.data_indices.within(found)
    while data:
        more = tuple(index.value for index in data)
        grown = walk((*roots, *more))
        if len(grown) == len(found):
            return grown
        found = grown
        data = elements.data_indices.within(found)
    return found
