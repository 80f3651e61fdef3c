"""Words of random numbers for many elements at once, in C.

Contract: the words of a Philox stream come in blocks of four, and neighbours in a row mostly want
neighbours in the stream. `runs` are the streams of which a pass reads words at a fixed step of its
elements; `fill` puts the words for some elements into an array, and `texts` say where the words of
an element stand in it. The words are the same. A function that gives one word computes a whole
block for it, of which the others are thrown away: 4 million floats went through dropout in 17 ms on
a core of an EPYC (Zen 4), and take 8.
"""

from collections.abc import Iterable

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.loops.loop_ir import Axis, DataIndex, Expression, Word, walk
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

TILE = 256
"""Elements for which words are computed at once in a long loop."""

MOST_WORDS = 4096
"""Words that are kept for a row: 16 KB of the stack, and of the first-level cache."""

MOST_STEP = 4
"""Words from one element to the next: of more, most would not be read."""

BESIDE = 8
"""Words in front of the first one that is read, and behind the last, in the same blocks."""


@record
class Run:
    """Words that elements read.

    Args:
        name: of their array.
        seed, block: of the stream.
        first: position of the first word of element 0.
        step: words from one element to the next.
        places: which of those of its element each word is.
    """

    name: str
    seed: Expression
    block: Expression
    first: Number
    step: int
    places: tuple[tuple[Word, int], ...]

    def room(self, count: int) -> str:
        """The declaration of the array for `count` elements."""
        return f"uint32_t {self.name}[{self.step * count + BESIDE}];"

    def fill(self, scope: Scope, start: str, count: str) -> list[str]:
        """Lines that fill it for `count` elements from `start` on; seed, block and the positions
        that come from data are emitted in `scope`."""
        scope.bind([self.first])
        seed, block = scope.emit(self.seed), scope.emit(self.block)
        first = f"{symint.c(self.first)} + {self.step} * ({start})"
        words = f"dj_philox_words({self.name}, {seed}, {block}, {first}, {self.step} * ({count}))"
        return [f"const int64_t {self.name}_skip = {words};"]

    def texts(self, element: str) -> dict[Expression, str]:
        """The words of an element, counted from the first one that the array is filled for."""
        origin = f"{self.name}_skip + {self.step} * ({element})"
        return {word: f"(int64_t){self.name}[{origin} + {place}]" for word, place in self.places}


def runs(
    roots: Iterable[Expression], elements: tuple[Axis, ...], indices: Iterable[DataIndex]
) -> tuple[Run, ...]:
    """The runs of words below some expressions over loops of known lengths.

    Args:
        indices: meaning of the data indices in their positions.
    """
    found: list[Run] = []
    varying = _varying(elements, indices)
    for expression in walk(tuple(roots)):
        if not isinstance(expression, Word):
            continue
        step = _step(expression.position, elements)
        if step is None or not 1 <= step <= MOST_STEP or not _is_free(expression, varying):
            return ()
        if symint.symbols(expression.position) & (varying - {axis.name for axis in elements}):
            return ()
        first = symint.substitute(expression.position, {axis.name: 0 for axis in elements})
        _add(found, expression, first, step)
    return tuple(found)


def _add(found: list[Run], word: Word, first: Number, step: int) -> None:
    """Put a word into the run that it belongs to."""
    for at, run in enumerate(found):
        place = first - run.first
        if (run.seed, run.block, run.step) != (word.seed, word.block, step):
            continue
        if not isinstance(place, int) or abs(place) >= step:
            continue
        places = [*run.places, (word, place)]
        low = min(place for _, place in places)
        if max(place for _, place in places) - low < step:
            moved = tuple((word, place - low) for word, place in places)
            found[at] = Run(run.name, run.seed, run.block, run.first + low, step, moved)
            return
    name = f"words{len(found)}"
    found.append(Run(name, word.seed, word.block, first, step, ((word, 0),)))


def _step(position: Number, elements: tuple[Axis, ...]) -> int | None:
    """Words from one element to the next in row-major order; None if that varies."""
    steps = []
    size = 1
    for axis in reversed(elements):
        if not isinstance(axis.size, int):
            return None
        if axis.size > 1:
            step = symint.substitute(position, {axis.name: axis.symbol + 1}) - position
            if not isinstance(step, int) or step % size:
                return None
            steps.append(step // size)
        size *= axis.size
    return steps[0] if steps and len(set(steps)) == 1 else None


def _varying(elements: tuple[Axis, ...], indices: Iterable[DataIndex]) -> set[str]:
    """The loops over elements, and the data indices that differ between elements."""
    names = {axis.name for axis in elements}
    for index in indices:  # an index may be read at the one before it
        if not _are_free((index.value,), names):
            names.add(index.name)
    return names


def _is_free(word: Word, varying: set[str]) -> bool:
    """True if the stream is the same for all elements."""
    return _are_free((word.seed, word.block), varying)


def _are_free(expressions: tuple[Expression, ...], varying: set[str]) -> bool:
    numbers = (number for e in walk(expressions) for number in e.numbers)
    return not any(symint.symbols(number) & varying for number in numbers)
