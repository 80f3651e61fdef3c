"""Which values share a kernel, and which are stored.

Contract: `plan(graph)` gives units (regions, products, scatters) in an order in which they can run;
every value that one unit computes and another one needs, and every output, has a buffer. Rules:
pointwise and movement rows are inlined into whatever reads them; reductions and outputs are
anchors, placed into the first region that takes them (`why_not_fusable` says why not); what is
expensive and would be computed by several kernels, or many times by one, is stored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dynajit.codegen.loops.elements import (
    Elements,
    Storage,
    at_least_one,
    is_small_constant,
    linear,
)
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    Expression,
    Load,
    Matrix,
    cost,
    is_size,
    typical,
    walk,
)
from dynajit.codegen.loops.scans import direction, is_scan, is_scan_row
from dynajit.codegen.plan import repeated_reads
from dynajit.codegen.plan.axes import division_count
from dynajit.codegen.plan.matrices import Strided, as_matrix, as_strided, operand_base
from dynajit.codegen.plan.natives import (
    Native,
    folded_user,
    is_native,
    partner_of,
    reads_strides,
    stays_whole,
)
from dynajit.codegen.plan.regions import (
    NotFusable,
    Region,
    collapsed,
    is_reduction,
    is_single_row,
    reduced_type,
    reduces_all,
    reduces_columns,
)
from dynajit.codegen.plan.siblings import Siblings
from dynajit.core.errors import CodegenError
from dynajit.core.process import config
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ir.graph import Graph, symbol_places
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.sizes import symbols
from dynajit.ops.table.op_table import TABLE, Kind
from dynajit.ops.table.scalar import SCALARS

LONGEST_CHAIN = 48
"""Rows inlined into each other; beyond it a value is stored."""

MOST_READS = 16
"""Movements that an element of a value goes through; beyond it the value is stored. Each write to a
part of a value of another part of it doubles them."""

WORTH_STORING = 12
"""Cost, in additions, from which a value that several kernels need is stored."""

WORTH_REPEATING = 4
"""A costly value may be computed this many times per element before it is stored."""


@dataclass(slots=True, eq=False)
class Product:
    """A matrix product. Mutable while planned."""

    node: Node
    left: Matrix
    right: Matrix
    result: Buffer
    needs: set[Any] = field(default_factory=set)

    @property
    def anchors(self) -> tuple[Node, ...]:
        """The product itself."""
        return (self.node,)

    def loads(self) -> set[Buffer]:
        """Both operands."""
        return {self.left.buffer, self.right.buffer}


@dataclass(slots=True, eq=False)
class Scattering:
    """A scatter row. Mutable while planned."""

    node: Node
    elements: Elements
    needs: set[Any] = field(default_factory=set)

    @property
    def anchors(self) -> tuple[Node, ...]:
        """The scattered value."""
        return (self.node,)


Unit: TypeAlias = Region | Product | Scattering | Native


@dataclass(slots=True)
class Plan:
    """What `plan` decided. Built once, then only read.

    Args:
        graph: what was planned.
        storage: buffers of stored values.
        units: in running order.
        notes: one line per decision, for reports.
    """

    graph: Graph
    storage: Storage
    units: list[Unit]
    notes: list[str]


def why_not_fusable(region: Region, node: Node) -> str | None:
    """Why `node` cannot be computed in the kernel of `region`, or None; changes nothing."""
    twin = Region(
        region.storage,
        region.shape,
        region.reduced,
        region.columns,
        region.scanned,
        needs=set(region.needs),
    )
    for member in region.anchors:
        twin.add(member, forced=True)
    return twin.try_add(node)


def plan(graph: Graph) -> Plan:
    """The kernels of a graph.

    Raises:
        CodegenError: a row has no native lowering, or a size is not known.
    """
    reason = why_not_native(graph)
    if reason is not None:
        raise CodegenError(f"{graph.name}: {reason}")
    stored: set[Node] = set()
    apart = is_left_out()
    for _ in range(4):
        planner = _Planner(graph, stored, apart)
        planner.run()
        wanted = planner.worth_storing() - planner.stored
        if not wanted:
            break
        stored |= wanted
    return planner.finish()


def is_left_out() -> bool:
    """Whether every operation shall have a kernel of its own: see `Config.disabled_passes`."""
    return "fuse" in config.current().disabled_passes


def why_not_native(graph: Graph) -> str | None:
    """Why a graph has no native code, or None if it has."""
    for node in graph.nodes:
        if isinstance(node.type, TensorType) and node.type.dtype.is_complex:
            return f"{node.name}: complex numbers have no native code."
        reason = why_not_computed(node)
        if reason is not None:
            return reason
    return why_not_sized(graph)


def why_not_computed(node: Node) -> str | None:
    """Why no kernel computes a node, whatever stands around it; None if one does."""
    if _is_library_call(node) and node.op is not None and node.op.name != "matmul":
        return f"{node.op.name} has no native lowering."
    if stays_whole(node):
        return f"{node.name}: its steps are those of a size that is not known."
    missing = _missing_function(node)
    if missing is not None:
        return f"{missing} has no native lowering."
    if _may_choose_from_nothing(node):
        return f"{node.name}: {reduced_type(node)} may be empty; it needs an element."
    return None


def _is_library_call(node: Node) -> bool:
    is_extern = node.op is not None and node.op.kind is Kind.EXTERN
    return is_extern and not is_scan_row(node) and not is_native(node)


def _missing_function(node: Node) -> str | None:
    """The scalar function of a row, and its dtype, that generated C lacks; None if it has it."""
    if node.op is None or node.op.kind is not Kind.POINTWISE or node.op.name not in SCALARS:
        return None
    kernels = SCALARS[node.op.name].kernels
    if kernels is None or not isinstance(node.type, TensorType):
        return None
    dtype = node.type.dtype
    is_there = node.op.rule.compute(dtype).name in kernels
    return None if is_there else f"{node.op.name} of {dtype.name}"


def _is_loop(node: Node) -> bool:
    """True for what is a pass over elements of its own: it is an anchor wherever it stands."""
    return is_reduction(node) or is_scan(node)


def why_not_sized(graph: Graph) -> str | None:
    """Why a size of a graph could not be computed when the program runs, or None."""
    places = symbol_places(graph)
    for name in sorted(symbols(graph)):
        if name not in places:
            return f"the symbol {name} is the size of no input."
        if not is_size(name):
            return f"the symbol {name} is not named s0, s1, ..."
    return None


def _may_choose_from_nothing(node: Node) -> bool:
    """True for a reduction without identity along a symbolic size that may be 0."""
    if node.op is None or not is_reduction(node):
        return False
    given = reduced_type(node)
    if node.op.rule.identity(node.op.rule.compute(given.dtype)) is not None:
        return False
    sizes = [given.shape[d] for d in node.attributes["dim"]]
    return any(not isinstance(size, int) and not is_at_least(size, 1) for size in sizes)


class _Planner:
    """One attempt. Mutable: places values one after the other.

    Args:
        graph: to be planned.
        extra: values that are stored whatever the rules say.
        apart: nothing is fused: all that computes is stored, in a region of its own.
    """

    def __init__(self, graph: Graph, extra: set[Node], apart: bool = False) -> None:
        self.graph = graph
        self.apart = apart
        self.storage = Storage(graph.inputs)
        self.units: list[Unit] = []
        self.unit_of: dict[Node, Unit] = {}
        self.notes: list[str] = []
        self._heights: dict[Unit, int] | None = None  # of the units, while siblings are joined
        self.live = _live(graph)
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.users = graph.users()
        self.outputs = [o for o in dict.fromkeys(graph.outputs)
                        if isinstance(o, Node) and o.kind is NodeKind.CALL]  # fmt: skip
        self.stored = set(extra) | set(self.outputs)
        if apart:
            self.stored.update(filter(_computes, self.live))
        self._operands: dict[Node, tuple[Node, Node]] = {}
        self._sources: dict[Node, frozenset[Any]] = {}
        self._read_again: dict[Node, frozenset[Any]] = {}
        self._mark_operands()
        self.stored |= self._at_many_places()

    def _mark_operands(self) -> None:
        for node in self.live:
            if is_native(node):
                operands = [
                    a for a in node.args if isinstance(a, Node) and isinstance(a.type, TensorType)
                ]
                if reads_strides(node):
                    operands = [operand_base(a, self.graph, for_blas=False) for a in operands]
                self.stored.update((node, *operands))
            if not _is_library_call(node):
                continue
            self.stored.add(node)
            for argument in node.args:
                assert isinstance(argument, Node)
                self.stored.add(operand_base(argument, self.graph))

    def _at_many_places(self) -> set[Node]:
        """What is stored because it is read at many places, and ends of chains that are long still.

        Ends cut what one read reaches, so they come first; a chain that is cut by what is stored
        needs fewer of them.
        """
        chosen: set[Node] = set()
        ends = self._ends_of_long_chains(chosen)
        while True:
            stored = self.stored | chosen | ends
            chosen |= repeated_reads.worth_storing(self.live, self.graph.inputs, stored)
            needed = self._ends_of_long_chains(chosen)
            if needed >= ends:
                return chosen | needed
            ends = needed

    def _ends_of_long_chains(self, chosen: set[Node]) -> set[Node]:
        ends: set[Node] = set()
        depth: dict[Node, int] = {}
        width: dict[Node, int] = {}
        for node in self.live:
            if node.kind is not NodeKind.CALL:
                continue
            arguments = [a for a in node.args if isinstance(a, Node)]
            own = 1 + max((depth.get(a, 0) for a in arguments), default=0)
            # movements read their operands at other places each, which share nothing
            widths = [width.get(a, 0) for a in arguments]
            reads = max(widths, default=0) if _computes(node) else 1 + sum(widths)
            if own > LONGEST_CHAIN or reads > MOST_READS:
                ends.add(node)
            is_cut = node in self.stored or node in chosen or node in ends or _is_loop(node)
            depth[node], width[node] = (0, 0) if is_cut else (own, reads)
        return ends

    # -- placing

    def run(self) -> None:
        """Place every value that needs a place."""
        for node in self.live:
            if node.kind is not NodeKind.CALL or node in self.unit_of:
                continue
            assert node.op is not None
            if is_native(node):
                self._place_native(node)
            elif _is_library_call(node):
                self._place_product(node)
            elif node.op.kind is Kind.SCATTER:
                self._place_scatter(node)
            elif (node in self.stored or _is_loop(node)) and not self._alias(node):
                self._place(node)
        if not self.apart:
            self._merge_siblings()

    def sources(self, node: Node) -> frozenset[Any]:
        """Units whose results `node` reads, directly or through inlined values."""
        found = self._sources.get(node)
        if found is None:
            units: set[Any] = set()
            for argument in node.args:
                if isinstance(argument, Node):
                    unit = self.unit_of.get(argument)
                    units |= {unit} if unit is not None else self.sources(argument)
            found = self._sources[node] = frozenset(units)
        return found

    def read_again(self, node: Node) -> frozenset[Any]:
        """Those of the sources whose kernels shall not compute `node` (`ir.recomputation`)."""
        if node.op is TABLE.read_again:
            return self.sources(node)
        found = self._read_again.get(node)
        if found is None:
            inlined = (a for a in node.args if isinstance(a, Node) and a not in self.unit_of)
            found = frozenset().union(*map(self.read_again, inlined))
            self._read_again[node] = found
        return found

    def _enter(self, node: Node, unit: Unit) -> None:
        unit.needs |= self.sources(node) - {unit}
        self.unit_of[node] = unit

    def _place_product(self, node: Node) -> None:
        left, right = (self._matrix(argument) for argument in node.args)
        unit = Product(node, left, right, self.storage.add(node))
        self.units.append(unit)
        self._enter(node, unit)

    def _matrix(self, argument: Any) -> Matrix:
        shape = argument.type.shape
        if is_small_constant(argument) or 0 in shape:  # literals everywhere else
            buffer = self.storage.add(argument)
            return Matrix(buffer, 0, (0,) * (len(shape) - 2), at_least_one(shape[-1]), 1)
        matrix = as_matrix(Elements(self.storage), argument)
        if matrix is None:
            matrix = as_matrix(self._elements_of_base(argument, for_blas=True), argument)
        if matrix is None:
            raise CodegenError(f"{self.graph.name}: {argument.name} is not stored as a matrix.")
        return matrix

    def _elements_of_base(self, argument: Node, *, for_blas: bool) -> Elements:
        """What is read of the value that was stored for this operand.

        A view between the two may be stored, too, for another reader, and in another order.
        """
        base = operand_base(argument, self.graph, for_blas=for_blas)
        return Elements(self.storage.only(base))

    def _strided(self, argument: Any) -> Strided | None:
        """Where an operand lies; None for one that is left out."""
        if not isinstance(argument, Node) or not isinstance(argument.type, TensorType):
            return None
        shape = argument.type.shape
        if is_small_constant(argument) or 0 in shape:  # literals everywhere else
            return Strided(self.storage.add(argument), 0, (0,) * len(shape))
        found = as_strided(Elements(self.storage), argument)
        if found is None:
            found = as_strided(self._elements_of_base(argument, for_blas=False), argument)
        if found is None:
            raise CodegenError(f"{self.graph.name}: {argument.name} is not stored by strides.")
        return found

    def _place_scatter(self, node: Node) -> None:
        self.storage.add(node)
        unit = Scattering(node, Elements(self.storage))
        self.units.append(unit)
        self._enter(node, unit)

    def _place_native(self, node: Node) -> None:
        unit = partner_of(node, self.units)
        if unit is None:
            if reads_strides(node):
                places = tuple(map(self._strided, node.args))
                read = (None if place is None else place.buffer for place in places)
                unit = Native(node, tuple(read), places)
            else:
                given = [a if isinstance(a, Node) else None for a in node.args]
                numbers = [a for a in given if a is not None and a in self.storage.positions]
                read = (None if a is None or a in numbers else self.storage.add(a) for a in given)
                positions = tuple(self.storage.positions[a] for a in numbers)
                unit = Native(node, tuple(read), numbers=positions)
            self.units.append(unit)
        follower = folded_user(node, self.users[node], self.outputs)
        unit.results[node] = self.storage.add(node if follower is None else follower)
        self._enter(node, unit)
        if follower is not None:
            unit.is_rectified = True
            self._enter(follower, unit)

    def _alias(self, node: Node) -> bool:
        """True if `node` is another shape of a stored value, whose memory it then shares."""
        if not self._moves_stored(node):
            return False
        shape = node.type.shape
        index = tuple(Axis(f"i{d}", size).symbol for d, size in enumerate(shape))
        elements = Elements(self.storage)
        value = elements.compute(node, index)
        if not isinstance(value, Load) or value.offset != linear(index, shape):
            return False
        owner = next(n for n, b in self.storage.buffers.items() if b == value.buffer)
        if owner.kind is not NodeKind.CALL or value.buffer.size != numel(shape):
            return False
        taken = {self.storage.buffers.get(output) for output in self.outputs}
        if node in self.outputs and (owner in self.outputs or value.buffer in taken):
            return False
        self.storage.buffers[node] = value.buffer
        self.unit_of[node] = self.unit_of[owner]
        return True

    def _moves_stored(self, node: Node) -> bool:
        """True if `node` is made by movements of one stored value alone."""
        while node.op is not None and node.op.kind is Kind.MOVEMENT:
            tensors = [a for a in node.args if isinstance(a, Node)]
            if len(tensors) != 1:
                return False
            node = tensors[0]
            if node in self.storage.buffers:
                return True
        return False

    def _place(self, node: Node) -> None:
        for region in self._candidates(node):
            reason = region.try_add(node)
            if reason is None:
                self._enter(node, region)
                return
            first = next(iter(region.anchors))
            self.notes.append(f"{node.name} does not join the kernel of {first.name}: {reason}")
        region = self._new_region(node)
        self.units.append(region)
        self._enter(node, region)

    def _candidates(self, node: Node) -> list[Region]:
        """Regions that `node` reads and that could take it without a cycle, latest first."""
        if self.apart:
            return []
        sources = self.sources(node)
        allowed = sources - self.read_again(node)
        return [
            unit
            for unit in reversed(self.units)
            if isinstance(unit, Region)
            and unit in allowed
            and not self._would_cycle(unit, sources)
            and not self._would_divide(unit, node)
        ]

    def _would_divide(self, region: Region, node: Node) -> bool:
        """True if `node` would give rows to a domain whose axes are better split."""
        is_new = is_reduction(node) and not region.reduced and not region.columns
        return is_new and division_count(region) > 0

    def _would_cycle(self, region: Region, sources: Iterable[Any]) -> bool:
        return any(unit is not region and _reaches(unit, region) for unit in sources)

    def _new_region(self, node: Node) -> Region:
        region = _region_for(self.storage, node)
        region.add(node, forced=True)
        return region

    # -- siblings

    def _merge_siblings(self) -> None:
        """Join regions that read the same memory over the same domain.

        Always the first pair that can be joined. A pair that was refused stays refused: it does not
        fuse, or one needs the other by way of others, and joining adds such ways. So after two were
        joined, regions in front of them are compared with the joined one only.
        """
        siblings = Siblings(unit for unit in self.units if isinstance(unit, Region))
        place, is_new = 0, False
        while place < siblings.end:
            earlier = siblings.before(place) if is_new else ()
            pairs = [(other, place) for other in earlier]
            pairs += [(place, other) for other in siblings.after(place)]
            joined = next((pair for pair in pairs if self._merge(siblings, *pair)), None)
            place, is_new = (place + 1, False) if joined is None else (joined[0], True)

    def _merge(self, siblings: Siblings, first_place: int, second_place: int) -> bool:
        """Join two regions, if they can be."""
        first, second = siblings.regions[first_place], siblings.regions[second_place]
        if siblings.are_apart(first, second):
            return False
        whole = None
        if (
            first.columns == second.columns
            and _similar(first, second)
            and _reads_again(first) == _reads_again(second)
            and not self._is_between(first, second)
        ):
            with suppress(NotFusable):
                whole = self._united(first, second)
        if whole is None:
            siblings.keep_apart(first, second)
            return False
        self._replace(first, second, whole)
        siblings.join(first_place, second_place, whole)
        return True

    def _is_between(self, first: Region, second: Region) -> bool:
        """Whether one needs the other by way of a third unit."""
        if self._heights is None:
            self._heights = _heights(self.units)
        return _reaches_indirectly(first, second, self._heights) or _reaches_indirectly(
            second, first, self._heights
        )

    def _united(self, first: Region, second: Region) -> Region:
        """A region with the values of both.

        Raises:
            NotFusable: they cannot share a kernel.
        """
        wide = second if _is_wider(second, first) else first
        same_size = numel(first.shape) == numel(second.shape)
        if same_size and bool(first.reduced) != bool(second.reduced):
            wide = first if first.reduced else second
        members = sorted((*first.anchors, *second.anchors), key=self.order.__getitem__)
        if first.is_apart_from(second):
            return first.joined(second, members)
        whole = Region(self.storage, wide.shape, wide.reduced, wide.columns, wide.scanned)
        try:
            whole.check_domains(members)
            for member in members:
                whole.add(member)
            if division_count(whole) > division_count(first) + division_count(second):
                raise NotFusable("together they would divide indices")
        except NotFusable as refusal:
            self.notes.append(f"{members[0].name} and {members[-1].name} stay apart: {refusal}")
            raise
        return whole

    def _replace(self, first: Region, second: Region, whole: Region) -> None:
        """Let one region take the place of two."""
        self._heights = None
        whole.needs = (first.needs | second.needs) - {first, second}
        self.units[self.units.index(first)] = whole
        self.units.remove(second)
        for unit in self.units:
            if first in unit.needs or second in unit.needs:
                unit.needs = (unit.needs - {first, second}) | {whole}
        for node, unit in self.unit_of.items():
            if unit is first or unit is second:
                self.unit_of[node] = whole

    # -- second thoughts

    def worth_storing(self) -> set[Node]:
        """Values that are expensive and computed by several kernels, or over and over by one.

        Of two values that the same kernels compute, one from the other, only the later counts.
        """
        computing = [unit for unit in self.units if not isinstance(unit, (Product, Native))]
        times = Counter(
            node for unit in computing for node in unit.elements.inlined if node not in unit.anchors
        )
        kernels = dict(times)
        reads: dict[Node, int] = {}
        costly: set[Node] = set()
        for unit in computing:
            domain = typical(numel(unit.shape)) if isinstance(unit, Region) else 0
            inner = _inner_names(unit) if isinstance(unit, Region) else frozenset()
            for node, expression in unit.elements.inlined.items():
                size = typical(numel(node.type.shape))
                is_repeated = domain >= WORTH_REPEATING * size
                if size < 2 or node in unit.anchors or (kernels[node] < 2 and not is_repeated):
                    continue
                own, reads[node] = _work(expression, size)
                if own < WORTH_STORING:
                    continue
                costly.add(node)
                if is_repeated and inner & _names(expression):
                    times[node] += 1
        wanted = {
            node
            for node, n in times.items()
            if n > 1 and node in reads and (node in costly or is_traffic_saved(n, reads[node]))
        }
        return {
            node
            for node in wanted
            if not any(user in wanted and times[user] == times[node] for user in self.users[node])
        }

    def finish(self) -> Plan:
        """The plan, with stores that nobody reads removed."""
        read: set[Buffer] = {self.storage.buffers[output] for output in self.outputs}
        units = _ordered(self.units)
        for unit in units:
            if isinstance(unit, Scattering):
                read |= _scatter_loads(unit)
            else:
                read |= unit.loads()
        for unit in units:
            if isinstance(unit, Region):
                for anchor in unit.anchors.values():
                    if anchor.store not in read:
                        anchor.store = None
        return Plan(self.graph, self.storage, units, self.notes)


# ---------------------------------------------------------------------------------------------
# helpers


def _computes(node: Node) -> bool:
    """True for a call that does more than move elements."""
    return node.op is not None and node.op.kind is not Kind.MOVEMENT


def _live(graph: Graph) -> list[Node]:
    """Nodes that an output needs, in order."""
    needed: set[Node] = {o for o in graph.outputs if isinstance(o, Node)}
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(a for a in node.args if isinstance(a, Node))
    return [node for node in graph.nodes if node in needed]


def _reaches(start: Any, target: Any) -> bool:
    """True if `start` needs `target`, directly or not, or is it."""
    seen: set[Any] = set()
    stack = [start]
    while stack:
        unit = stack.pop()
        if unit is target:
            return True
        if unit not in seen:
            seen.add(unit)
            stack.extend(unit.needs)
    return False


def _reaches_indirectly(start: Unit, target: Unit, heights: Mapping[Unit, int]) -> bool:
    """True if `start` needs `target` by way of another unit.

    Args:
        start, target: two units.
        heights: of units, more than those of what they need (`_heights`).
    """
    least = heights[target]
    stack: list[Unit] = [unit for unit in start.needs if heights[unit] > least]
    seen = set(stack)
    while stack:
        needed = stack.pop().needs
        if target in needed:
            return True
        further = [unit for unit in needed if heights[unit] > least and unit not in seen]
        seen.update(further)
        stack += further
    return False


def _heights(units: Sequence[Unit]) -> dict[Unit, int]:
    """Unit -> the number of units in the longest way down to one that needs none."""
    found: dict[Unit, int] = {}
    for unit in _ordered(units):
        found[unit] = 1 + max((found[needed] for needed in unit.needs), default=0)
    return found


def _ordered(units: Sequence[Unit]) -> list[Unit]:
    """Units after all that they need, otherwise as placed."""
    done: set[Any] = set()
    order: list[Unit] = []
    places = {unit: place for place, unit in enumerate(units)}

    def visit(unit: Any) -> None:
        if unit in done:
            return
        done.add(unit)
        for needed in sorted(unit.needs, key=places.__getitem__):
            visit(needed)
        order.append(unit)

    for unit in units:
        visit(unit)
    return order


def _reads_again(region: Region) -> bool:
    """Whether a region computes values once more, late."""
    return any(node.op is TABLE.read_again for node in region.elements.inlined)


def _similar(first: Region, second: Region) -> bool:
    """True if the domains are the same, or one has a value per row of the other."""
    if first.columns:
        return collapsed(first.shape, first.reduced) == collapsed(second.shape, second.reduced)
    return bool(_sizes(first) & _sizes(second))


def _is_wider(first: Region, second: Region) -> bool:
    """True if the domain is certainly larger, or has as many elements in more rows."""
    elements = [numel(region.shape) for region in (first, second)]
    rows = [numel(region.row_shape) for region in (first, second)]
    if elements[0] == elements[1]:
        elements = rows
    return is_at_least(elements[0] - 1, elements[1])


def _sizes(region: Region) -> set[Number]:
    """Numbers of points at which the region has values: elements, and rows."""
    rows = numel(region.row_shape)
    has_rows = region.reduced and not region.scanned
    return {numel(region.shape), rows} - {1} if has_rows else {numel(region.shape)}


def _region_for(storage: Storage, node: Node) -> Region:
    """An empty region whose domain suits `node`."""
    if is_scan(node):
        reduced = frozenset((node.attributes["dim"],))
        return Region(storage, node.type.shape, reduced, scanned=direction(node))
    if not is_reduction(node):
        return Region(storage, node.type.shape)
    shape = reduced_type(node).shape
    reduced = frozenset(node.attributes["dim"])
    if reduces_columns(shape, reduced):
        return Region(storage, shape, reduced, columns=True)
    if reduces_all(shape, reduced) and not is_single_row(shape):
        return Region(storage, shape)
    return Region(storage, shape, reduced)


def _names(expression: Expression) -> frozenset[str]:
    """Loop variables that an expression depends on."""
    names: set[str] = set()
    for part in walk((expression,)):
        for number in part.numbers:
            names |= symint.symbols(number)
    return frozenset(names)


def _inner_names(region: Region) -> frozenset[str]:
    """Loop variables within a row (of a pointwise region: the innermost one)."""
    if region.reduced:
        return frozenset(axis.name for d, axis in enumerate(region.axes) if d in region.reduced)
    return frozenset(axis.name for axis in region.axes[-1:])


def _work(expression: Expression, size: int) -> tuple[int, int]:
    """(cost in additions, buffers of at least `size` elements read) of one evaluation."""
    parts = walk((expression,))
    read = {e.buffer for e in parts if isinstance(e, Load) and typical(e.buffer.size) >= size}
    return sum(cost(part) for part in parts if not isinstance(part, Load)), len(read)


def is_traffic_saved(kernels: int, reads: int) -> bool:
    """True if storing a value moves less memory than computing it in each of `kernels` kernels.

    Computing it everywhere reads `kernels * reads` arrays; storing it reads `reads` once, writes
    one and is read by the other kernels. A sum of residuals would otherwise read every earlier
    layer's output in every later layer.
    """
    return kernels * reads > reads + kernels


def _scatter_loads(unit: Scattering) -> set[Buffer]:
    """Buffers behind the arguments of a scatter."""
    found: set[Buffer] = set()
    buffers = unit.elements.storage.buffers
    stack: list[Any] = list(unit.node.args)
    while stack:
        node = stack.pop()
        if not isinstance(node, Node):
            continue
        if node in buffers:
            found.add(buffers[node])
        else:
            stack.extend(node.args)
    return found
