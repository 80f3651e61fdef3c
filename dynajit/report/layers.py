"""Equal parts of a model: guards of equal layers, and operations that repeat.

Contract: grouping loses nothing; what is not equal is left as it is. A graph's operations repeat
where their names and types do, whatever their lines and parameters are called.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from dynajit.core.records import record
from dynajit.ir.graph import Graph
from dynajit.report.shortening import counted
from dynajit.report.versions import GuardText

_INDEXED: Final = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\[('?)(\d+)\2\]")
ALIKE: Final = 0.8
"""Part of the guards that two layers have in common: what is asked once is asked of the first."""
FEWEST_GUARDS: Final = 3
"""Guards that a layer has at least: two numbers of a list are none."""
SHORTEST_PERIOD: Final = 4
MOST_COMPARED: Final = 4000
"""Operations among which repetitions are looked for: a search takes the square of their number."""


@record(eq=False)
class Layers:
    """Guards of layers that are alike.

    Args:
        container: where the layers are, as Python text.
        indices: of the layers, ascending.
        guards: of all of them.
    """

    container: str
    indices: tuple[int, ...]
    guards: tuple[GuardText, ...]

    def __str__(self) -> str:
        first, last = self.indices[0], self.indices[-1]
        return (
            f"{self.container}[{first}..{last}]: {counted(len(self.guards), 'guard')} of "
            f"{len(self.indices)} equal layers"
        )


def layers_in(guards: Iterable[GuardText]) -> tuple[list[Layers], list[GuardText]]:
    """Groups of equal layers, largest first, and the guards that belong to none."""
    by_container: dict[str, dict[int, list[GuardText]]] = {}
    rest = []
    for guard in guards:
        found = _INDEXED.search(guard.place)
        if found is None:
            rest.append(guard)
        else:
            by_container.setdefault(found[1], {}).setdefault(int(found[3]), []).append(guard)
    groups = []
    for container, by_index in by_container.items():
        alike = _alike(by_index)
        if len(alike) >= 2:
            kept = tuple(guard for index in alike for guard in by_index[index])
            groups.append(Layers(container, tuple(alike), kept))
        rest += [g for i, guards in by_index.items() if len(alike) < 2 or i not in alike
                 for g in guards]  # fmt: skip
    return sorted(groups, key=lambda group: -len(group.guards)), rest


def _alike(by_index: dict[int, list[GuardText]]) -> list[int]:
    """The indices whose guards are those of most indices."""
    shapes = {i: Counter(_INDEXED.sub(r"\1[]", g.text) for g in gs) for i, gs in by_index.items()}
    usual, _ = Counter(frozenset(shape.items()) for shape in shapes.values()).most_common(1)[0]
    model = Counter(dict(usual))
    size = model.total()
    if size < FEWEST_GUARDS:
        return []
    return [
        index
        for index, shape in sorted(shapes.items())
        if (shape & model).total() >= ALIKE * max(shape.total(), size)
    ]


@record
class Repeat:
    """A run of equal parts in a sequence.

    Args:
        start: of the first part.
        period: length of a part.
        count: how many parts follow each other, at least two.
    """

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        """Behind the last part."""
        return self.start + self.period * self.count


def repeat_in(keys: Sequence[Hashable]) -> Repeat | None:
    """The repetition that covers most of a sequence, of the shortest parts; None if there is none.

    Sequences of more than `MOST_COMPARED` are not searched.
    """
    size = len(keys)
    best: Repeat | None = None
    if size > MOST_COMPARED:
        return None
    for period in range(SHORTEST_PERIOD, size // 2 + 1):
        run = 0
        for place in range(size - period + 1):
            if place < size - period and keys[place] == keys[place + period]:
                run += 1
                continue
            count = run // period + 1
            covered = 0 if best is None else best.period * best.count
            if count >= 2 and count * period > covered:
                best = Repeat(place - run, period, count)
            run = 0
    return best


def repeat_of(graph: Graph) -> Repeat | None:
    """The repetition among the operations of a graph."""
    return repeat_in([(node.op and node.op.name, str(node.type)) for node in graph.calls])
