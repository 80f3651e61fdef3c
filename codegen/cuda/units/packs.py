"""Packs: neighbouring elements that a thread reads or writes with 16-byte accesses.

Contract: a thread works on `width` neighbours along one loop, from `BASE` on. A load or store is a
pack if its offset is the loop's variable plus what every neighbour shares and what is a multiple of
the width; multiples of symbolic sizes are asked for at run time, and so is the pointers' alignment
(one flag of the kernel: `VECTOR`). Where the flag is not set, packs are read and written element by
element: the same numbers. A load that only some elements need is a pack if the choice is the same
for all of one pack. Random words come four at a time.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Buffer,
    Compare,
    DataIndex,
    Expression,
    Load,
    Select,
    Store,
    Word,
    is_size,
    walk,
)
from dynajit.codegen.plan.lowering import unconditional
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

PACK_BYTES: Final = 16
"""The widest access of a thread."""

WIDEST: Final = 8
"""Elements per thread and loop: sixteen bytes of the 16-bit types."""

BASE: Final = "base"
"""The loop's variable at the first element of a pack."""

VECTOR: Final = "vector"
"""Whether packs may be read and written whole."""

COUNT: Final = "count"
"""How many elements of a pack are there, where the last one may be cut."""

WORDS: Final = 4
"""Random words that one call gives."""

MOST_PATHS: Final = 64
"""Ways through choices to one value; with more, what is chosen is read element by element."""

Path = tuple[tuple[Expression, bool], ...]


@record
class PackedLoad:
    """A load, or random word, of neighbours.

    Args:
        expression: of one element.
        path: conditions (and whether they hold) under which it is needed.
    """

    expression: Load | Word
    path: Path


@record
class Packing:
    """Packs of `width` along `axis`.

    Args:
        axis: the loop.
        width: elements of a pack; 1 for no packs.
        varying: data indices that may differ within a pack.
        has_tail: the last pack may be cut.
    """

    axis: Axis
    width: int
    varying: frozenset[str]
    has_tail: bool

    # -- what is a pack

    def multiples(self, offset: Number) -> tuple[Number, ...] | None:
        """What must be multiples of the width for neighbours at `offset` to be a pack: sizes that
        are not known; None if they are none."""
        if self.width == 1 or self.axis.symbol == 0:
            return None
        rest = offset - self.axis.symbol
        used = symint.symbols(rest)
        if self.axis.name in used or used & self.varying:
            return None
        found: list[Number] = []
        for monomial, factor in _terms(rest):
            if factor % self.width == 0:
                continue
            sizes: Number = factor
            for atom in monomial:
                number = symint.of_atom(atom)
                if all(is_size(name) for name in symint.symbols(number)):
                    sizes = sizes * number
            if isinstance(sizes, int):
                return None
            found.append(sizes)
        return tuple(found)

    def _is_whole(self, condition: Expression) -> bool:
        """True if a condition on indices is the same for all elements of a pack."""
        if isinstance(condition, Apply):
            return condition.function == "logical_and" and all(
                self._is_whole(argument) for argument in condition.arguments
            )
        if not isinstance(condition, Compare):
            return False
        distance = condition.right - condition.left
        if self.axis.name not in symint.symbols(distance):
            return not symint.symbols(distance) & self.varying
        if condition.relation != "less":
            return False
        # `0 < end - i` changes at the multiple `end`; `0 < i - start` right behind `start`.
        falls, rises = distance + self.axis.symbol, 1 - distance + self.axis.symbol
        return any(
            not symint.symbols(edge) & {self.axis.name, *self.varying}
            and symint.mod(edge, self.width) == 0
            for edge in (falls, rises)
        )

    def _is_word(self, word: Word) -> bool:
        if self.width % WORDS or self.axis.name not in symint.symbols(word.position):
            return False
        rest = word.position - self.axis.symbol
        used = symint.symbols(rest)
        return self.axis.name not in used and symint.mod(rest, WORDS) == 0

    def loads(
        self, roots: Sequence[Expression], known: Collection[Expression] = ()
    ) -> list[PackedLoad]:
        """The loads and random words below `roots` that are packs; nothing below what is known."""
        found = []
        for expression, paths in _paths(roots, known).items():
            if isinstance(expression, Load) and expression.buffer.size != 0:
                is_pack = self.multiples(expression.offset) is not None
            else:
                is_pack = isinstance(expression, Word) and self._is_word(expression)
            if is_pack and len(paths) == 1 and self._may_choose(expression, *paths):
                assert isinstance(expression, (Load, Word))
                found.append(PackedLoad(expression, *paths))
        return found

    def _may_choose(self, expression: Expression, path: Path) -> bool:
        """True if the choices that lead to a load may be made for a whole pack, in front of it.

        Data indices are not checked where they are not chosen.
        """
        numbers = [n for condition, _ in path for e in walk((condition,)) for n in e.numbers]
        numbers += expression.numbers if path else ()
        if any(name.startswith("j") for number in numbers for name in symint.symbols(number)):
            return False
        return all(self._is_whole(condition) for condition, _ in path)

    def is_pack(self, store: Store) -> bool:
        """True if neighbours that are stored lie side by side."""
        return self.multiples(store.offset) is not None

    def print_flag(self, loads: Iterable[PackedLoad], stores: Iterable[Store]) -> list[str]:
        """The line that asks whether packs may be read and written whole; none without packs."""
        conditions = self._conditions(loads, stores)
        return [f"const bool {VECTOR} = {' && '.join(conditions)};"] if conditions else []

    def _conditions(self, loads: Iterable[PackedLoad], stores: Iterable[Store]) -> list[str]:
        buffers: dict[Buffer, None] = {}
        multiples: dict[Number, None] = {}
        offsets = [(load.expression.buffer, load.expression.offset) for load in loads
                   if isinstance(load.expression, Load)]  # fmt: skip
        offsets += [(store.buffer, store.offset) for store in stores if self.is_pack(store)]
        for buffer, offset in offsets:
            buffers[buffer] = None
            multiples.update(dict.fromkeys(self.multiples(offset) or ()))
        aligned = [
            f"dj_is_aligned<{min(PACK_BYTES, self.width * buffer.dtype.itemsize)}>({buffer.name})"
            for buffer in buffers
        ]
        return aligned + [f"{symint.c(size)} % {self.width} == 0" for size in multiples]

    # -- as text

    @property
    def guard(self) -> str:
        """The last argument of accesses to packs that may be cut."""
        return f", {COUNT}" if self.has_tail else ""

    def at_base(self, number: Number) -> Number:
        """An offset at the first element of a pack."""
        base = symint.symbol(BASE, 0, symint.bounds(self.axis.size - 1)[1])
        return symint.substitute(number, {self.axis.name: base})

    def print_loads(
        self, loads: Sequence[PackedLoad], outer: Scope, inner: Scope, prefix: str = "pack"
    ) -> list[str]:
        """Lines that read packs; `inner` knows their elements by the number `item`.

        Args:
            outer: the scope of what the elements of a pack share; defines `BASE`.
        """
        lines = []
        for number, load in enumerate(loads):
            name = f"{prefix}{number}"
            source = self.source(load.expression, outer)
            c = "uint32_t" if isinstance(load.expression, Word) else load.expression.dtype.c
            if load.path:
                condition = " && ".join(self._condition(*step, outer) for step in load.path)
                lines += [
                    f"dj_pack<{c}, {self.width}> {name};",
                    f"if ({condition}) {name} = {source};",
                ]
            else:
                lines.append(f"const auto {name} = {source};")
            element = f"{name}.at[item]"
            is_word = isinstance(load.expression, Word)
            inner.known[load.expression] = f"(int64_t){element}" if is_word else element
        return lines

    def source(self, expression: Load | Word, outer: Scope) -> str:
        """The pack as an expression of C; `outer` gets what its address needs."""
        if isinstance(expression, Word):
            seed, block = outer.emit(expression.seed), outer.emit(expression.block)
            place = symint.c(self.at_base(expression.position))
            return f"dj_philox_pack<{self.width}>({seed}, {block}, {place})"
        outer.bind([expression.offset - self.axis.symbol])
        place = symint.c(self.at_base(expression.offset))
        pointer = f"{expression.buffer.name} + {place}"
        return f"dj_load_pack<{self.width}>({pointer}, {VECTOR}{self.guard})"

    def _condition(self, condition: Expression, holds: bool, outer: Scope) -> str:
        text = outer.emit(self._moved(condition))
        return text if holds else f"!{text}"

    def _moved(self, condition: Expression) -> Expression:
        """A condition at the first element of a pack."""
        if isinstance(condition, Apply):
            arguments = tuple(self._moved(argument) for argument in condition.arguments)
            return Apply(condition.function, arguments, condition.dtype)
        assert isinstance(condition, Compare)
        sides = (self.at_base(side) for side in (condition.left, condition.right))
        return Compare(condition.relation, *sides)

    def print_store(self, store: Store, pack: str) -> str:
        """The line that writes a pack."""
        place = symint.c(self.at_base(store.offset))
        return f"dj_store_pack({store.buffer.name} + {place}, {pack}, {VECTOR}{self.guard});"

    def print_items(self, lines: Sequence[str], integer: str) -> list[str]:
        """The loop over the elements of a pack."""
        inner = [f"const {integer} {self.axis.name} = {BASE} + item;", *lines]
        if self.has_tail:
            inner = [f"if (item < {COUNT}) {{", *(INDENT + line for line in inner), "}"]
        return [
            "#pragma unroll",
            f"for (int item = 0; item < {self.width}; item++) {{",
            *(INDENT + line for line in inner),
            "}",
        ]


def no_packs(axis: Axis) -> Packing:
    """One element at a time."""
    return Packing(axis, 1, frozenset(), False)


def choose(
    axis: Axis,
    roots: Sequence[Expression],
    stores: Sequence[Store],
    indices: Sequence[DataIndex],
    may_cut: bool,
) -> Packing:
    """The widest packs along a loop of which something is read or written whole.

    Args:
        roots, stores: what the kernel evaluates and writes.
        indices: its data indices.
        may_cut: the last pack of the loop may be cut; otherwise known sizes must be multiples.
    """
    varying = _varying(axis, indices)
    for width in (8, 4, 2):
        is_multiple = symint.mod(axis.size, width) == 0
        if isinstance(axis.size, int) and not is_multiple and not (may_cut and axis.size >= width):
            continue
        packing = Packing(axis, width, varying, not is_multiple)
        if width <= _widest_of(packing, roots, stores):
            return packing
    return no_packs(axis)


def _widest_of(packing: Packing, roots: Sequence[Expression], stores: Sequence[Store]) -> int:
    """Elements of the narrowest dtype in sixteen bytes, or of the widest in twice as many, if that
    is less; 0 if packs would not pay.

    They do if something that changes along as many loops as anything is read or written by packs.
    """
    packed = [load.expression for load in packing.loads(roots)]
    pairs = [(e.offset, e.dtype.itemsize) for e in packed if isinstance(e, Load)]
    pairs += [(s.offset, s.buffer.dtype.itemsize) for s in stores if packing.is_pack(s)]
    others = [e.offset for e in walk(tuple(roots)) if isinstance(e, Load)]
    others += [store.offset for store in stores]
    along = [number for number in others if packing.axis.name in symint.symbols(number)]
    if not pairs or max(map(_loops, along)) > max(_loops(offset) for offset, _ in pairs):
        return 0
    sizes = [size for _, size in pairs]
    return min(PACK_BYTES // min(sizes), 2 * PACK_BYTES // max(sizes), WIDEST)


def _loops(offset: Number) -> int:
    """How many variables an offset depends on."""
    return sum(not is_size(name) for name in symint.symbols(offset))


def _varying(axis: Axis, indices: Sequence[DataIndex]) -> frozenset[str]:
    """Data indices that depend on a loop's variable."""
    found = {axis.name}
    for index in indices:
        for expression in walk((index.value,)):
            if any(found & symint.symbols(number) for number in expression.numbers):
                found.add(index.name)
    return frozenset(found - {axis.name})


def _terms(number: Number) -> Sequence[tuple[Sequence[symint.Atom], int]]:
    return [((), number)] if isinstance(number, int) else number.terms


def _paths(
    roots: Sequence[Expression], known: Collection[Expression]
) -> dict[Expression, set[Path]]:
    """Every expression below `roots`, and under which conditions on indices it is evaluated.

    A path that another one starts with is left out: `()` stands for whatever the conditions say.
    """
    found: dict[Expression, set[Path]] = {}
    stack: list[tuple[Expression, Path]] = [(root, ()) for root in reversed(roots)]
    while stack:
        expression, path = stack.pop()
        if expression in known:
            continue
        paths = found.setdefault(expression, set())
        if any(path[: len(other)] == other for other in paths):
            continue
        if len(paths) >= MOST_PATHS:
            certain = unconditional(tuple(roots))
            return {expression: {()} for expression in certain if expression not in known}
        paths.difference_update([other for other in paths if other[: len(path)] == path])
        paths.add(path)
        if isinstance(expression, Select):
            stack.append((expression.condition, path))
            stack.append((expression.yes, (*path, (expression.condition, True))))
            stack.append((expression.no, (*path, (expression.condition, False))))
        else:
            stack.extend((operand, path) for operand in expression.operands)
    return found
