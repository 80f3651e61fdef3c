"""The loops over the elements of a row in C, with and without accumulators.

Contract: reductions within a row use `LANES` accumulators side by side, which are combined in a
fixed tree; long sums are put aside now and then, so that they keep their accuracy.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dynajit.codegen.c import ahead as c_ahead
from dynajit.codegen.c import choices as c_choices
from dynajit.codegen.c import grouped_choices as c_grouped_choices
from dynajit.codegen.c import softmax as c_softmax
from dynajit.codegen.c import words as c_words
from dynajit.codegen.c.expressions import Names, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    block,
    combine_into,
    is_rounded,
    loop,
    nest,
    simd_loop,
    start_values,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Buffer,
    Expression,
    RowKernel,
    product_of,
)
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least

LANES = 32
"""Accumulators side by side in a long row: two AVX-512 or four AVX2 registers of floats."""

WIDE_BYTES = 256
"""Accumulators of a choice between elements, in bytes: it waits longer for the one before it than
a sum does, and four registers of AVX-512 wait together."""

SHORT_LANES = 8
"""The same in rows of fewer than 64 elements."""

BLOCK = 4096
"""Elements after which lane sums are put aside, so that long sums keep their accuracy."""

RUNS = 64
"""Runs of the innermost of several loops after which sums are put aside, for the same reason."""


def lanes_of(accumulates: Sequence[Accumulate], size: Number) -> int:
    """Accumulators side by side; one where the order of elements matters or rows are short.

    Rows of unknown length count as long.
    """
    if any(len(accumulate.element) > 1 for accumulate in accumulates) or is_at_least(15, size):
        return 1
    if is_at_least(63, size):
        return SHORT_LANES
    chooses = all(accumulate.identity is None for accumulate in accumulates)
    is_wide = chooses and is_at_least(size, 4 * LANES)
    return max(LANES, WIDE_BYTES // accumulates[0].element[0].dtype.itemsize) if is_wide else LANES


def position(kernel: RowKernel) -> Number:
    """The number of an element in its row."""
    found: Number = 0
    for axis in kernel.elements:
        found = found * axis.size + axis.symbol
    return found


def stored(kernel: RowKernel) -> list[Expression]:
    """The values that a kernel stores and keeps for elements."""
    values = [store.value for phase in kernel.phases for store in phase.stores]
    return [*values, *(keep.value for phase in kernel.phases for keep in phase.keeps)]


@record
class _Bounds:
    """The run of the innermost element loop: C expressions, and the count if it is fixed."""

    start: str
    stop: str
    count: "Number | None"


class RowLoops:
    """Prints loops over the elements of one row.

    Args:
        kernel: whose rows they are.
        names: of the function that is printed.
        longest: elements of a row at most, if that is assumed.
        is_blocked: the loop runs over one block of the only row, from `start` to `stop`.
        cached: buffers that need not be read ahead.

    Attributes:
        words: random words that are there for all elements of a row.
    """

    def __init__(
        self,
        kernel: RowKernel,
        names: Names,
        longest: int | None,
        is_blocked: bool,
        cached: frozenset[Buffer] = frozenset(),
    ) -> None:
        self.kernel = kernel
        self.names = names
        self.longest = longest
        self.is_blocked = is_blocked
        self.elements = product_of(kernel.elements)
        self.terms = c_softmax.terms(kernel)
        self.shares = c_softmax.shares(kernel)
        self.words: tuple[c_words.Run, ...] = ()
        streams = () if longest else c_ahead.streams(kernel)
        self.ahead = tuple(stream for stream in streams if stream.buffer not in cached)

    def _bounds(self) -> _Bounds:
        if self.is_blocked:
            known = BLOCK if symint.mod(self.elements, BLOCK) == 0 else None
            return _Bounds("start", "stop", known)
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        return _Bounds("0", symint.c(size), size)

    def element_scope(self, row: Scope) -> Scope:
        """A scope of one element."""
        scope = row.child([axis.name for axis in self.kernel.elements])
        for run in self.words:
            scope.known.update(run.texts(symint.c(position(self.kernel))))
        return scope

    def plain(
        self, row: Scope, body: Callable[[Scope], None], part: tuple[int, int] | None = None
    ) -> list[str]:
        """A loop that runs `body` for each element.

        Args:
            part: (first, end) of the only loop over elements: no others are run.
        """
        if not self.kernel.elements or self.kernel.elements[-1].size == 1:
            scope = self.element_scope(row)
            body(scope)
            return ["{", *scope.text(), "}"]
        bounds = self._bounds()
        if part is not None:
            return self._part(row, body, bounds, *part)
        # What was read and overwritten, or added to a total, cannot be computed again.
        if self.kernel.in_place or self.kernel.column_totals:
            scope = self.element_scope(row)
            body(scope)
            inner = self._in_order(bounds, scope.lines)
        elif words := self._blocked_words():
            inner = self._tiles(row, body, bounds, words)
        else:
            name = self.kernel.elements[-1].name
            inner = simd_loop(
                lambda: self.element_scope(row), body, name, bounds.start, bounds.stop
            )
        return nest(self.kernel.elements[:-1], inner)

    def _blocked_words(self) -> Sequence[c_words.Run]:
        """Random words that tiles of elements take from one block of memory."""
        if not self.is_blocked:
            return ()
        kernel = self.kernel
        return c_words.runs(stored(kernel), kernel.elements, kernel.indices)

    def _tiles(
        self,
        row: Scope,
        body: Callable[[Scope], None],
        bounds: _Bounds,
        words: Sequence[c_words.Run],
    ) -> list[str]:
        """The only loop, some elements at a time, for which random words are computed at once."""
        name = self.kernel.elements[-1].name

        def element() -> Scope:
            scope = self.element_scope(row)
            for run in words:
                scope.known.update(run.texts(f"{name} - tile"))
            return scope

        size = c_words.TILE
        lines = [f"const int64_t end = dj_min_index(tile + {size}, {bounds.stop});"]
        for run in words:
            lines += [run.room(size), *run.fill(row, "tile", "end - tile")]
        lines += simd_loop(element, body, name, "tile", "end")
        return loop("tile", bounds.start, bounds.stop, lines, step=str(size))

    def _part(
        self, row: Scope, body: Callable[[Scope], None], bounds: _Bounds, low: int, high: int
    ) -> list[str]:
        """The loop over elements of a range only; a block may have some of them, or none."""
        first, end = str(low), str(high)
        name = self.kernel.elements[-1].name
        head = []
        if self.is_blocked:
            head = [
                f"const int64_t first = dj_max_index({bounds.start}, {low});",
                f"const int64_t end = dj_min_index({bounds.stop}, {high});",
            ]
            first, end = "first", "end"
        return [*head, *simd_loop(lambda: self.element_scope(row), body, name, first, end)]

    def _in_order(self, bounds: _Bounds, lines: Sequence[str]) -> list[str]:
        """The innermost loop; one that updates arrays in place reads ahead in them."""
        last = self.kernel.elements[-1]
        whole = ["#pragma omp simd", *loop(last.name, bounds.start, bounds.stop, lines)]
        if not self.kernel.in_place or not self.ahead or not is_at_least(last.size, c_ahead.RUN):
            return whole
        run = c_ahead.RUN
        step = [f"const int64_t {last.name} = base + lane;", *lines]
        part = [
            *c_ahead.lines(self.ahead, last, symint.symbol("base"), run),
            "#pragma omp simd",
            *loop("lane", "0", str(run), step),
        ]
        rest = ["#pragma omp simd", *loop(last.name, "base", bounds.stop, lines)]
        return [
            "{",
            f"int64_t base = {bounds.start};",
            *block(f"for (; base < {bounds.stop} - {run - 1}; base += {run})", part),
            *rest,
            "}",
        ]

    def accumulate(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        reads_ahead: bool = False,
    ) -> None:
        """Append a loop that runs `body` for each element and leaves each accumulator in its `r`
        variables; one such loop of a row may read ahead."""
        if self._finds_positions(accumulates):
            self._choose(row, accumulates, body, reads_ahead)
            return
        self._declare(row, accumulates)
        row.add(*self._reduce(row, accumulates, body, reads_ahead))

    def _declare(self, row: Scope, accumulates: Sequence[Accumulate]) -> None:
        """Append the `r` variables of accumulators, with what they start from."""
        for accumulate in accumulates:
            starts = start_values(row, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")
                dtype = accumulate.element[k].dtype
                row.known[Accumulated(accumulate.name, k, dtype)] = name

    def _reduce(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        reads_ahead: bool,
    ) -> list[str]:
        """Lines of the loop over elements, for `r` variables that are declared."""
        ahead = self.ahead if reads_ahead else ()
        bounds = self._bounds()
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        block_size = symint.minimum(size, BLOCK) if self.is_blocked else size
        if self.longest is not None:
            size = block_size = self.longest
        lanes = lanes_of(accumulates, block_size)
        if lanes == 1:
            return self._one_lane(row, accumulates, bounds, body)
        is_long = not self.is_blocked and not is_at_least(2 * BLOCK, size)
        if len(self.kernel.elements) != 1 or not is_long:
            return self._many_lanes(row, accumulates, bounds, lanes, body, ahead)
        part = _Bounds("start", "stop", BLOCK if symint.mod(size, BLOCK) == 0 else None)
        lines = self._many_lanes(row, accumulates, part, lanes, body, ahead)
        head = f"const int64_t stop = dj_min_index(start + {BLOCK}, {symint.c(size)});"
        return loop("start", "0", symint.c(size), [head, *lines], step=str(BLOCK))

    def _finds_positions(self, accumulates: Sequence[Accumulate]) -> bool:
        """True if choices are better found in two passes over a long row: value, then position."""
        return (
            any(map(c_choices.is_choice, accumulates))
            and len(self.kernel.elements) == 1
            and not self.is_blocked
            and self.longest is None
            and not is_at_least(2 * LANES, self.elements)
        )

    def _choose(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        reads_ahead: bool,
    ) -> None:
        """Append what `accumulate` does, with the positions of choices found in a second pass, or
        with them where that is possible."""
        (axis,) = self.kernel.elements
        choices = [a for a in accumulates if c_choices.is_choice(a)]
        reduced = [c_choices.value_of(a) if a in choices else a for a in accumulates]
        self._declare(row, reduced)
        for choice in choices:
            position = accumulator_names(choice, "r")[1]
            row.add(f"int64_t {position} = 0;")
            row.known[Accumulated(choice.name, 1, choice.element[1].dtype)] = position
        found: list[str] = []
        if len(choices) == len(accumulates) and self._are_grouped(row, choices, body):
            for choice in choices:
                found.append(f"found_{choice.name}")
                row.add(f"int {found[-1]} = 0;")
                element = partial(self.element_scope, row)
                row.add(*c_grouped_choices.in_groups(choice, element, axis, found[-1]))
            if all(c_grouped_choices.is_always_found(choice, axis) for choice in choices):
                return
        lines = self._reduce(row, reduced, body, reads_ahead)
        for choice in choices:
            scopes = [*(self.element_scope(row) for _ in range(3)), Scope(row.names)]
            lines += c_choices.search(choice, scopes, axis.name, symint.c(axis.size))
        row.add(*(block(f"if (!({' && '.join(found)}))", lines) if found else lines))

    def _are_grouped(
        self, row: Scope, choices: Sequence[Accumulate], body: Callable[[Scope], None]
    ) -> bool:
        """True if all that a pass does is to make choices for which one pass is enough."""
        (axis,) = self.kernel.elements
        if self.kernel.column_totals:
            return False
        if not all(c_grouped_choices.are_grouped(choice, axis) for choice in choices):
            return False
        beside = self.element_scope(row)
        body(beside)
        return not beside.lines

    def _one_lane(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        body: Callable[[Scope], None],
    ) -> list[str]:
        scope = self.element_scope(row)
        self._element(scope, accumulates, body, "", dict.fromkeys(accumulates, "r"))
        if not self.kernel.elements:
            return ["{", *scope.text(), "}"]
        if self._rounds(accumulates):
            return self._in_runs(row, accumulates, bounds, body)
        last = self.kernel.elements[-1]
        if last.size == 1:
            return nest(self.kernel.elements[:-1], ["{", *scope.text(), "}"])
        inner = loop(last.name, bounds.start, bounds.stop, scope.lines)
        return nest(self.kernel.elements[:-1], inner)

    def _rounds(self, accumulates: Sequence[Accumulate]) -> bool:
        """True for long sums over several loops, whose order decides how accurate they are."""
        runs = product_of(self.kernel.elements[:-1])
        return not is_at_least(RUNS, runs) and any(map(is_rounded, accumulates))

    def _in_runs(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        body: Callable[[Scope], None],
    ) -> list[str]:
        """One lane, with sums of their own for the innermost loop and for `RUNS` turns of it."""
        sums = [accumulate for accumulate in accumulates if is_rounded(accumulate)]
        prefixes = {accumulate: "q" if accumulate in sums else "r" for accumulate in accumulates}
        scope = self.element_scope(row)
        self._element(scope, accumulates, body, "", prefixes)
        last = self.kernel.elements[-1]
        inner = loop(last.name, bounds.start, bounds.stop, scope.lines)
        if last.size == 1:
            inner = ["{", *scope.text(), "}"]
        turn = Scope(self.names)
        aside = Scope(self.names)
        lines: list[str] = ["int64_t run = 0;"]
        for accumulate in sums:
            starts = start_values(Scope(self.names), accumulate)
            names = {prefix: accumulator_names(accumulate, prefix) for prefix in "mqr"}
            for k, value in enumerate(starts):
                c = accumulate.element[k].dtype.c
                lines.append(f"{c} {names['m'][k]} = {value};")
                inner.insert(0, f"{c} {names['q'][k]} = {value};")
            combine_into(turn, accumulate, names["m"], names["q"])
            combine_into(aside, accumulate, names["r"], names["m"])
            aside.add(*(f"{name} = {value};" for name, value in
                        zip(names["m"], starts, strict=True)))  # fmt: skip
        flush = block(f"if (++run % {RUNS} == 0)", aside.lines)
        whole = nest(self.kernel.elements[:-1], [*inner, *turn.lines, *flush])
        return ["{", *lines, *whole, *aside.lines, "}"]

    def _element(
        self,
        scope: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        suffix: str,
        prefixes: Mapping[Accumulate, str],
    ) -> None:
        for accumulate in accumulates:
            prefix = prefixes[accumulate]
            # While it runs, the accumulator must not be taken for its result.
            values = [self._emitted(scope, part) for part in accumulate.element]
            target = [f"{name}{suffix}" for name in accumulator_names(accumulate, prefix)]
            combine_into(scope, accumulate, target, values)
        body(scope)

    def _emitted(self, scope: Scope, part: Expression) -> str:
        """The C expression of a part of what is accumulated."""
        if part not in self.terms:
            return scope.emit(part)
        (operand,) = part.operands
        return f"{c_softmax.TERM}({scope.emit(operand)})"

    def _many_lanes(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        lanes: int,
        body: Callable[[Scope], None],
        ahead: tuple[c_ahead.Stream, ...],
    ) -> list[str]:
        """Lines of a block that combines its elements, by lanes, into the `r` variables."""
        last = self.kernel.elements[-1]
        lane_names = dict.fromkeys(accumulates, "a")
        lines: list[str] = []
        fill: list[str] = []
        for accumulate in accumulates:
            starts = accumulator_names(accumulate, "r")
            if accumulate.identity is not None:
                starts = start_values(Scope(self.names), accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                lines.append(f"{accumulate.element[k].dtype.c} {name}[{lanes}];")
                fill.append(f"{name}[lane] = {starts[k]};")
        fills = loop("lane", "0", str(lanes), fill)
        lines += fills
        scope = self.element_scope(row)
        self._element(scope, accumulates, body, "[lane]", lane_names)
        step = [f"const int64_t {last.name} = base + lane;", *scope.lines]
        simd = ["#pragma omp simd", *loop("lane", "0", str(lanes), step)]
        bound = f"{bounds.stop} - {lanes - 1}"
        if lanes >= LANES:
            simd = [*c_ahead.lines(ahead, last, symint.symbol("base"), lanes), *simd]
        inner = loop("base", bounds.start, bound, simd, step=str(lanes))
        if bounds.count is None or symint.mod(bounds.count, lanes) != 0:
            rest = self.element_scope(row)
            self._element(rest, accumulates, body, "[lane]", lane_names)
            run = f"({bounds.stop} - {bounds.start})"
            head = f"const int64_t base = {bounds.stop} - {run} % {lanes};"
            step = [f"const int64_t {last.name} = base + lane;", *rest.lines]
            tail = loop("lane", "0", f"{bounds.stop} - base", step)
            inner += ["{", head, *tail, "}"]
        folds = self._folded(accumulates, lanes)
        if self._rounds(accumulates):
            aside = block(f"if (++run % {RUNS} == 0)", [*folds, *fills])
            lines.append("int64_t run = 0;")
            inner = [*inner, *aside]
        return ["{", *lines, *nest(self.kernel.elements[:-1], inner), *folds, "}"]

    def _folded(self, accumulates: Sequence[Accumulate], lanes: int) -> list[str]:
        """Lines that combine the lanes into the `r` variables."""
        lines: list[str] = []
        for accumulate in accumulates:
            names = accumulator_names(accumulate, "a")
            # Constant trips: a loop whose bounds vary would take scalar steps, and branch.
            for half in (lanes >> k for k in range(1, lanes.bit_length())):
                fold = Scope(self.names)
                combine_into(
                    fold, accumulate, [f"{name}[lane]" for name in names],
                    [f"{name}[lane + {half}]" for name in names],
                )  # fmt: skip
                lines += ["#pragma omp simd", *loop("lane", "0", str(half), fold.lines)]
            result = Scope(self.names)
            combine_into(
                result, accumulate, accumulator_names(accumulate, "r"),
                [f"{name}[0]" for name in names],
            )  # fmt: skip
            lines += result.lines
        return lines
