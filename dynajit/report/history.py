"""`fn.report()`: what a compiled function did so far.

A report is a snapshot; it holds no reference to user objects: texts, and the graphs and kernels of
the versions alive. Printed, it says what keeps changing and what to do about it (`advice`); as a
page it has the source (`report.page`).
"""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dynajit.core.process.late import Late
from dynajit.core.quoting import folded_html, on_a_line, on_a_terminal
from dynajit.core.records import record
from dynajit.report.family import Family, Line
from dynajit.report.shortening import counted, in_time

if TYPE_CHECKING:
    from dynajit.capture.entry import cache
    from dynajit.capture.entry.recurring import Recurring
    from dynajit.report import advice, versions
    from dynajit.report.page import page
    from dynajit.report.versions import Version
else:
    advice = Late("dynajit.report.advice")
    cache = Late("dynajit.capture.entry.cache")
    page = Late("dynajit.report.page.page")
    versions = Late("dynajit.report.versions")


@record
class Recompile:
    """Why a new version of a function was compiled.

    Args:
        guard: the check that failed, as Python text.
        old: what the newest version was compiled for.
        new: what the call brought.
        location: the user's line that needed the fact, or an empty text.
        sizes: what the new version generalised, such as "x.shape[0]: 32 -> 48; now dynamic".
        milliseconds: that it took.
    """

    guard: str
    old: str
    new: str
    location: str
    sizes: tuple[str, ...] = ()
    milliseconds: float = 0.0

    def __str__(self) -> str:
        where = f"  (needed at {self.location})" if self.location else ""
        if self.sizes:
            return "; ".join(self.sizes) + where
        return f"{self.guard} failed: compiled for {self.old}, called with {self.new}{where}"


@record
class Changing:
    """A place that keeps changing: the recompiles that it caused.

    Args:
        place: what changes, as Python text, such as "n" or "x".
        count: recompiles because of it.
        milliseconds: that they took together.
        last: the last one.
        first: what was expected and what was met at the first one, in words.
        line: the user's line that needed the fact, or None.
        advice: what to do.
    """

    place: str
    count: int
    milliseconds: float
    last: Recompile
    first: tuple[str, str]
    line: Line | None
    advice: str

    def __str__(self) -> str:
        took = in_time(self.milliseconds)
        if self.count == 1:
            return f"recompiled: {self.last} [{took}]"
        where = f"  (needed at {self.last.location})" if self.last.location else ""
        first, second = advice.difference(*self.first)
        _, last = advice.difference(self.first[0], self.last.new)
        return (
            f"recompiled {self.count} times for {self.place} [{took}]: from {first} to {second}, "
            f"... at last to {last}{where}"
        )


@record
class Part:
    """A function of a report: the compiled one, what follows a break of it, or one called there.

    Args:
        name: qualified name.
        line: where it is defined, or goes on.
        calls: number of calls.
        hits: calls that ran a version compiled earlier.
        entries: versions alive.
    """

    name: str
    line: Line
    calls: int
    hits: int
    entries: int

    def __str__(self) -> str:
        place = f"{os.path.basename(self.line[0])}:{self.line[1]}"
        return (
            f"{self.name} ({place}): {counted(self.calls, 'call')}, "
            f"{counted(self.hits, 'hit')}, {counted(self.entries, 'version')}"
        )


@record(eq=False)
class Report:
    """What a compiled function did so far.

    Args:
        name: the function.
        calls: number of calls.
        hits: calls that ran a version compiled earlier, of the parts after breaks, too: each is
            called as often as the function gets there.
        entries: versions of the function alive.
        recompiles: why each version after the first was compiled, of rests and callees, too; the
            last hundred of each.
        breaks: texts of the graph breaks met, each once; not the ends of regions that only follow
            from them.
        graphs: graphs compiled.
        skips: "name: reason" of functions that run as plain Python.
        lines: user lines met.
        compiled_lines: those of them that only run compiled.
        parts: the function itself, then what follows its breaks, and what is called there.
        changing: what keeps changing, most recompiles first.
        recompile_count: of all recompiles.
        plain: user lines that run as plain Python.
        versions: those alive, of all parts, in the order in which they were compiled.
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
    parts: tuple[Part, ...] = ()
    changing: tuple[Changing, ...] = ()
    recompile_count: int = 0
    plain: frozenset[Line] = frozenset()
    versions: "tuple[Version, ...]" = ()

    @property
    def percent_compiled(self) -> float:
        """Share of the user lines met that only run compiled; 100 if none was met."""
        return 100.0 * self.compiled_lines / self.lines if self.lines else 100.0

    @property
    def summary(self) -> str:
        """One line: graphs, breaks, share of lines compiled, the first reason with its line."""
        text = (
            f"{self.name}: {counted(self.graphs, 'graph')}, {counted(len(self.breaks), 'break')}, "
            f"{self.percent_compiled:.0f} % of {counted(self.lines, 'line')} compiled"
        )
        if self.breaks:
            first, place = (*self.breaks[0].split("\n"), "")[:2]
            text += f"; first break: {first}{place.replace('  at', ' at')}"
        elif self.skips:
            text += f"; plain Python: {self.skips[0]}"
        return text

    @property
    def headline(self) -> str:
        """One line: calls, hits, versions, recompiles."""
        return (
            f"{self.name}: {self.calls} calls, {self.hits} hits, {self.entries} versions, "
            f"{self.recompile_count} recompiles"
        )

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that is complete in itself: the source with graphs, breaks and recompiles.

        Raises:
            ArgumentRuntimeError: the file cannot be written.
        """
        page.write(path, page.of_report(self))

    def short_html(self) -> str:
        """What a notebook shows."""
        return folded_html(self.headline, str(self))

    _repr_html_ = short_html

    def __repr__(self) -> str:
        return f"<Report {on_a_line(self.headline)}>"

    def __str__(self) -> str:
        lines = [
            self.headline,
            f"  {counted(self.graphs, 'graph')}; {self.compiled_lines} of "
            f"{counted(self.lines, 'user line')} compiled ({self.percent_compiled:.0f} %)",
        ]
        if len(self.parts) > 1:
            lines += [f"  part: {part}" for part in self.parts[:MOST_SHOWN]]
            lines += _more(len(self.parts), "part")
        for changing in self.changing[:MOST_SHOWN]:
            lines += [f"  {changing}", f"    Do: {changing.advice}"]
        lines += _more(len(self.changing), "place that changes", "places that change")
        for text in self.breaks[:MOST_SHOWN]:
            lines += [f"  break: {line}" for line in text.split("\n")]
        lines += _more(len(self.breaks), "break")
        lines += [f"  plain Python: {text}" for text in self.skips[:MOST_SHOWN]]
        lines += _more(len(self.skips), "function as plain Python", "functions as plain Python")
        return on_a_terminal("\n".join(lines))


MOST_SHOWN = 20
"""Entries of a list that are printed: the report has all of them."""


def _more(count: int, noun: str, plural: str = "") -> list[str]:
    left = count - MOST_SHOWN
    return [f"  and {counted(left, noun, plural)} more"] if left > 0 else []


def report_of(name: str, compiled: Any, family: Family) -> Report:
    """The report of a compiled function and of what belongs to it."""
    members = list(family.members())
    caches = [cache.cache_of(member) for member in members]
    # Other threads may call meanwhile: what they change is copied first.
    groups: dict[tuple[str, Any], list[Recurring]] = {}
    at_entry = set()  # places that change for a whole function, too
    for member, known in zip(members, caches, strict=True):
        for found in list(known.recurring.found.values()):
            groups.setdefault((found.place, found.kind), []).append(found)
            if not member.is_rest:
                at_entry.add((found.place, found.kind))
    changing = [_changing(group, key not in at_entry) for key, group in groups.items()]
    return Report(
        name=name,
        calls=compiled.calls,
        hits=sum(member.hits for member in members),
        entries=len(cache.cache_of(compiled).entries(compiled)),
        recompiles=tuple(
            found for known in caches for found in _recompiles(tuple(known.recompiles))
        ),
        breaks=tuple(family.breaks),
        graphs=family.graphs,
        skips=(*family.skips, *(_slower(member) for member in members if member.is_slower)),
        lines=len(family.captured | family.plain),
        compiled_lines=len(family.captured - family.plain),
        parts=_parts(members, compiled, name),
        changing=tuple(sorted(changing, key=lambda found: -found.count)),
        recompile_count=sum(known.recurring.count for known in caches),
        plain=frozenset(family.plain),
        versions=versions.versions_alive(members),
    )


def _parts(members: Iterable[Any], compiled: Any, name: str) -> tuple[Part, ...]:
    """Each version of a function has its own rest: they are one part."""
    found: dict[tuple[str, Line], Part] = {}
    for member in members:
        code = member.__code__
        called = name if member is compiled else member.__wrapped__.__qualname__
        line = code.co_filename, code.co_firstlineno
        known = found.get((called, line), Part(called, line, 0, 0, 0))
        found[called, line] = Part(
            called,
            line,
            known.calls + member.calls,
            known.hits + member.hits,
            known.entries + member.entry_count,
        )
    return tuple(found.values())


def _recompiles(records: Iterable[Any]) -> Iterable[Recompile]:
    for found in records:
        for failure in found.failures[:1]:
            place = failure.guard.location
            yield Recompile(
                guard=failure.guard.expression(),
                old=failure.old,
                new=failure.new,
                location="" if place is None else str(place),
                sizes=found.sizes,
                milliseconds=found.milliseconds,
            )


def _slower(member: Any) -> str:
    return f"{member.__wrapped__.__qualname__}: called by plain Python, it took longer compiled"


def _changing(group: "Sequence[Recurring]", is_rest: bool) -> Changing:
    """The recompiles of all parts because of one place; `is_rest`: of rests alone."""
    last = max(group, key=lambda found: found.count)
    where, (old, new) = last.location, last.last
    location = "" if where is None else str(where)
    return Changing(
        place=last.place,
        count=sum(found.count for found in group),
        milliseconds=sum(found.milliseconds for found in group),
        last=Recompile(last.guard, old, new, location, last.sizes),
        first=group[0].first,
        line=None if where is None else (where.file, where.line),
        advice=advice.advice_for(last.place, last.kind, old, new, last.sizes, is_rest),
    )
