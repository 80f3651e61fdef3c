"""`dj.explain(fn)(*args)`: everything that compiling one call did, as data, text and page.

Frozen data made from the compilations of one call: the function's own, and those of resume
functions and callees that it led to. Printed (`report.screen`) it fits a screen; `full()` is all.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynajit.capture.entry.session import Compilation
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.region.region import Region
from dynajit.core.process.late import Late
from dynajit.core.quoting import folded_html, on_a_line
from dynajit.core.records import record
from dynajit.ir.graph import Graph
from dynajit.report import screen
from dynajit.report.shortening import counted
from dynajit.report.versions import Break, Made, Version

if TYPE_CHECKING:
    from dynajit.driver.launches import GraphRecord
    from dynajit.report.page import page
else:
    page = Late("dynajit.report.page.page")

__all__ = ["Break", "Explanation", "explanation_of"]


@record(eq=False)
class Explanation:
    """What compiling one call did.

    Args:
        name: the function.
        graphs: captured graphs, in the order in which they were compiled.
        breaks: graph breaks.
        continued: loops that go on after one of the breaks with their real iterator; not counted.
        guards: the facts checked before a compiled version runs, as Python text.
        kernels: generated kernels: objects with `name`, `source`, `kind` and `stores`.
        stages: milliseconds per compile stage, summed over the graphs.
        records: per graph, what passes, autodiff and code generation did.
        skips: reasons why frames run as plain Python.
        versions: what was compiled, one entry each, those that run as plain Python included.
        milliseconds: that compiling took.
        kernel_us: microseconds that each kernel ran in the explained call, the first one of its
            code, by `program/kernel`; empty where none was seen (on a GPU, and in commands).
    """

    name: str
    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    guards: tuple[str, ...]
    kernels: tuple[Any, ...]
    stages: dict[str, float]
    records: "tuple[GraphRecord, ...]"
    skips: tuple[str, ...]
    continued: tuple[Break, ...] = ()
    versions: tuple[Version, ...] = ()
    milliseconds: float = 0.0
    kernel_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def graph_count(self) -> int:
        """Number of graphs that compute something."""
        return len(self.graphs)

    @property
    def break_count(self) -> int:
        """Number of graph breaks."""
        return len(self.breaks)

    @property
    def graph_break_count(self) -> int:
        """The same, by PyTorch's name."""
        return self.break_count

    @property
    def break_reasons(self) -> list[Break]:
        """The graph breaks, by PyTorch's name: objects with `reason`."""
        return list(self.breaks)

    @property
    def op_count(self) -> int:
        """Number of operations in all graphs."""
        return sum(len(graph.calls) for graph in self.graphs)

    @property
    def headline(self) -> str:
        """One line: numbers of graphs, breaks, guards and kernels."""
        return (
            f"{on_a_line(self.name)}: {counted(self.graph_count, 'graph')}, "
            f"{counted(self.break_count, 'break')}, {counted(len(self.guards), 'guard')}, "
            f"{counted(len(self.kernels), 'kernel')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, strings and numbers."""
        return {
            "name": self.name,
            "graph_count": self.graph_count,
            "break_count": self.break_count,
            "graphs": [str(graph) for graph in self.graphs],
            "breaks": [
                {"reason": b.reason, "file": b.file, "line": b.line, "hint": b.hint}
                for b in self.breaks
            ],
            "guards": list(self.guards),
            "kernels": [{"name": k.name, "source": k.source} for k in self.kernels],
            "kernel_us": dict(self.kernel_us),
            "stages": dict(self.stages),
            "skips": list(self.skips),
        }

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that is complete in itself: the source coloured by graph, to click through.

        Raises:
            ArgumentRuntimeError: the file cannot be written.
        """
        page.write(path, page.of_explanation(self))

    def full(self) -> str:
        """Everything as text: long for large models."""
        return screen.full_text(self)

    def __str__(self) -> str:
        return screen.text(self)

    def __repr__(self) -> str:
        return f"<Explanation {self.headline}>"

    def _repr_html_(self) -> str:
        return folded_html(self.headline, str(self))


def explanation_of(
    name: str,
    compilations: Iterable[tuple[Made, Compilation]],
    kernel_us: Mapping[str, float] = MappingProxyType({}),
) -> Explanation:
    """Gather the compilations that one call caused.

    Args:
        kernel_us: see Explanation.
    """
    graphs: list[Graph] = []
    breaks: list[Break] = []
    continued: list[Break] = []
    guards: dict[str, None] = {}
    records: list[GraphRecord] = []
    skips: list[str] = []
    stages: dict[str, float] = {}
    versions: list[Version] = []
    for made, compilation in compilations:
        for stage, value in made.all_stages().items():
            if stage != "backend":  # the graph record splits it into its parts
                stages[stage] = stages.get(stage, 0.0) + value
        region = compilation.region
        if not isinstance(region, Region):
            skips.append(f"{made.function}: {made.skip}")
            versions.append(Version(made, len(versions), ()))
            continue
        for end in made.breaks:
            (continued if end.follows else breaks).append(end)
        guards.update(dict.fromkeys(str(guard.expression()) for guard in region.guards))
        if made.graph is not None:
            graphs.append(made.graph)
        if made.launched is not None:
            records.append(made.launched)
        versions.append(Version(made, len(versions), _released(compilation)))
    kernels = tuple(kernel for record in records for kernel in record.kernels)
    return Explanation(
        name, tuple(graphs), tuple(breaks), tuple(guards), kernels, stages, tuple(records),
        tuple(skips), tuple(continued), tuple(versions),
        sum(version.made.milliseconds for version in versions), kernel_us,
    )  # fmt: skip


def _released(compilation: Compilation) -> tuple[Any, ...]:
    """The guards as they are published: they keep nothing of the program's alive."""
    if compilation.guards is not None:
        return compilation.guards.guards
    assert isinstance(compilation.region, Region)
    with suppress(OverflowError):  # of a relation with numbers of more than 64 bits
        return compile_guards(compilation.region.guards).guards
    return ()
