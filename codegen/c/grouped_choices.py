"""Choices of an element in one pass in C: each lane keeps the group in which its value was met.

Contract: `in_groups` leaves value and position of a choice (`codegen.c.choices`) along rows that
`are_grouped` in its `r` variables, and says that it has: a NaN would be lost here, so that a row
which may hold one is left to the two passes of `codegen.c.choices`. That is known by a sum, which
costs nothing beside comparisons; infinities of both signs pass for a NaN. Only the first group that
holds the value is searched for its position.

Measured on one core of an EPYC (Zen 4) over 4096 rows of 1024 floats: 0.68 of the time of two
passes, the second of which ends where the processor does not foresee it.
"""

from collections.abc import Callable

from dynajit.codegen.c import choices as c_choices
from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.support import accumulator_names, block, loop
from dynajit.codegen.loops.loop_ir import Accumulate, Apply, Axis, Select, Slot, walk
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import is_at_least

LANE_BYTES = 64
"""Lanes side by side, in bytes: a register of AVX-512, or two of AVX2."""

PARTS = 8
"""Elements of a lane in each group: a value takes one instruction for each of them, and the group
two for all of them."""

SIMD = "#pragma omp simd"


def are_grouped(accumulate: Accumulate, axis: Axis) -> bool:
    """True if `in_groups` may be tried for rows along `axis`.

    It reads all elements of a group before it compares any, and knows no other condition on the
    final value than that it is NaN.
    """
    value = accumulate.element[0]
    if value.dtype not in (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64):
        return False
    if any(isinstance(e, Select) for e in walk((value,))):
        return False
    if is_at_least(_group(accumulate) - 1, axis.size):
        return False
    return all(
        isinstance(c, Apply) and c.function == "isnan" and isinstance(c.arguments[0], Slot)
        for c in c_choices.of_best(accumulate)
    )


def is_always_found(accumulate: Accumulate, axis: Axis) -> bool:
    """True if `in_groups` leaves no row to the two passes."""
    return not c_choices.of_best(accumulate) and _fit(accumulate, axis) == ""


def _group(accumulate: Accumulate) -> int:
    """Elements of a group."""
    return PARTS * LANE_BYTES // accumulate.element[0].dtype.itemsize


def _most(accumulate: Accumulate) -> int:
    """The longest row: positions are as wide as values."""
    return (1 << (8 * accumulate.element[0].dtype.itemsize - 1)) - 1


def _fit(accumulate: Accumulate, axis: Axis) -> str:
    """The C condition for rows that have a group, and positions of which have room in a lane; empty
    if that is known."""
    least, most, size = _group(accumulate), _most(accumulate), symint.c(axis.size)
    asked = [] if is_at_least(axis.size, least) else [f"{size} >= {least}"]
    if not is_at_least(most, axis.size):
        asked.append(f"{size} <= {most}")
    return " && ".join(asked)


def in_groups(
    accumulate: Accumulate, element: Callable[[], Scope], axis: Axis, found: str
) -> list[str]:
    """Lines that set both `r` variables and `found`, or leave them for the two passes.

    Args:
        accumulate: a choice; its first `r` variable is the value of the first element.
        element: gives an empty scope of one element.
        axis: the row.
        found: a variable of C.
    """
    groups = _Groups(accumulate, element, axis)
    lines = [*groups.start(), *groups.meet(), *groups.fold()]
    ends = [*groups.first(), *groups.position(), f"{found} = 1;"]
    lines += block("if (!lost)", ends) if groups.may_be_lost else ends
    return block(f"if ({fit})" if (fit := _fit(accumulate, axis)) else "", lines)


class _Groups:
    """Prints the parts of `in_groups`, whose arguments it takes."""

    def __init__(self, accumulate: Accumulate, element: Callable[[], Scope], axis: Axis) -> None:
        unusual = c_choices.of_best(accumulate)
        self.accumulate = accumulate
        self.element = element
        self.axis = axis
        self.value = accumulate.element[0]
        self.kind = self.value.dtype.c
        self.wide = c_choices.AS_WIDE[self.value.dtype.itemsize]
        self.size = _group(accumulate)
        self.lanes = self.size // PARTS
        self.may_be_lost = bool(unusual)
        self.outcome = c_choices.outcome_of(accumulate.combine[1], self.wide, unusual)
        self.names = accumulator_names(accumulate, "r")

    def _at(self, place: str) -> Scope:
        """A scope of the element at a place in C."""
        scope = self.element()
        scope.add(f"const int64_t {self.axis.name} = {place};")
        return scope

    def _later(self, earlier: str, later: str) -> tuple[list[str], str]:
        """Lines, and the C condition for `later` in place of `earlier`."""
        scope = Scope(self.element().names)
        condition = c_choices.beaten(scope, self.accumulate, earlier, later, self.outcome)
        return scope.lines, condition

    def _where_lost(self, *lines: str) -> list[str]:
        """`lines` about sums, if a NaN may be lost."""
        return list(lines) if self.may_be_lost else []

    def start(self) -> list[str]:
        """Lanes that have met the first element."""
        fill = [f"best[lane] = {self.names[0]};", "met[lane] = 0;"]
        return [
            f"{self.kind} best[{self.lanes}];",
            f"{self.wide.c} met[{self.lanes}];",
            *self._where_lost(f"{self.kind} total[{self.lanes}];"),
            *self._each([*fill, *self._where_lost("total[lane] = 0;")], pragma=""),
        ]

    def _each(self, lines: list[str], pragma: str = SIMD, lanes: int | None = None) -> list[str]:
        """A loop over lanes."""
        whole = loop("lane", "0", str(lanes or self.lanes), lines, integer="int32_t")
        return [pragma, *whole] if pragma else whole

    def meet(self) -> list[str]:
        """The loop over groups. The last one may begin inside the one before it, for what is met
        again is not later."""
        first, other = self._at("base + lane"), self._at("base + part + lane")
        first.add(f"value = {first.emit(self.value)};", *self._where_lost("sum = value;"))
        name = other.emit(self.value)
        lines, later = self._later("value", name)
        other.add(*lines, f"value = {later} ? {name} : value;")
        other.add(*self._where_lost(f"sum += {name};"))
        lines, later = self._later("best[lane]", "value")
        step = [
            f"{self.kind} value{', sum' if self.may_be_lost else ''};",
            *block("", first.lines),
            f"#pragma GCC unroll {PARTS}",
            *loop("part", str(self.lanes), str(self.size), other.lines, step=str(self.lanes)),
            *lines,
            # Positions grow, so that no condition stands around what is stored.
            f"const {self.wide.c} now = {later} ? ({self.wide.c})base : 0;",
            "met[lane] = now > met[lane] ? now : met[lane];",
            f"best[lane] = {later} ? value : best[lane];",
            *self._where_lost("total[lane] += sum;"),
        ]
        stop = symint.c(self.axis.size)
        is_whole = symint.mod(self.axis.size, self.size) == 0
        base = "start" if is_whole else f"dj_min_index(start, {stop} - {self.size})"
        group = [f"const int64_t base = {base};", *self._each(step)]
        return loop("start", "0", stop, group, step=str(self.size))

    def fold(self) -> list[str]:
        """The value of all lanes, and whether it was lost."""
        lines = [f"{self.kind} all[{self.lanes}];"]
        copy = ["all[lane] = best[lane];"]
        if self.may_be_lost:
            lines.append("int lost = 0;")
            copy.append("lost |= total[lane] != total[lane];")
        lines += self._each(copy, f"{SIMD} reduction(|:lost)" if self.may_be_lost else SIMD)
        for half in (self.lanes >> k for k in range(1, self.lanes.bit_length())):
            more, later = self._later("all[lane]", f"all[lane + {half}]")
            more = [*more, f"all[lane] = {later} ? all[lane + {half}] : all[lane];"]
            lines += self._each(more, lanes=half)
        return lines

    def first(self) -> list[str]:
        """The first group that holds the value."""
        lines, later = self._later("best[lane]", "all[0]")
        longest = _most(self.accumulate)
        own = f"const {self.wide.c} own = {later} ? {longest} : met[lane];"
        return [
            f"{self.wide.c} group = {longest};",
            *self._each([*lines, own, "group = own < group ? own : group;"],
                        f"{SIMD} reduction(min:group)"),
            # In narrow sums GCC does not see neighbours, and gathers them.
            "const int64_t base = group;",
        ]  # fmt: skip

    def position(self) -> list[str]:
        """The first element of that group that has the value, in the `r` variables: its own value,
        too, for zeros of both signs are equal."""
        scope = self._at("base + lane")
        name = scope.emit(self.value)
        lines, later = self._later(name, "all[0]")
        at = f"const int32_t at = {later} ? {self.size} : lane;"
        scope.add(*lines, at, "first = at < first ? at : first;")
        chosen = self._at("base + first")
        parts = [chosen.emit(part) for part in self.accumulate.element]
        chosen.add(*(f"{r} = {part};" for r, part in zip(self.names, parts, strict=True)))
        return [
            f"int32_t first = {self.size};",
            *self._each(scope.lines, f"{SIMD} reduction(min:first)", self.size),
            *block("", chosen.lines),
        ]
