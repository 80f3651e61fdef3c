"""`fn.report()`, the first-call summary and `dj.compile_stats()`: what happened so far.

A report is a snapshot; it holds no reference to user objects, only their texts. `Family` gathers
what belongs to one `dj.compile` call: the function itself, its rests after breaks, and the
functions captured below it.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from dynajit.core.process.late import Late
from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.capture.entry.session import Compilation
    from dynajit.capture.region import region as regions
else:
    regions = Late("dynajit.capture.region.region")

MOST_TEXTS = 1000
"""Breaks and skips of one `compile` call that are kept, the last ones."""

#: A place in user code: file and line.
Line = tuple[str, int]


@record
class Recompile:
    """Why a new version of a function was compiled.

    Args:
        guard: the check that failed, as Python text.
        old: what the newest version was compiled for.
        new: what the call brought.
        location: the user's line that needed the fact, or an empty text.
        sizes: what the new version generalised, such as "x.shape[0]: 32 -> 48; now dynamic".
    """

    guard: str
    old: str
    new: str
    location: str
    sizes: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"  (needed at {self.location})" if self.location else ""
        if self.sizes:
            return "; ".join(self.sizes) + where
        return f"{self.guard} failed: compiled for {self.old}, called with {self.new}{where}"


@record
class Report:
    """What a compiled function did so far.

    Args:
        name: the function.
        calls: number of calls.
        hits: calls that ran a version compiled earlier.
        entries: versions alive.
        recompiles: why each version after the first was compiled, of rests and callees, too.
        breaks: texts of the graph breaks met, each once; not the ends of regions that only follow
            from them.
        graphs: graphs compiled.
        skips: "name: reason" of functions that run as plain Python.
        lines: user lines met.
        compiled_lines: those of them that only run compiled.
    """

    name: str
    calls: int
    hits: int
    entries: int
    recompiles: tuple[Recompile, ...]
    breaks: tuple[str, ...]
    graphs: int = 0
    skips: tuple[str, ...] = ()
    lines: int = 0
    compiled_lines: int = 0

    @property
    def percent_compiled(self) -> float:
        """Share of the user lines met that only run compiled; 100 if none was met."""
        return 100.0 * self.compiled_lines / self.lines if self.lines else 100.0

    @property
    def summary(self) -> str:
        """One line: graphs, breaks, share of lines compiled, the first reason with its line."""
        text = (
            f"{self.name}: {_count(self.graphs, 'graph')}, {_count(len(self.breaks), 'break')}, "
            f"{self.percent_compiled:.0f} % of {_count(self.lines, 'line')} compiled"
        )
        if self.breaks:
            first, place = (*self.breaks[0].split("\n"), "")[:2]
            text += f"; first break: {first}{place.replace('  at', ' at')}"
        elif self.skips:
            text += f"; plain Python: {self.skips[0]}"
        return text

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.calls} calls, {self.hits} hits, {self.entries} versions, "
            f"{len(self.recompiles)} recompiles",
            f"  {_count(self.graphs, 'graph')}; {self.compiled_lines} of "
            f"{_count(self.lines, 'user line')} compiled ({self.percent_compiled:.0f} %)",
        ]
        lines += [f"  recompiled: {recompile}" for recompile in self.recompiles]
        for text in self.breaks:
            lines += [f"  break: {line}" for line in text.split("\n")]
        lines += [f"  plain Python: {text}" for text in self.skips]
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
