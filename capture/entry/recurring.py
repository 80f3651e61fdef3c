"""Recompiles counted by what keeps changing: a program may have thousands of them.

Contract: as many places are remembered as `most` says, the last ones; counts of a place are of all
its recompiles. Texts only, nothing of the program's.
"""

from dataclasses import dataclass, field

from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import Failure
from dynajit.core.location import Location


@dataclass(slots=True, eq=False)
class Recurring:
    """Recompiles because of one fact about one place. Mutable: they are counted.

    Args:
        place: what changes: as Python text, or the name of a mode.
        kind: which fact about it.
        location: the user's line that needed it last, or None.
        guard: the condition that failed last.
        first: (what was expected, what was met) at the first recompile, in words.
        last: the same at the last.
        count: how many there were.
        milliseconds: that they took together.
        sizes: what the last one generalised, such as "x.shape[0]: 3 -> 4; now dynamic".
    """

    place: str
    kind: Kind
    location: Location | None
    guard: str
    first: tuple[str, str]
    last: tuple[str, str]
    count: int = 0
    milliseconds: float = 0.0
    sizes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Recompiles:
    """What keeps changing, by place. Mutable.

    Args:
        most: how many places are remembered.
        count: of all recompiles.
    """

    most: int
    count: int = 0
    found: dict[tuple[str, Kind], Recurring] = field(default_factory=dict)

    def note(
        self, failures: tuple[Failure, ...], milliseconds: float, sizes: tuple[str, ...]
    ) -> None:
        """Count a recompile.

        Args:
            failures: the guard that failed of each version, what no version knows first.
            milliseconds: what the new version took.
            sizes: what it generalised.
        """
        self.count += 1
        if not failures:
            return
        guard, values = failures[0].guard, (failures[0].old, failures[0].new)
        place = guard.reason if guard.kind.row.is_mode else guard.source.expression()
        known = self.found.pop((place, guard.kind), None)
        if known is None:
            known = Recurring(place, guard.kind, None, "", values, values)
        known.location, known.guard, known.last = guard.location, guard.expression(), values
        known.count += 1
        known.milliseconds += milliseconds
        known.sizes = sizes
        self.found[place, guard.kind] = known  # the last one comes last
        while len(self.found) > self.most:
            del self.found[next(iter(self.found))]

    def clear(self) -> None:
        """Forget all."""
        self.count = 0
        self.found.clear()
