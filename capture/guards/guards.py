"""Guards: the facts about its inputs that a compiled region relies on.

A `Guard` is frozen data: a source, a kind (a row of `capture.guards.kinds`), what was expected, and
why. It is recorded when a fact is *used*. What it expects of tensors, numbers and functions is
described in `capture.guards.facts`; the guards of one region become a C evaluator, which never runs
user code, in `capture.guards.tree`.
A guard that fails can explain itself in one sentence with the old and the new value.

Made by the executor; read by `capture.entry.cache`, the C entry object and the reports.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places.sources import Source, State
from dynajit.core.errors import InternalError
from dynajit.core.location import Location
from dynajit.core.records import record

GRAD_MODE_SOURCE = State()


@record
class Guard:
    """One fact.

    Args:
        source: what it is about.
        kind: what is checked.
        expected: see `Kind`.
        location: the user's line that relied on it, or None.
        reason: why the region relies on it, such as "branch condition".
    """

    source: Source
    kind: Kind
    expected: Any
    location: Location | None = field(default=None, compare=False)
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.source.is_guardable:
            raise InternalError(f"guard {self.kind.name} on {self.source}, which has no path")

    def identity(self) -> tuple[Any, ...]:
        """A hashable key: two guards with equal keys check the same fact."""
        return guard_key(self.source, self.kind, self.expected)

    def expression(self) -> str:
        """The condition as Python text."""
        return self.kind.row.expression(self.source.expression(), self.expected)

    def explain(self, actual: Any = None) -> str:
        """One sentence: what the region was compiled for and what it met.

        Args:
            actual: the value now, or `MISSING` where the place no longer exists.
        """
        name = self.source.expression()
        if self.kind in (Kind.RELATION, Kind.CONDITION) and actual is not MISSING:
            return f"expected {self.expression()}, now {self.new_text(actual)}"
        if actual is MISSING:
            return f"{name} does not exist any more (expected {self.expression()})"
        if self.kind is Kind.CLASS_UNCHANGED:
            return self.new_text(actual)
        if self.kind is Kind.TENSOR:
            return f"{name}: {self.expected.difference(actual)}"
        return f"{name}: expected {self.old_text()}, now {self.new_text(actual)}"

    def old_text(self) -> str:
        """What was expected, in words."""
        return self.kind.row.expected(self.expected)

    def new_text(self, actual: Any) -> str:
        """The value now, in words."""
        if actual is MISSING:
            return "missing"
        return self.kind.row.actual(self.expected, actual)

    def __str__(self) -> str:
        where = f"  # {self.reason}" if self.reason else ""
        line = f" at {self.location}" if self.location else ""
        return f"{self.expression()}{where}{line}"


def guard_key(source: Source, kind: Kind, expected: Any) -> tuple[Any, ...]:
    """`Guard.identity()` of the guard that would be made of these."""
    return (source, kind, kind.row.key(expected))


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


def without_implied(guards: Iterable[Guard]) -> Iterable[Guard]:
    """All guards but those that a place exists whose contents, or what lies below, is guarded, too.

    Every check of a place reads it, and fails where nothing is there.
    """
    found = tuple(guards)
    places = {guard.source for guard in found if guard.kind is Kind.EXISTS}
    kinds = {type(place) for place in places}
    read: set[Source] = set()
    seen: set[int] = set()
    for guard in found if places else ():
        place = guard.source.parent if guard.kind is Kind.EXISTS else guard.source
        while place is not None and id(place) not in seen:  # ways are long, and mostly shared
            seen.add(id(place))
            if type(place) in kinds and place in places:
                read.add(place)
            place = place.parent
    return tuple(g for g in found if g.kind is not Kind.EXISTS or g.source not in read)
