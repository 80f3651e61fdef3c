"""Scans along the last loop, in CUDA: a team of lanes goes over each row in chunks.

Contract: a lane has the neighbours of one pack; the values that run into it are those of the lanes
before and of the chunks before, combined in order.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    ceil_div,
    combine,
    loop,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda.scan_sections import Sections
from dynajit.codegen.cuda.units import packs as cuda_packs
from dynajit.codegen.cuda.units.packs import BASE, COUNT
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    RESIDENT_THREADS,
    WARP,
    Launch,
    define,
    index_type,
    names,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Expression,
    Phase,
    ScanKernel,
    Store,
    typical,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

THREADS: Final = 256

LONGEST_WARP_ROW: Final = 256
"""Packs of a row up to which a warp goes over it: eight chunks."""

MOST_BLOCKS: Final = 1 << 16


class RowScan:
    """Prints one kernel. Mutable: scopes fill up.

    Args:
        kernel: scans along its last loop.
        sections: of its rows.
        is_total: the totals of sections are computed, not the running values.
    """

    def __init__(self, kernel: ScanKernel, sections: Sections, *, is_total: bool) -> None:
        self.kernel, self.sections, self.is_total = kernel, sections, is_total
        self.phases = kernel.phases
        if is_total:
            self.phases = tuple(phase for phase in kernel.phases if phase.accumulates)
        self.stores = [] if is_total else [s for phase in self.phases for s in phase.stores]
        offsets = [store.offset for store in self.stores]
        self.roots = roots_of(self.stores, sections.accumulates)
        self.expressions, self.indices = used_expressions(self.roots, offsets, kernel.indices)
        self.packing = cuda_packs.choose(
            kernel.scanned, self.roots, self.stores, self.indices, may_cut=True
        )
        self.width = self.packing.width
        self.packs: Number = ceil_div(kernel.scanned.size, self.width)
        is_short = typical(self.packs) <= LONGEST_WARP_ROW and sections.count == 1
        self.lanes = WARP if is_short else THREADS
        self.integer = index_type(
            self.expressions, offsets, sections.lines * sections.count,
            kernel.scanned.size + THREADS * self.width,
        )  # fmt: skip
        self.names = names(self.indices)
        self.shared_bytes = 0

    def kernel_text(self) -> CudaKernel:
        """The kernel."""
        kernel, sections, integer = self.kernel, self.sections, self.integer
        root = Scope(self.names)
        line = root.child([axis.name for axis in kernel.outer])
        declared = self.sections.starts(line, "carried", self.is_total)
        chunk = self._chunk(line)
        lines = [
            *self._task(), *unflattened("line", kernel.outer, integer), *line.lines, *declared,
            *chunk, *self._ends(),
        ]  # fmt: skip
        per = THREADS // self.lanes
        blocks = symint.minimum(ceil_div(sections.lines * sections.count, per), MOST_BLOCKS)
        place = "blockIdx.x" if per == 1 else f"blockIdx.x * {per} + threadIdx.x / {self.lanes}"
        count = symint.c(sections.lines * sections.count)
        loads = self.packing.loads(self.roots)
        body = [
            f"const int lane = threadIdx.x & {self.lanes - 1};",
            *self.packing.print_flag(loads, self.stores),
            *root.lines,
            *loop("task", place, count, lines, f"({integer})gridDim.x * {per}", integer),
        ]
        totals = sections.totals.values() if sections.count > 1 else ()
        written = [store.buffer for store in self.stores]
        written += totals if self.is_total else ()
        # Addresses in 64 bits take twice the registers.
        resident = RESIDENT_THREADS if integer == "int" else RESIDENT_THREADS // 2
        return define(
            kernel, f"{kernel.name}{'_totals' if self.is_total else ''}", body,
            Launch(blocks, THREADS, self.shared_bytes, resident=resident),
            self.expressions, written, self.indices, () if self.is_total else totals,
        )  # fmt: skip

    def _task(self) -> list[str]:
        """The line of a task, and which packs are its own."""
        count, integer, packs = self.sections.count, self.integer, symint.c(self.packs)
        chunk = symint.c(ceil_div(self.packs, count))
        lines = [f"const {integer} line = task;"]
        if count > 1:
            lines = [f"const {integer} line = task / {count}, section = task % {count};"]
        # Packs are counted in the direction of the scan.
        section = "section" if count > 1 else "0"
        if count > 1 and self.kernel.is_reverse:
            section = f"({count - 1} - section)"
        return [
            *lines,
            f"const {integer} first = {section} * {chunk};",
            f"const {integer} stop = dj_min_index(first + {chunk}, {packs});",
        ]

    def _ends(self) -> list[str]:
        """Lines that leave the totals."""
        if not self.is_total:
            return []
        stores = [
            f"{self.sections.total(a, 'line', 'section')} = {accumulator_names(a, 'carried')[0]};"
            for a in self.sections.accumulates
        ]
        return ["if (lane == 0) {", *(INDENT + store for store in stores), "}"]

    # -- one chunk

    def _chunk(self, line: Scope) -> list[str]:
        """The loop over the chunks of a row."""
        integer, width = self.integer, self.width
        outer = line.child([BASE])
        items = [outer.child([self.kernel.scanned.name]) for _ in self.phases]
        before: list[str] = []
        if width > 1:
            known = outer.child([self.kernel.scanned.name])
            before = self.packing.print_loads(self.packing.loads(self.roots), outer, known)
            for inner in items:
                inner.known.update(known.known)
        texts: list[str] = []
        running: dict[Expression, str] = {}
        for number, (phase, inner) in enumerate(zip(self.phases, items, strict=True)):
            inner.known.update(running)
            texts += self._phase(phase, inner, outer, running)
            if phase.stores and self.stores:
                last = outer.child([self.kernel.scanned.name])
                last.known.update(inner.known)
                last.known.update(running)
                texts += self._store(phase.stores, last, number)
        packs = symint.c(self.packs)
        pack = f"{packs} - 1 - turn" if self.kernel.is_reverse else "turn"
        lines = [
            f"const {integer} turn = start + lane;",
            "const bool is_there = turn < stop;",
            # Lanes behind the end take the first pack and leave its values out.
            f"const {integer} {BASE} = (is_there ? {pack} : 0) * {width};",
        ]
        if self.packing.has_tail:
            rest = f"{symint.c(self.kernel.scanned.size)} - {BASE}"
            lines.append(f"const int {COUNT} = (int)dj_min_index({rest}, {width});")
        lines += [*outer.lines, *before, *texts]
        return loop("start", "first", "stop", lines, str(self.lanes), integer)

    def _items(self, lines: Sequence[str]) -> list[str]:
        """A loop over the elements of a pack in the direction of the scan."""
        name, width = self.kernel.scanned.name, self.width
        step = f"{width - 1} - place" if self.kernel.is_reverse else "place"
        head = [f"const int item = {step};", f"const {self.integer} {name} = {BASE} + item;"]
        return [
            "#pragma unroll",
            *loop("place", "0", str(width), [*head, *lines], integer="int"),
        ]

    def _inside(self, lines: Sequence[str], is_store: bool = False) -> list[str]:
        """Lines for elements that are there."""
        guards = ["is_there"] if is_store else []
        guards += [f"item < {COUNT}"] if self.packing.has_tail else []
        if not guards:
            return list(lines)
        return [f"if ({' && '.join(guards)}) {{", *(INDENT + line for line in lines), "}"]

    def _phase(
        self, phase: Phase, inner: Scope, outer: Scope, running: dict[Expression, str]
    ) -> list[str]:
        """Lines that compute the running values of a phase."""
        lines: list[str] = []
        for accumulate in phase.accumulates:
            own = Scope(self.names, outer, [self.kernel.scanned.name])
            own.known.update(inner.known)
            lines += self._scan(accumulate, own, outer)
            name = f"{accumulator_names(accumulate, 'r')[0]}[item]"
            running[Accumulated(accumulate.name, 0, accumulate.element[0].dtype)] = name
        return lines

    def _scan(self, accumulate: Accumulate, inner: Scope, outer: Scope) -> list[str]:
        dtype, width = accumulate.element[0].dtype, self.width
        (name,) = accumulator_names(accumulate, "r")
        (carried,) = accumulator_names(accumulate, "carried")
        start = start_values(Scope(self.names), accumulate)[0]
        value = inner.emit(accumulate.element[0])
        inner.add(f"{name}[item] = {value};")
        following = Scope(self.names)
        (sum_of,) = combine(following, accumulate, [f"total_{name}"], [f"{name}[item]"])
        following.add(f"total_{name} = {sum_of};", f"{name}[item] = total_{name};")
        lines = [
            f"{dtype.c} {name}[{width}], total_{name} = {start};",
            *self._items([f"{name}[item] = {start};", *self._inside(inner.lines),
                          f"if (!is_there) {name}[item] = {start};", *following.lines]),
            *self._lanes(accumulate, name, start, dtype.c),
        ]  # fmt: skip
        ahead = Scope(self.names)
        (value,) = combine(ahead, accumulate, [f"before_{name}"], [f"{name}[item]"])
        lines += self._items([*ahead.lines, f"{name}[item] = {value};"])
        after = Scope(self.names)
        (value,) = combine(after, accumulate, [carried], [f"all_{name}"])
        return [*lines, *after.lines, f"{carried} = {value};"]

    def _lanes(self, accumulate: Accumulate, name: str, start: str, c: str) -> list[str]:
        """Lines: what comes before the lane, carried values too, and the total of the chunk."""
        step = Scope(self.names)
        (value,) = combine(step, accumulate, ["other"], [f"total_{name}"])
        step.add(f"if (threadIdx.x % {WARP} >= offset) total_{name} = {value};")
        shuffle = f"const {c} other = dj_shift_up(total_{name}, offset);"
        lines = [
            "#pragma unroll",
            f"for (int offset = 1; offset < {WARP}; offset *= 2) {{",
            INDENT + shuffle, *step.text(), "}",
            f"{c} before_{name} = dj_shift_up(total_{name}, 1);",
            f"if (threadIdx.x % {WARP} == 0) before_{name} = {start};",
        ]  # fmt: skip
        (carried,) = accumulator_names(accumulate, "carried")
        front = Scope(self.names)
        if self.lanes == WARP:
            (value,) = combine(front, accumulate, [carried], [f"before_{name}"])
            lines.append(f"const {c} all_{name} = dj_from_lane(total_{name}, {WARP - 1});")
            return [*lines, *front.lines, f"before_{name} = {value};"]
        warps = self.lanes // WARP
        self.shared_bytes += warps * accumulate.element[0].dtype.itemsize
        memory = f"warps_{name}"
        each = Scope(self.names)
        (value,) = combine(each, accumulate, [f"all_{name}"], [f"{memory}[warp]"])
        each.add(f"if (warp == threadIdx.x / {WARP}) ahead_{name} = all_{name};")
        each.add(f"all_{name} = {value};")
        ahead = Scope(self.names)
        (sum_of,) = combine(ahead, accumulate, [f"ahead_{name}"], [f"before_{name}"])
        ahead.add(f"before_{name} = {sum_of};")
        whole = Scope(self.names)
        (value,) = combine(whole, accumulate, [carried], [f"before_{name}"])
        last = f"threadIdx.x % {WARP} == {WARP - 1}"
        return [
            *lines,
            f"__shared__ {c} {memory}[{warps}];",
            "__syncthreads();",
            f"if ({last}) {memory}[threadIdx.x / {WARP}] = total_{name};",
            "__syncthreads();",
            f"{c} all_{name} = {start}, ahead_{name} = {start};",
            *loop("warp", "0", str(warps), each.lines, integer="int"),
            *ahead.lines,
            *whole.lines,
            f"before_{name} = {value};",
        ]

    def _store(self, stores: Sequence[Store], inner: Scope, number: int) -> list[str]:
        """Lines that write what follows from the running values."""
        packed: list[str] = []
        declared: list[str] = []
        for k, store in enumerate(stores):
            target = target_of(inner, store)
            if self.width > 1 and self.packing.is_pack(store):
                pack = f"result{number}_{k}"
                declared.append(f"dj_pack<{store.buffer.dtype.c}, {self.width}> {pack};")
                packed.append(self.packing.print_store(store, pack))
                target = f"{pack}.at[item]"
            inner.store(target, store.buffer.dtype, store.value)
        items = self._items(self._inside(inner.lines, is_store=True))
        writes = [f"if (is_there) {line}" for line in packed]
        return [*declared, *items, *writes]
