"""What several phases of a row need, read or computed once: in registers or in shared memory.

Contract: a lane meets the same packs in every phase, so what it held in one is its own in the next
and no barrier is needed. In shared memory a lane reads and writes whole packs, without conflicts.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from dynajit.codegen.cuda.units.support import roots_of
from dynajit.codegen.cuda.units.teams import REGISTERS, SHARED, Team
from dynajit.codegen.loops.loop_ir import Expression, Keep, Load, Phase, RowKernel
from dynajit.codegen.plan.lowering import unconditional
from dynajit.core.types import symint
from dynajit.core.types.symint import Number


def held_values(kernel: RowKernel) -> tuple[Phase, ...]:
    """The kernel's phases, with keeps also of loads that several of them need for every element."""
    phases = list(kernel.phases)
    held = {keep.value for phase in phases for keep in phase.keeps}
    inner = {axis.name for axis in kernel.elements}
    seen: dict[Expression, int] = {}
    shared: dict[Expression, int] = {}
    for number, phase in enumerate(phases):
        own = {keep.value for keep in phase.keeps}
        roots = roots_of(phase.stores, ())
        roots += [part for accumulate in phase.accumulates for part in accumulate.element]
        if number == len(phases) - 1:
            roots += [part for total in kernel.column_totals for part in total.element]
        for e in needed((*roots, *own), held - own):
            if not isinstance(e, Load) or not symint.symbols(e.offset) & inner:
                continue
            if seen.setdefault(e, number) != number:
                shared[e] = seen[e]
    for count, (e, number) in enumerate(shared.items()):
        keep = Keep(f"held{count}", e)
        phases[number] = replace(phases[number], keeps=(keep, *phases[number].keeps))
    return tuple(phases)


def without(phases: Sequence[Phase], known: Collection[Expression]) -> tuple[Phase, ...]:
    """The phases without keeps of what is known anyway."""
    return tuple(
        replace(phase, keeps=tuple(keep for keep in phase.keeps if keep.value not in known))
        for phase in phases
    )


def needed(roots: Sequence[Expression], held: set[Expression]) -> list[Expression]:
    """Expressions that are evaluated for `roots` where those in `held` are known."""
    found = [e for e in unconditional(tuple(roots)) if e not in held]
    if not held:
        return found
    used = set(roots)
    for e in reversed(found):
        if e in used:
            used.update(o for o in e.operands if o not in held)
    return [e for e in found if e in used]


class Held:
    """Where the keeps of some phases are, as text. Built once, then only read.

    Args:
        phases: with their keeps.
        team: who holds them.
        packs: of a row.
        width: elements of a pack.
    """

    def __init__(self, phases: Sequence[Phase], team: Team, packs: Number, width: int) -> None:
        self.phases, self.team, self.packs, self.width = phases, team, packs, width
        self.keeps = [keep for phase in phases for keep in phase.keeps]
        self.is_shared = team.holds == SHARED

    def _pack(self, keep: Keep) -> str:
        return f"dj_pack<{keep.value.dtype.c}, {self.width}>"

    def declared(self) -> list[str]:
        """Lines that declare the memory, in front of the rows."""
        if not self.keeps:
            return []
        if not self.is_shared:
            return [f"{self._pack(keep)} {keep.name}[{self.team.steps}];" for keep in self.keeps]
        lines, place = ["DJ_DYNAMIC(char, shared);"], "shared"
        for keep in self._widest_first():
            lines.append(
                f"{self._pack(keep)} *const {keep.name} = ({self._pack(keep)} *)({place});"
            )
            place = f"{keep.name} + {symint.c(self.packs)}"
        return lines

    def _widest_first(self) -> list[Keep]:
        """Every array begins at a multiple of its packs' alignment."""
        return sorted(self.keeps, key=lambda keep: -keep.value.dtype.itemsize)

    def dynamic_bytes(self) -> Number:
        """Dynamic shared memory of the launch."""
        if not self.is_shared:
            return 0
        size = sum(keep.value.dtype.itemsize for keep in self.keeps)
        return self.packs * (size * self.width)

    def _slot(self, keep: Keep) -> str:
        return f"{keep.name}[{'step' if self.team.holds == REGISTERS else 'pack'}]"

    def known(self, number: int) -> dict[Expression, str]:
        """What phase `number` knows from earlier ones, as text in terms of `item`."""
        earlier = (keep for phase in self.phases[:number] for keep in phase.keeps)
        return {keep.value: f"{self._own(keep)}.at[item]" for keep in earlier}

    def _own(self, keep: Keep) -> str:
        return f"own_{keep.name}" if self.is_shared else self._slot(keep)

    def item(self, keep: Keep) -> str:
        """The element at hand."""
        return f"{self._own(keep)}.at[item]"

    def print_reads(self, number: int) -> list[str]:
        """Lines that read packs which earlier phases held."""
        if not self.is_shared:
            return []
        earlier = (keep for phase in self.phases[:number] for keep in phase.keeps)
        return [f"const auto {self._own(keep)} = {self._slot(keep)};" for keep in earlier]

    def print_new(self, phase: Phase) -> list[str]:
        """Lines that declare packs which a phase fills."""
        if not self.is_shared:
            return []
        return [f"{self._pack(keep)} {self._own(keep)};" for keep in phase.keeps]

    def print_writes(self, phase: Phase) -> list[str]:
        """Lines that put those packs into shared memory."""
        if not self.is_shared:
            return []
        return [f"{self._slot(keep)} = {self._own(keep)};" for keep in phase.keeps]
