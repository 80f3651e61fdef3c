"""Row kernels in CUDA: a team of threads per row, totals in two stages.

Contract: a row of up to `LONGEST_WARP_ROW` elements is worked on by a power of two of lanes within
a warp, a longer one by a block; lanes exchange accumulators by shuffles, warps through shared
memory, always the earlier elements on the left. Expensive values and loads that several phases
need stay in registers where a lane has at most `MOST_STEPS` elements. Totals over rows are kept
per block and folded by a second kernel of one block: no atomics, so the bits are the same every
time. Kernels that reduce nothing are printed by `cuda_pointwise`. Compiled, not yet run on a GPU.
Called by `codegen.cuda_text`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dynajit.codegen import cuda_pointwise
from dynajit.codegen.c_expressions import INDENT, Scope
from dynajit.codegen.c_support import (
    accumulator_names,
    combine_into,
    loop,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.cuda_support import (
    LONG_ROW_THREADS,
    MOST_BLOCKS,
    THREADS,
    WARP,
    Launch,
    define,
    exchange,
    folding,
    index_type,
    is_ordered,
    names,
    partial_buffers,
    power_of_two,
    product,
    remember,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops import (
    Accumulate,
    Axis,
    Buffer,
    Expression,
    Keep,
    Load,
    Phase,
    RowKernel,
    Store,
)
from dynajit.codegen.lowering import unconditional
from dynajit.core import symint

LONGEST_WARP_ROW: Final = 512
"""Elements of a row that a warp handles with at most `MOST_STEPS` elements per lane."""

MOST_STEPS: Final = 16
"""Elements per lane up to which the loop is unrolled and values are kept in registers."""

MOST_KEPT_BYTES: Final = 256
"""Registers per lane for kept values: a quarter of what a thread can have, half of that in the
largest blocks, whose threads can have 64 registers."""

TILE: Final = 4096
"""Elements of one flat loop that a block reduces before it goes on: sixteen per thread."""

MOST_PARTIALS: Final = 512
"""Blocks of a kernel with totals, and accumulators that its second stage folds."""


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that share a row.

    Args:
        size: a power of two; at most a warp, or the whole block.
        block: threads in a block.
    """

    size: int
    block: int

    @property
    def per_block(self) -> int:
        """Rows that a block works on at once."""
        return self.block // self.size

    @property
    def is_block(self) -> bool:
        """True if warps must exchange through shared memory."""
        return self.size > WARP

    @property
    def mask(self) -> str:
        """The lanes that shuffle together, in C."""
        return "0xffffffffu" if self.size >= WARP else "team_mask"


def team_for(elements: int) -> Team:
    """The team for rows of so many elements."""
    if elements <= LONGEST_WARP_ROW:
        return Team(min(WARP, power_of_two(elements)), THREADS)
    block = THREADS if elements <= THREADS * MOST_STEPS else LONG_ROW_THREADS
    return Team(block, block)


def print_rows(kernel: RowKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a row kernel, in running order; none if there is nothing to compute."""
    reduces = any(phase.accumulates for phase in kernel.phases)
    totals = (*kernel.totals, *kernel.element_totals)
    if not reduces and not totals and not kernel.row_stores:
        return cuda_pointwise.print_pointwise(kernel)
    if not totals and product(kernel.rows) == 0:
        return ()
    rows = _Rows(kernel, is_flat=not reduces and not kernel.totals and not kernel.row_stores)
    first = rows.kernel_text()
    if not totals:
        return (first,)
    return (first, _fold(kernel, rows.partials, rows.grid))


def _fold(kernel: RowKernel, partials: dict[str, list[Buffer]], blocks: int) -> CudaKernel:
    """The second stage: one row whose elements are the blocks' accumulators."""
    axis = Axis("i0", blocks)
    accumulates = tuple(
        folding(total, partials[total.name], axis.symbol, 0)
        for total in (*kernel.totals, *kernel.element_totals)
    )
    name = f"{kernel.name}_fold"
    folded = RowKernel(name, (), (axis,), (Phase(accumulates),), row_stores=kernel.finals)
    return _Rows(folded, is_flat=False).kernel_text()


class _Rows:
    """Prints one row kernel. Mutable: scopes fill up.

    With `is_flat` rows and elements are one sequence, cut into tiles that take the rows' place.
    """

    def __init__(self, kernel: RowKernel, is_flat: bool) -> None:
        self.kernel = kernel
        self.is_flat = is_flat
        self.totals = (*kernel.totals, *kernel.element_totals)
        self.row_count, self.elements = product(kernel.rows), product(kernel.elements)
        self.row_axes, self.element_axes = kernel.rows, kernel.elements
        self.count = self.row_count * self.elements
        if is_flat:
            self.row_axes, self.element_axes = (), (*kernel.rows, *kernel.elements)
            self.elements = min(TILE, self.count)
            self.row_count = -(-self.count // self.elements) if self.count else 0
        self.team = team_for(self.elements)
        self.steps = -(-self.elements // self.team.size)
        stores, accumulates = self._stores(), self._accumulates()
        offsets = [store.offset for store in stores]
        self.expressions, self.indices = used_expressions(
            roots_of(stores, accumulates), offsets, kernel.indices
        )
        self.integer = index_type(self.expressions, offsets, self.count + self.row_count)
        self.names = names(self.indices)
        self.phases = self._kept_phases()
        self.shared_bytes = 0
        self.grid = self._grid()
        self.partials = {
            total.name: partial_buffers(kernel.name, total, self.grid) for total in self.totals
        }

    def _stores(self) -> list[Store]:
        """Stores of this kernel; with totals the finals belong to the second stage."""
        stores = [store for phase in self.kernel.phases for store in phase.stores]
        return [*stores, *self.kernel.row_stores]

    def _accumulates(self) -> list[Accumulate]:
        own = [a for phase in self.kernel.phases for a in phase.accumulates]
        return [*own, *self.totals]

    def _grid(self) -> int:
        most = MOST_PARTIALS if self.totals else MOST_BLOCKS * 16
        return max(1, min(most, -(-self.row_count // self.team.per_block)))

    # -- the whole

    def kernel_text(self) -> CudaKernel:
        root = Scope(self.names)
        row = root.child([axis.name for axis in self.row_axes])
        self._row(row)
        lines = [*unflattened("row", self.row_axes, self.integer), *row.lines]
        before, after = Scope(self.names, root), Scope(self.names, root)
        self._start_totals(before)
        self._end_totals(after)
        start, stop, step = self._row_range()
        rows = loop("row", start, stop, lines, step, self.integer)
        body = [*self._thread_variables(), *root.lines, *before.lines, *rows, *after.lines]
        written = [store.buffer for store in self._stores()]
        written += [buffer for buffers in self.partials.values() for buffer in buffers]
        return define(
            self.kernel, self.kernel.name, body,
            Launch(self.grid, self.team.block, self.shared_bytes),
            self.expressions, written, self.indices,
        )  # fmt: skip

    def _thread_variables(self) -> list[str]:
        size, per = self.team.size, self.team.per_block
        lines = [f"const int lane = threadIdx.x & {size - 1};"]
        if 1 < size < WARP:
            lines.append(f"const unsigned team_mask = dj_team_mask({size});")
        place = "blockIdx.x" if per == 1 else f"blockIdx.x * {per} + threadIdx.x / {size}"
        lines.append(f"const {self.integer} team = {place};")
        return lines

    def _row_range(self) -> tuple[str, str, str]:
        """Rows of a team: every so many, or with totals a run of neighbours."""
        teams = self.grid * self.team.per_block
        if not self.totals:
            return "team", str(self.row_count), str(teams)
        per = -(-self.row_count // teams)
        return f"team * {per}", f"dj_min_index((team + 1) * {per}, {self.row_count})", "1"

    # -- totals

    def _start_totals(self, scope: Scope) -> None:
        for total in self.totals:
            starts = start_values(scope, total)
            for k, name in enumerate(accumulator_names(total, "s")):
                scope.add(f"{total.element[k].dtype.c} {name} = {starts[k]};")

    def _end_totals(self, scope: Scope) -> None:
        """Combine the block's teams in order and leave the result for the second stage."""
        if not self.totals:
            return
        per = self.team.per_block
        fold = Scope(self.names)
        for total in self.totals:
            own = accumulator_names(total, "s")
            if per > 1:
                for k, name in enumerate(own):
                    dtype = total.element[k].dtype
                    self.shared_bytes += per * dtype.itemsize
                    place = f"all_{name}[threadIdx.x / {self.team.size}]"
                    scope.add(f"__shared__ {dtype.c} all_{name}[{per}];")
                    scope.add(f"if (lane == 0) {place} = {name};")
                combine_into(fold, total, own, [f"all_{name}[i]" for name in own])
        stores = [
            f"{partial.name}[blockIdx.x] = {name};"
            for total in self.totals
            for partial, name in zip(
                self.partials[total.name], accumulator_names(total, "s"), strict=True
            )
        ]
        if per > 1:
            scope.add("__syncthreads();")
            stores = [*loop("i", "1", str(per), fold.lines, integer="int"), *stores]
        scope.add("if (threadIdx.x == 0) {", *(INDENT + line for line in stores), "}")

    # -- one row

    def _row(self, row: Scope) -> None:
        kernel = self.kernel
        kept: dict[Expression, str] = {}
        for phase in self.phases:
            for keep in phase.keeps:
                row.add(f"{keep.value.dtype.c} {keep.name}[{self.steps}];")
        for number, phase in enumerate(self.phases):
            self._phase(row, phase, kept, kernel.element_totals if number == 0 else ())
            kept.update({keep.value: keep.name for keep in phase.keeps})
        last = row.child()
        for store in kernel.row_stores:
            last.store(target_of(last, store), store.buffer.dtype, store.value)
        if last.lines:
            row.add("if (lane == 0) {", *last.text(), "}")
        for total in kernel.totals:
            values = [row.emit(part) for part in total.element]
            combine_into(row, total, accumulator_names(total, "s"), values)

    def _phase(
        self,
        row: Scope,
        phase: Phase,
        kept: dict[Expression, str],
        totals: Sequence[Accumulate],
    ) -> None:
        accumulates = (*phase.accumulates, *totals)
        for accumulate in accumulates:
            starts = start_values(row, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")

        def body(scope: Scope) -> None:
            scope.known.update({value: f"{name}[step]" for value, name in kept.items()})
            for keep in phase.keeps:
                scope.add(f"{keep.name}[step] = {scope.emit(keep.value)};")
                scope.known[keep.value] = f"{keep.name}[step]"
            for accumulate in accumulates:
                values = [scope.emit(part) for part in accumulate.element]
                combine_into(scope, accumulate, accumulator_names(accumulate, "r"), values)
            for store in phase.stores:
                scope.store(target_of(scope, store), store.buffer.dtype, store.value)

        if accumulates or phase.keeps or phase.stores:
            row.add(*self._element_loop(row, body, is_ordered(self._accumulates())))
        self._exchange(row, accumulates)
        for accumulate in phase.accumulates:
            remember(row, accumulate, "r")
        for total in totals:
            combine_into(row, total, accumulator_names(total, "s"), accumulator_names(total, "r"))

    def _element_loop(self, row: Scope, body: Callable[[Scope], None], in_order: bool) -> list[str]:
        """The lane's elements: every so many, or a run of neighbours where order matters."""
        scope = row.child([axis.name for axis in self.element_axes])
        body(scope)
        size = self.team.size
        element = f"lane * {self.steps} + step" if in_order else f"lane + step * {size}"
        lines, variable = [f"const {self.integer} element = {element};"], "element"
        guards = [] if self.elements == self.steps * size else [f"element < {self.elements}"]
        if self.is_flat:
            variable = "position"
            lines.append(f"const {self.integer} position = row * {self.elements} + element;")
            if self.count % self.elements:
                guards.append(f"position < {self.count}")
        inner = [*unflattened(variable, self.element_axes, self.integer), *scope.lines]
        if guards:
            head = f"if ({' && '.join(guards)}) {{"
            inner = [head, *(INDENT + line for line in inner), "}"]
        turns = loop("step", "0", str(self.steps), [*lines, *inner], integer="int")
        return ["#pragma unroll" if self.steps <= MOST_STEPS else "#pragma unroll 4", *turns]

    def _exchange(self, row: Scope, accumulates: Sequence[Accumulate]) -> None:
        """Append: the team's accumulators are combined; every lane has the result."""
        team = self.team
        for accumulate in accumulates:
            exchange(row, accumulate, "r", min(team.size, WARP), team.mask)
        if not team.is_block or not accumulates:
            return
        warps = team.size // WARP
        write, read = [], []
        for accumulate in accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                dtype = accumulate.element[k].dtype
                self.shared_bytes += warps * dtype.itemsize
                row.add(f"__shared__ {dtype.c} warps_{name}[{warps}];")
                write.append(f"if (lane % {WARP} == 0) warps_{name}[lane / {WARP}] = {name};")
                read.append(f"{name} = warps_{name}[lane & {warps - 1}];")
        # The first barrier protects what slower threads still read in the row before.
        row.add("__syncthreads();", *write, "__syncthreads();", *read)
        for accumulate in accumulates:
            exchange(row, accumulate, "r", warps, team.mask)

    # -- what stays in registers

    def _kept_phases(self) -> tuple[Phase, ...]:
        """Phases whose keeps fit into registers, and with keeps of loads that several need."""
        phases = self.kernel.phases
        if self.steps > MOST_STEPS or self.is_flat:
            return tuple(replace(phase, keeps=()) for phase in phases)
        most = MOST_KEPT_BYTES if self.team.block == THREADS else MOST_KEPT_BYTES // 2
        room = most // max(self.steps, 1)
        result = []
        for phase in phases:
            fitting = []
            for keep in phase.keeps:
                if keep.value.dtype.itemsize <= room:
                    fitting.append(keep)
                    room -= keep.value.dtype.itemsize
            result.append(replace(phase, keeps=tuple(fitting)))
        return self._with_kept_loads(result, room)

    def _with_kept_loads(self, phases: list[Phase], room: int) -> tuple[Phase, ...]:
        """Loads that every row repeats in another phase are done once."""
        held = {keep.value for phase in phases for keep in phase.keeps}
        inner = {axis.name for axis in self.element_axes}
        seen: dict[Expression, int] = {}
        shared: dict[Expression, int] = {}
        for number, phase in enumerate(phases):
            own = {keep.value for keep in phase.keeps}
            roots = roots_of(phase.stores, phase.accumulates)
            for e in _needed((*roots, *own), held - own):
                if not isinstance(e, Load) or not symint.symbols(e.offset) & inner:
                    continue
                if seen.setdefault(e, number) != number:
                    shared[e] = seen[e]
        for count, (e, number) in enumerate(shared.items()):
            if e.dtype.itemsize > room:
                break
            room -= e.dtype.itemsize
            keep = Keep(f"held{count}", e)
            phases[number] = replace(phases[number], keeps=(keep, *phases[number].keeps))
        return tuple(phases)


def _needed(roots: Sequence[Expression], held: set[Expression]) -> list[Expression]:
    """Expressions that are evaluated for `roots` where those in `held` are known."""
    found = [e for e in unconditional(tuple(roots)) if e not in held]
    if not held:
        return found
    used = set(roots)
    for e in reversed(found):
        if e in used:
            used.update(o for o in e.operands if o not in held)
    return [e for e in found if e in used]
