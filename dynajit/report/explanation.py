"""`dj.explain(fn)(*args)`: everything that compiling one call did, as data and as text.

Frozen data made from the compilations of one call: the function's own, and those of resume
functions and callees that it led to. Printed by the demo and by users.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dynajit.capture.entry.session import Compilation
from dynajit.capture.region.region import Region
from dynajit.core.quoting import on_a_line, on_a_terminal
from dynajit.core.records import record
from dynajit.ir.graph import Graph

if TYPE_CHECKING:
    from dynajit.driver.launches import GraphRecord


@record
class Break:
    """One graph break.

    Args:
        reason: what happened, a sentence.
        file, line: the user's line.
        hint: what to change.
        name: the row of the table of breaks.
        fundamental: True where no compiler could go on.
        text: everything, with the source line and a caret.
    """

    reason: str
    file: str
    line: int
    hint: str
    name: str
    fundamental: bool
    text: str


@record
class Explanation:
    """What compiling one call did.

    Args:
        name: the function.
        graphs: captured graphs, in the order in which they were compiled.
        breaks: graph breaks.
        continued: loops that go on after one of the breaks with their real iterator; not counted.
        guards: the facts checked before a compiled version runs, as Python text.
        kernels: generated kernels: objects with `name` and `source`.
        stages: milliseconds per compile stage, summed over the graphs.
        records: per graph, what passes, autodiff and code generation did.
        skips: reasons why frames run as plain Python.
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
            "stages": dict(self.stages),
            "skips": list(self.skips),
        }

    def __str__(self) -> str:
        lines = [
            f"{on_a_line(self.name)}: {_count(self.graph_count, 'graph')}, "
            f"{_count(self.break_count, 'break')}, {_count(len(self.guards), 'guard')}, "
            f"{_count(len(self.kernels), 'kernel')}"
        ]
        lines += _section("graphs", (str(graph) for graph in self.graphs))
        lines += _section("breaks", (b.text for b in self.breaks))
        lines += _section("loops that go on after a break", (b.text for b in self.continued))
        lines += _section("run as plain Python", self.skips)
        lines += _section("guards", self.guards)
        lines += _section("passes and autodiff", (record.summary() for record in self.records))
        lines += _section("kernels", (_kernel_line(kernel) for kernel in self.kernels))
        stages = (f"{name:12s} {value:9.2f} ms" for name, value in self.stages.items())
        lines += _section("compile stages", stages)
        return "\n".join(lines)


def explanation_of(name: str, compilations: Iterable[tuple[str, Compilation]]) -> Explanation:
    """Gather the compilations that one call caused, each with its function's name."""
    graphs: list[Graph] = []
    breaks: list[Break] = []
    continued: list[Break] = []
    guards: dict[str, None] = {}
    records: list[GraphRecord] = []
    skips: list[str] = []
    stages: dict[str, float] = {}
    for function, compilation in compilations:
        _add_stages(stages, compilation.stages)
        region = compilation.region
        if not isinstance(region, Region):
            skips.append(f"{function}: {region.reason}")
            continue
        for end in region.breaks:
            (continued if end.follows else breaks).append(break_of(end))
        guards.update(dict.fromkeys(str(guard.expression()) for guard in region.guards))
        record = getattr(compilation.launch, "record", None)
        if region.graph.calls:
            graphs.append(region.graph)
        if record is not None:
            records.append(record)
            _add_stages(stages, record.stages)
    kernels = tuple(kernel for record in records for kernel in record.kernels)
    return Explanation(
        name, tuple(graphs), tuple(breaks), tuple(guards), kernels, stages, tuple(records),
        tuple(skips), tuple(continued),
    )  # fmt: skip


def break_of(record: Any) -> Break:
    """A break record of capture as report data."""
    reason = record.reason
    detail = f": {record.detail}" if record.detail else ""
    return Break(
        reason=f"{reason.explanation}{detail}",
        file=record.location.file,
        line=record.location.line,
        hint=record.hint,
        name=reason.name,
        fundamental=reason.fundamental,
        text=str(record),
    )


def _add_stages(total: dict[str, float], stages: dict[str, float]) -> None:
    for name, value in stages.items():
        if name != "backend":  # the graph record splits it into its parts
            total[name] = total.get(name, 0.0) + value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _section(title: str, items: Iterable[str]) -> list[str]:
    texts = [text for item in items for text in on_a_terminal(item).split("\n")]
    return ["", f"{title}:", *(f"  {text}" for text in texts)] if texts else []


def _kernel_line(kernel: Any) -> str:
    return f"{kernel.name}  ({len(kernel.source.splitlines())} lines)"
