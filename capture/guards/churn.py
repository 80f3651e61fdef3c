"""Guards that fail at call after call, and what they are about: Python is left to such places.

What changes between calls is generalised where that can be done: sizes and numbers become run-time
values. What cannot (a text, an object, the length of a list) costs a version per value; after
`MOST_VERSIONS` the next capture breaks where the value is needed: one version serves all others.

Places are told apart by their texts: nothing that a compiled region relies on is decided here.
"""

from dataclasses import dataclass, field
from typing import Final

from dynajit.core.location import Location
from dynajit.core.process import config

#: Versions for the values of one place before it is left to Python.
MOST_VERSIONS: Final = 4
#: Further versions, for guards that no instruction records: then calls run as plain Python.
MOST_IN_VAIN: Final = 4


@dataclass(slots=True)
class Churn:
    """How many versions were needed because a guard failed (mutable).

    One per function, shared with what runs after its breaks, which needs the same places.

    Args:
        may_break: no whole graph was asked for. Otherwise each value has its version, up to
            `config.recompile_limit`; then calls run as plain Python.
    """

    may_break: bool = True
    _versions: dict[tuple[str, bool], int] = field(default_factory=dict)
    _lines: set[tuple[str, int]] = field(default_factory=set)

    def note(self, place: str, is_class: bool, location: Location | None) -> None:
        """A version is made since a guard, of a class or a value, failed that this line needed."""
        self._versions[place, is_class] = self._versions.get((place, is_class), 0) + 1
        if self.is_left_to_python(place, is_class):
            self.leave_line(location)

    def leave_line(self, location: Location | None) -> None:
        """What a line needs was left to Python for another reason."""
        if location is not None:
            self._lines.add((location.file, location.line))

    @property
    def is_empty(self) -> bool:
        """True if no guard has failed: so it is for most functions."""
        return not self._versions and not self._lines

    def is_left_to_python(self, place: str, is_class: bool) -> bool:
        """True if code must not rely on the class, or on the value, of what is there any more."""
        return self.may_break and self._versions.get((place, is_class), 0) >= MOST_VERSIONS

    def is_line_left_to_python(self, location: Location | None) -> bool:
        """True for a line that needs such a place: what it has computed changes, too."""
        return location is not None and (location.file, location.line) in self._lines

    def is_in_vain(self, place: str, is_class: bool) -> bool:
        """True if versions are still made for a place that was left to Python."""
        limit = MOST_VERSIONS + MOST_IN_VAIN
        if not self.may_break:
            limit = config.current().recompile_limit - 1
        return self._versions.get((place, is_class), 0) >= limit

    def forget(self) -> None:
        """As if no guard had failed."""
        self._versions.clear()
        self._lines.clear()
