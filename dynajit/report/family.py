"""What happened in the functions of one `dj.compile` call, and in the process: counts and texts.

`Family` gathers what belongs to one `dj.compile` call: the function itself, its rests after breaks,
and the functions captured below it. `Statistics` is behind `dj.compile_stats()`. Neither holds an
object of the program's. Filled by `dynajit.driver.compile`; `report.history` reads families.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from dynajit.core.process.late import Late

if TYPE_CHECKING:
    from dynajit.capture.entry.session import Compilation
    from dynajit.capture.region import region as regions
else:
    regions = Late("dynajit.capture.region.region")

MOST_TEXTS = 1000
"""Breaks and skips of one `compile` call that are kept, the last ones."""

#: A place in user code: file and line.
Line = tuple[str, int]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Family:
    """What belongs to one `dj.compile` call (mutable; holds compiled functions weakly).

    Args:
        graphs: graphs compiled.
        breaks: texts of the breaks, each once, in order.
        skips: "name: reason" of frames that run as plain Python, each once, in order.
        captured: user lines that were captured.
        plain: user lines that run as plain Python in some call.
    """

    graphs: int = 0
    breaks: dict[str, None] = field(default_factory=dict)
    skips: dict[str, None] = field(default_factory=dict)
    captured: set[Line] = field(default_factory=set)
    plain: set[Line] = field(default_factory=set)
    _members: list["weakref.ref[Any]"] = field(default_factory=list)

    def add(self, compiled: Any) -> None:
        """A compiled function belongs to the family."""
        self._members = [member for member in self._members if member() is not None]
        self._members.append(weakref.ref(compiled))

    def members(self) -> Iterator[Any]:
        """The compiled functions alive, in the order in which they were made."""
        for member in tuple(self._members):
            compiled = member()
            if compiled is not None:
                yield compiled

    def count(self, name: str, code: CodeType, compilation: "Compilation") -> None:
        """Add one compilation of a member with this name and code."""
        region = compilation.region
        if isinstance(region, regions.Region):
            self.graphs += bool(region.graph.calls)
            self.captured |= region.lines
            for record in region.breaks:
                if not record.follows:
                    self.breaks[str(record)] = None
                self.plain.add((record.location.file, record.location.line))
        elif region.permanent:
            self.skips[f"{name}: {region.reason}"] = None
            self.plain |= lines_of(code)
        for texts in (self.breaks, self.skips):
            while len(texts) > MOST_TEXTS:  # texts may name classes that every call makes anew
                del texts[next(iter(texts))]

    def clear(self) -> None:
        """Forget what was counted; the members stay."""
        self.graphs = 0
        for found in (self.breaks, self.skips, self.captured, self.plain):
            found.clear()  # all are dicts or sets


def lines_of(code: CodeType) -> set[Line]:
    """The lines of a function's own statements."""
    first = code.co_firstlineno
    return {(code.co_filename, line) for *_, line in code.co_lines() if line and line > first}


class Statistics:
    """Counts over the process; mutable, one instance in `dynajit.compile`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again at zero."""
        self.graphs = 0
        self.breaks = 0
        self.reasons: Counter[str] = Counter()  # a program has few places that break

    def count(self, region: Any) -> None:
        """Add one compiled region."""
        self.graphs += bool(region.graph.calls)
        found = [record for record in region.breaks if not record.follows]
        self.breaks += len(found)
        self.reasons.update(str(record) for record in found)

    def as_dict(self) -> dict[str, Any]:
        """`{"graphs": n, "breaks": n, "reasons": [...]}`."""
        return {
            "graphs": self.graphs,
            "breaks": self.breaks,
            "reasons": list(self.reasons.elements()),
        }
