"""An explanation as text for a terminal.

Contract: `text` has at most `MOST_LINES` lines; where all of `full_text` fits, it is that. Else the
longest sections are told in few lines, by what is in them: operations by name, guards of equal
layers together, kernels by kind. Every line is safe to print.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.quoting import on_a_terminal
from dynajit.core.records import record
from dynajit.ir.graph import Graph
from dynajit.report.layers import layers_in, repeat_of
from dynajit.report.shortening import counted
from dynajit.report.versions import GuardText

if TYPE_CHECKING:
    from dynajit.report.explanation import Explanation

MOST_LINES: Final = 60
"""A screen."""
_MOST_ENTRIES: Final = 6
"""Entries of a section that is told shortly."""
_MOST_NAMES: Final = 8
"""Operations that are counted by name."""
_LONGEST: Final = 160
_BAR: Final = 30


@record(eq=False)
class _Section:
    """A part of the text.

    Args:
        title: its first line.
        whole: its lines.
        short: makes its few lines.
    """

    title: str
    whole: Sequence[str]
    short: Callable[[], Sequence[str]]


def full_text(found: "Explanation") -> str:
    """All there is to say."""
    return "\n".join([found.headline, *_printed((s.title, s.whole) for s in _sections(found))])


def text(found: "Explanation") -> str:
    """What fits a screen."""
    sections = _sections(found)
    shown = {section.title: section.whole for section in sections}
    longest = sorted(sections, key=lambda section: -len(section.whole))
    is_short = False
    for section in longest:
        if 1 + len(_printed(shown.items())) <= MOST_LINES - is_short:
            break
        shown[section.title] = section.short()
        is_short = True
    lines = [found.headline, *_printed(shown.items())]
    if is_short:
        lines = [*lines[: MOST_LINES - 1], "(.full() is all of it, .to_html(path) a page of it)"]
    return "\n".join(lines)


def _printed(sections: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    lines: list[str] = []
    for title, content in sections:
        if content:
            lines += ["", f"{title}:", *(f"  {line}" for line in content)]
    return lines


def _sections(found: "Explanation") -> list[_Section]:
    return [
        _Section("graphs", _lines(map(str, found.graphs)), lambda: _graphs(found.graphs)),
        _of_texts("breaks", [entry.text for entry in found.breaks]),
        _of_texts("loops that go on after a break", [entry.text for entry in found.continued]),
        _of_texts("run as plain Python", found.skips),
        _Section("guards", _lines(found.guards), lambda: _guards(found)),
        _of_texts("passes and autodiff", [record.summary() for record in found.records]),
        _Section("kernels", _lines(_each_kernel(found)), lambda: _kernels(found)),
        _Section("compile stages", _stages(found.stages), lambda: _stages(found.stages)),
    ]


def _of_texts(title: str, texts: Sequence[str]) -> _Section:
    """A section whose short form are its first entries, and of each the first lines."""

    def short() -> list[str]:
        room = max(_MOST_ENTRIES // max(len(texts), 1), 1)
        if len(texts) == 1:
            lines = _lines(texts)
            return lines if len(lines) <= 2 * _MOST_ENTRIES else lines[: 2 * _MOST_ENTRIES]
        shown = [line for entry in texts[:_MOST_ENTRIES] for line in _lines([entry])[: room + 1]]
        return [*shown, *_left(len(texts), _MOST_ENTRIES)]

    return _Section(title, _lines(texts), short)


def _lines(texts: Iterable[str]) -> list[str]:
    return [line for entry in texts for line in on_a_terminal(entry).split("\n")]


def _left(count: int, shown: int) -> list[str]:
    return [f"and {count - shown} more"] if count > shown else []


def _short_line(line: str) -> str:
    line = on_a_terminal(line).replace("\n", " ")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


# -- graphs ------------------------------------------------------------------------------------


def _graphs(graphs: Sequence[Graph]) -> list[str]:
    shown = [line for graph in graphs[:_MOST_ENTRIES] for line in _graph(graph)]
    return [*shown, *_left(len(graphs), _MOST_ENTRIES)]


def _graph(graph: Graph) -> list[str]:
    """A graph in two lines."""
    names = Counter(node.op.name for node in graph.calls if node.op is not None)
    told = ", ".join(f"{count} {name}" for name, count in names.most_common(_MOST_NAMES))
    more = f", {len(names) - _MOST_NAMES} more kinds" if len(names) > _MOST_NAMES else ""
    repeat = repeat_of(graph)
    layers = (
        f"; {repeat.count} equal layers of {counted(repeat.period, 'operation')}" if repeat else ""
    )
    return [
        _short_line(
            f"{graph.name}: {counted(len(graph.inputs), 'input')}, "
            f"{counted(len(graph.calls), 'operation')}, {counted(len(graph.outputs), 'output')}"
            f"{layers}"
        ),
        _short_line(f"  {told}{more}"),
    ]


# -- guards ------------------------------------------------------------------------------------


def _guards(found: "Explanation") -> list[str]:
    """The program's first: those of equal layers together; the library's own are counted."""
    texts: dict[str, GuardText] = {}
    for version in found.versions:
        texts.update((guard.text, guard) for guard in version.guards)
    layers, rest = layers_in(texts.values())
    lines = [_short_line(str(group)) for group in layers[:_MOST_ENTRIES]]
    lines += _left(len(layers), _MOST_ENTRIES)
    users = [guard.text for guard in rest if not guard.is_own]
    lines += [_short_line(text) for text in users[:_MOST_ENTRIES]]
    if len(users) > _MOST_ENTRIES:
        lines.append(f"and {counted(len(users) - _MOST_ENTRIES, 'guard')} more of the program's")
    own = sum(guard.is_own for guard in rest)
    return [*lines, f"{counted(own, 'guard')} of what the library itself relies on"]


# -- kernels -----------------------------------------------------------------------------------

_NAMES: Final = re.compile(r"\b(?:k\d+_\w+|b\d+_\w+|in\d+|constant\d+_\w+)\b")


def _each_kernel(found: "Explanation") -> list[str]:
    """A line for each; times are of the explained call."""
    return [
        f"{kernel.name}  ({len(kernel.source.splitlines())} lines)"
        + _time(_us(found, program, kernel))
        for record_ in found.records
        for _, program in record_.programs
        for kernel in program.kernels
    ]


def _us(found: "Explanation", program: Any, kernel: Any) -> float:
    return found.kernel_us.get(f"{program.name}/{kernel.name}", 0.0)


def _time(microseconds: float) -> str:
    return f" {microseconds:.1f} us" if microseconds else ""


def _kernels(found: "Explanation") -> list[str]:
    """By program and kind, what took longest first, with how many differ in more than names."""
    lines = []
    for record_ in found.records:
        for role, program in record_.programs:
            counts: Counter[str] = Counter()
            times: dict[str, float] = {}
            for kernel in program.kernels:
                kind = kernel.kind or "kernel"
                counts[kind] += 1
                times[kind] = times.get(kind, 0.0) + _us(found, program, kernel)
            texts = {without_names(kernel.source) for kernel in program.kernels}
            order = sorted(counts, key=lambda kind: (-times[kind], -counts[kind]))
            told = ", ".join(f"{counts[kind]} {kind}{_time(times[kind])}" for kind in order)
            lines.append(
                _short_line(
                    f"{record_.graph.name}, {role}: {counted(len(program.kernels), 'kernel')}, "
                    f"{len(texts)} of them different: {told}"
                )
            )
    return [*lines[: 2 * _MOST_ENTRIES], *_left(len(lines), 2 * _MOST_ENTRIES)]


def without_names(source: str) -> str:
    """A kernel's text without the names of its buffers: equal layers have equal ones."""
    return _NAMES.sub("_", source)


# -- stages ------------------------------------------------------------------------------------


def _stages(stages: dict[str, float]) -> list[str]:
    longest = max(stages.values(), default=0.0) or 1.0
    return [
        f"{name:12s} {value:9.2f} ms  {'#' * round(_BAR * value / longest)}".rstrip()
        for name, value in stages.items()
    ]
