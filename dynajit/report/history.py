"""`fn.report()` and `dj.compile_stats()`: what happened so far.

Called by `dynajit.compile`. A report is a snapshot; it holds no reference to user objects, only
their texts.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recompile:
    """Why a new version of a function was compiled.

    Args:
        guard: the check that failed, as Python text.
        old: what the newest version was compiled for.
        new: what the call brought.
        location: the user's line that needed the fact, or an empty text.
    """

    guard: str
    old: str
    new: str
    location: str

    def __str__(self) -> str:
        where = f"  (needed at {self.location})" if self.location else ""
        return f"{self.guard} failed: compiled for {self.old}, called with {self.new}{where}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a compiled function did so far.

    Args:
        name: the function.
        calls: number of calls.
        hits: calls that ran a version compiled earlier.
        entries: versions alive.
        recompiles: why each version after the first was compiled.
        breaks: texts of the graph breaks met, each once.
    """

    name: str
    calls: int
    hits: int
    entries: int
    recompiles: tuple[Recompile, ...]
    breaks: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.calls} calls, {self.hits} hits, {self.entries} versions, "
            f"{len(self.recompiles)} recompiles"
        ]
        lines += [f"  recompiled: {recompile}" for recompile in self.recompiles]
        for text in self.breaks:
            lines += [f"  break: {line}" for line in text.split("\n")]
        return "\n".join(lines)


class Statistics:
    """Counts over the process; mutable, one instance in `dynajit.compile`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again at zero."""
        self.graphs = 0
        self.breaks = 0
        self.reasons: list[str] = []

    def count(self, region: Any) -> None:
        """Add one compiled region."""
        self.graphs += bool(region.graph.calls)
        self.breaks += len(region.breaks)
        self.reasons += [str(record) for record in region.breaks]

    def as_dict(self) -> dict[str, Any]:
        """`{"graphs": n, "breaks": n, "reasons": [...]}`."""
        return {"graphs": self.graphs, "breaks": self.breaks, "reasons": list(self.reasons)}
