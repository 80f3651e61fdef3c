"""What a page shows, as plain data for its script.

Keys of the whole: `title`, `kind` ("explanation" or "report"), `about` (versions of Python and of
dynajit), `facts` (pairs of a number and its word), `files` (file, note, blocks of lines),
`versions` (what was compiled; each has its graph, pictures, guards, stages, breaks and lines),
`kernels`, `changing` (recompiles by place), `plain` (lines that run as plain Python) and `parts`.
A line is a pair: number of the file in `files`, line number.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dynajit.compat.torch_version import __version__
from dynajit.core.location import Location
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.printing import print_literal
from dynajit.report.layers import layers_in
from dynajit.report.page.picture import pictures_of
from dynajit.report.page.sources import source_of
from dynajit.report.screen import without_names
from dynajit.report.shortening import in_time
from dynajit.report.versions import Break, Line, Version

if TYPE_CHECKING:
    from dynajit.report.explanation import Explanation
    from dynajit.report.history import Report

MOST_NODES: Final = 5000
"""Operations of one graph that a page lists."""


def of_explanation(found: "Explanation") -> dict[str, Any]:
    """The page of an explanation."""
    facts = [
        (found.graph_count, "graph"), (found.break_count, "break"),
        (found.op_count, "operation"), (len(found.kernels), "kernel"), (len(found.guards), "guard"),
    ]  # fmt: skip
    plain = {(entry.file, entry.line) for entry in found.breaks}
    page = _Page(found.versions, plain, found.kernel_us)
    page.content |= {
        "title": found.name,
        "kind": "explanation",
        "facts": [[str(n), noun if n == 1 else f"{noun}s"] for n, noun in facts]
        + [[in_time(found.milliseconds), "to compile"]],
    }
    return page.finished()


def of_report(found: "Report") -> dict[str, Any]:
    """The page of a report."""
    facts = [
        (found.calls, "call"), (found.hits, "hit"), (len(found.versions), "version"),
        (found.recompile_count, "recompile"), (len(found.breaks), "break"),
    ]  # fmt: skip
    page = _Page(found.versions, found.plain)
    for changing in found.changing:
        if changing.line is not None:
            page.met(changing.line)
    page.content |= {
        "title": found.name,
        "kind": "report",
        "facts": [[str(n), noun if n == 1 else f"{noun}s"] for n, noun in facts]
        + [[f"{found.percent_compiled:.0f} %", "of lines compiled"]],
        "parts": [str(part) for part in found.parts],
        "skips": list(found.skips),
        "changing": [
            {
                "place": changing.place,
                "count": changing.count,
                "ms": round(changing.milliseconds, 1),
                "text": str(changing),
                "advice": changing.advice,
                "line": None if changing.line is None else page.line(changing.line),
            }
            for changing in found.changing
        ],
    }
    return page.finished()


class _Page:
    """The content while it is put together. Mutable."""

    def __init__(
        self,
        versions: Sequence[Version],
        plain: Iterable[Line],
        kernel_us: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.kernel_us = kernel_us
        self.files: dict[str, int] = {}
        self.lines: dict[str, set[int]] = {}
        self.versions = versions
        self.kernels: list[dict[str, Any]] = []
        self._texts: dict[str, int] = {}
        self.plain = set(plain)
        for version in versions:
            made = version.made
            if made.skip:
                self.plain |= {(made.place[0], line) for *_, line in made.code.co_lines()
                               if line and line > made.place[1]}  # fmt: skip
        start = min((version.made.started for version in versions), default=0.0)
        found = [self._version(number, v, start) for number, v in enumerate(versions)]
        self.content: dict[str, Any] = {
            "about": f"dynajit {__version__}, Python {platform.python_version()}",
            "versions": found,
            "plain": [self.line(line) for line in sorted(self.plain)],
            "changing": [],
            "parts": [],
            "skips": [f"{v.made.function}: {v.made.skip}" for v in versions if v.made.skip],
        }

    def met(self, line: Line) -> None:
        """A line is to be seen on the page."""
        file, number = line
        self.files.setdefault(file, len(self.files))
        self.lines.setdefault(file, set()).add(number)

    def line(self, line: Line) -> tuple[int, int]:
        """A line as the script knows it."""
        self.met(line)
        return self.files[line[0]], line[1]

    def finished(self) -> dict[str, Any]:
        """The content, with the files in which lines were met."""
        codes: dict[str, list[Any]] = {}
        for version in self.versions:
            if version.made.is_rest:
                continue
            codes.setdefault(version.made.place[0], []).append(version.made.code)
        sources = [source_of(file, self.lines[file], codes.get(file, ())) for file in self.files]
        self.content["kernels"] = self.kernels
        self.content["files"] = [
            {
                "file": _shown(source.file),
                "note": source.note,
                "blocks": [
                    {"name": block.name, "first": block.first, "lines": list(block.lines)}
                    for block in source.blocks
                ],
            }
            for source in sources
        ]
        return self.content

    def _version(self, number: int, version: Version, start: float) -> dict[str, Any]:
        made = version.made
        self.met(made.place)
        graph = made.graph
        guards = version.guards
        layers, _ = layers_in(guards)
        return {
            "function": made.function,
            "number": version.number,
            "hits": version.hits,
            "skip": made.skip,
            "rest": made.is_rest,
            "at": self.line(made.place),
            "lines": [self.line(line) for line in sorted(made.lines)],
            "started": round(1e3 * (made.started - start), 2),
            "ms": round(made.milliseconds, 2),
            "stages": [[name, round(value, 2)] for name, value in made.all_stages().items()],
            "breaks": [self._break(entry) for entry in made.breaks],
            "guards": [
                {
                    "text": guard.text,
                    "line": None if guard.location is None else self.line(guard.location),
                    "reason": guard.reason,
                    "own": guard.is_own,
                }
                for guard in guards
            ],
            "layers": [str(group) for group in layers],
            "passes": [] if made.launched is None else made.launched.summary().split("\n")[1:],
            "graph": None if graph is None else self._graph(graph),
            "kernels": [] if made.launched is None else self._kernels(number, made.launched),
        }

    def _break(self, found: Break) -> dict[str, Any]:
        return {
            "reason": found.reason,
            "hint": found.hint,
            "text": found.text,
            "line": self.line((found.file, found.line)),
            "follows": found.follows,
            "fundamental": found.fundamental,
        }

    def _location(self, location: Location | None) -> tuple[int, int] | None:
        return None if location is None else self.line((location.file, location.line))

    def _graph(self, graph: Graph) -> dict[str, Any]:
        return {
            "name": graph.name,
            "nodes": [
                [
                    node.name,
                    node.op.name if node.op is not None else node.kind.value,
                    str(node.type),
                    _arguments(node),
                    self._location(node.location),
                ]
                for node in graph.nodes[:MOST_NODES]
            ],
            "more": max(len(graph.nodes) - MOST_NODES, 0),
            "pictures": [picture.as_data() for picture in pictures_of(graph)],
        }

    def _kernels(self, version: int, record: Any) -> list[int]:
        """Numbers of the kernels of a record; equal texts are there once."""
        found = []
        for role, program in record.programs:
            graph = {"forward": record.forward, "backward": record.backward}.get(role)
            computed = {} if graph is None else _computed(graph, program.kernels)
            for kernel in program.kernels:
                text = without_names(kernel.source)
                first = self._texts.setdefault(text, len(self.kernels))
                nodes = computed.get(kernel.name, [])
                places = dict.fromkeys(map(self._location, (node.location for node in nodes)))
                found.append(len(self.kernels))
                self.kernels.append(
                    {
                        "version": version,
                        "role": role,
                        "name": kernel.name,
                        "kind": kernel.kind,
                        "us": round(self.kernel_us.get(f"{program.name}/{kernel.name}", 0.0), 1),
                        "text": kernel.source if first == len(self.kernels) else "",
                        "first": first,
                        "nodes": [node.name for node in nodes],
                        "lines": [place for place in places if place is not None],
                    }
                )
        return found


def _shown(file: str) -> str:
    """A file's name, as short as the folder that the program runs in allows."""
    with suppress(OSError, ValueError):  # no such folder any more; a file of another disk
        short = os.path.relpath(file)
        if os.path.isabs(file) and not short.startswith(os.pardir):
            return short
    return file


def _arguments(node: Node) -> str:
    shown = [a.name if isinstance(a, Node) else print_literal(a) for a in node.args]
    shown += [f"{name}={value!r}" for name, value in node.attributes.items()
              if not hasattr(value, "graph")]  # fmt: skip
    return ", ".join(shown)


def _computed(graph: Graph, kernels: Sequence[Any]) -> Mapping[str, list[Node]]:
    """Kernel -> the operations that it computes: what it stores, and what only that is made of."""
    by_name = {node.name: node for node in graph.calls}
    order = {node: place for place, node in enumerate(graph.nodes)}
    stored = {name for kernel in kernels for name in kernel.stores}
    result = {}
    for kernel in kernels:
        found: set[Node] = set()
        open_ = [by_name[name] for name in kernel.stores if name in by_name]
        while open_:
            node = open_.pop()
            if node in found:
                continue
            found.add(node)
            open_ += [
                argument
                for argument in node.args
                if isinstance(argument, Node)
                and argument.kind is NodeKind.CALL
                and argument.name not in stored
            ]
        result[kernel.name] = sorted(found, key=order.__getitem__)
    return result
