"""What a profile knows of the work that was recorded: events, and what events of one name share.

Contract: events of a thread nest; the self time of one is its time less that of the events in it.
So the self times of all events of a thread, and the Python time between those that lie in no other,
add up to the time of the recorded block. Times are in microseconds, memory in bytes: what was taken
less what was given back while the event ran.
"""

from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, Final

from dynajit.core.errors import ArgumentError
from dynajit.core.location import is_of_library
from dynajit.core.process import _recorder
from dynajit.core.process.recording import Kind
from dynajit.core.records import record
from dynajit.core.types.device import CPU

Shapes = tuple[tuple[int, ...], ...]

BETWEEN: Final = "(Python)"
"""Name of the time of the block in which no recorded work ran."""


@record
class Interval:
    """From when to when an event ran, in microseconds of one clock."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long."""
        return self.end - self.start


class FunctionEvent:
    """One piece of work that ran. Mutable while a profile is put together.

    Args:
        id: its number in the profile.
        name: of the operation, kernel, node or block.
        kind: what it is.
        thread: the identifier of the thread that it ran in.
        time_range: when.
        cpu_memory_usage: bytes taken less bytes given back.
        input_shapes: sizes of each operand; empty where they were not recorded.
        stack: the program's frames, the innermost first; empty where they were not recorded.
    """

    count = 1
    is_async = False
    is_remote = False
    device_type = CPU
    device_time_total = cuda_time_total = 0.0
    self_device_time_total = self_cuda_time_total = 0.0

    def __init__(
        self,
        id: int,
        name: str,
        kind: Kind,
        thread: int,
        time_range: Interval,
        cpu_memory_usage: int = 0,
        input_shapes: Shapes = (),
        stack: Sequence[str] = (),
    ) -> None:
        self.id = id
        self.name = name
        self.kind = kind
        self.thread = thread
        self.time_range = time_range
        self.cpu_memory_usage = cpu_memory_usage
        self.input_shapes = input_shapes
        self.stack = stack
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def is_user_annotation(self) -> bool:
        """Whether the program named it."""
        return self.kind is Kind.NAMED

    @property
    def cpu_time_total(self) -> float:
        """Microseconds that it ran."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that it ran while no event in it did."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Its bytes, without those of the events in it."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent {self.name}: {self.cpu_time_total:.3f} us, "
            f"self {self.self_cpu_time_total:.3f} us>"
        )


class FunctionEventAvg:
    """What events of one key share. Mutable: events are added.

    Args:
        key: their name.
        input_shapes: of their operands, where events were grouped by them.
        stack: the innermost frames, where events were grouped by them.
    """

    device_time_total = cuda_time_total = device_time = cuda_time = 0.0
    self_device_time_total = self_cuda_time_total = 0.0
    device_memory_usage = cuda_memory_usage = 0
    self_device_memory_usage = self_cuda_memory_usage = 0

    def __init__(self, key: str, input_shapes: Shapes = (), stack: Sequence[str] = ()) -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.stack = stack
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.is_user_annotation = False

    @property
    def cpu_time(self) -> float:
        """Microseconds of one of them, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, event: FunctionEvent) -> None:
        """Count one more. The time of an event within another of its key counts once."""
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.is_user_annotation |= event.is_user_annotation
        above = event.cpu_parent
        while above is not None and above.name != event.name:
            above = above.cpu_parent
        if above is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg {self.key}: {self.count} calls, {self.cpu_time_total:.3f} us, "
            f"self {self.self_cpu_time_total:.3f} us>"
        )


def events_between(start: int, stop: int) -> list[FunctionEvent]:
    """What the recorder has of a block: events that began in it, in each thread by their beginning.

    Args:
        start, stop: nanoseconds, as of the recorder; what ran on at the end is cut there.
    """
    found: list[FunctionEvent] = []
    for thread, rows in _recorder.events():
        made: dict[int, FunctionEvent] = {}
        for place, row in enumerate(rows):
            kind, what, number, begin, end, parent, held, shapes, stack = row
            if not start <= begin < stop:
                continue
            above = made.get(parent)
            event = FunctionEvent(
                id=len(found),
                name=_name(Kind(kind), what, number),
                kind=Kind(kind),
                thread=thread,
                time_range=Interval(begin / 1e3, min(end or stop, stop) / 1e3),
                cpu_memory_usage=held,
                input_shapes=shapes or (),
                stack=_stack_text(stack) if stack else above.stack if above else (),
            )
            if above is not None:
                event.cpu_parent = above
                above.cpu_children.append(event)
            made[place] = event
            found.append(event)
    return found


def _name(kind: Kind, what: Any, number: int) -> str:
    """What a table calls an event."""
    if kind is Kind.KERNEL:
        kernels = getattr(what, "kernels", ())
        name = kernels[number].name if number < len(kernels) else f"k{number}"
        return f"{what.name}/{name}"
    if kind is Kind.PROGRAM:
        return f"{what.name}/call"
    return what if isinstance(what, str) else str(what.name)


def _stack_text(frames: Iterable[tuple[CodeType, int]]) -> tuple[str, ...]:
    """`file(line): function` of each frame, without those of this library."""
    return tuple(
        f"{code.co_filename}({line}): {code.co_name}"
        for code, line in frames
        if not is_of_library(code.co_filename)
    )


class EventList(list[Any]):
    """Events, or averages of events, of one profile.

    Args:
        between_us: microseconds of the block in which its thread recorded nothing.
        has_memory, has_shapes, has_stacks: what was recorded besides times.
    """

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        between_us: float = 0.0,
        has_memory: bool = False,
        has_shapes: bool = False,
        has_stacks: bool = False,
    ) -> None:
        super().__init__(events)
        self.between_us = between_us
        self.has_memory = has_memory
        self.has_shapes = has_shapes
        self.has_stacks = has_stacks

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all self times, the Python time between included."""
        named = any(event.key == BETWEEN for event in self)
        total: float = sum(event.self_cpu_time_total for event in self)
        return total if named else total + self.between_us

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> "EventList":
        """What events of one name share, and the Python time between them.

        Args:
            group_by_input_shape: events with operands of other sizes are kept apart.
            group_by_stack_n: so are those from other places, by so many frames of the program.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ()
            stack = tuple(event.stack[:group_by_stack_n])
            key = event.name, shapes, stack
            if key not in groups:
                groups[key] = FunctionEventAvg(event.name, shapes, stack)
            groups[key].add(event)
        found = list(groups.values())
        if self.between_us > 0:
            between = FunctionEventAvg(BETWEEN)
            between.count = 1
            between.cpu_time_total = between.self_cpu_time_total = self.between_us
            found.append(between)
        return EventList(
            found,
            has_memory=self.has_memory,
            has_shapes=group_by_input_shape,
            has_stacks=group_by_stack_n > 0,
        )

    def total_average(self) -> FunctionEventAvg:
        """All events in one."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
        total.cpu_time_total = total.self_cpu_time_total
        total.cpu_memory_usage = total.self_cpu_memory_usage
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """A table, one line per event or average.

        Args:
            sort_by: a column, largest first: `cpu_time_total`, `self_cpu_time_total`, `cpu_time`,
                `cpu_memory_usage`, `self_cpu_memory_usage`, `count`; names of `cuda_` and `device_`
                columns are taken, too. None: as they are.
            row_limit: lines at most; -1: all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: characters.
            header: a line above.
            top_level_events_only: leave out what lies in other events.

        Raises:
            ArgumentError: there is no such column.
        """
        rows = [x for x in self if not (top_level_events_only and _lies_within(x))]
        if sort_by is not None:
            rows.sort(key=_column(sort_by), reverse=True)
        shown = rows if row_limit < 0 else rows[:row_limit]
        total = self.self_cpu_time_total
        columns = _columns(self, total, max_name_column_width, max_shapes_column_width,
                           max_src_column_width)  # fmt: skip
        lines = [] if header is None else [header]
        lines += _laid_out([(title, [text(row) for row in shown]) for title, text in columns])
        if len(shown) < len(rows):
            lines.append(f"... and {len(rows) - len(shown)} more")
        lines.append(f"Self CPU time total: {_time(total)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<{len(self)} events, {_time(self.self_cpu_time_total)}; .table() shows them>"


def _lies_within(event: Any) -> bool:
    return getattr(event, "cpu_parent", None) is not None


_SORTABLE: Final = (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "count", "cuda_time", "cuda_time_total", "self_cuda_time_total",
    "device_time", "device_time_total", "self_device_time_total", "cuda_memory_usage",
    "self_cuda_memory_usage", "device_memory_usage", "self_device_memory_usage",
)  # fmt: skip


def _column(name: str) -> Callable[[Any], Any]:
    if name not in _SORTABLE:
        raise ArgumentError(
            f"table(sort_by={name!r}): there is no such column.  Expected one of "
            f"{', '.join(_SORTABLE)}."
        )
    return lambda row: getattr(row, name, 0)


def _columns(
    events: EventList, total: float, name_width: int, shapes_width: int, source_width: int
) -> list[tuple[str, Callable[[Any], str]]]:
    """Titles, and the text of a row."""

    def share(time: float) -> str:
        return f"{100 * time / total:.2f}%" if total else "-"

    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda row: _cut(row.key, name_width)),
        ("Self CPU %", lambda row: share(row.self_cpu_time_total)),
        ("Self CPU", lambda row: _time(row.self_cpu_time_total)),
        ("CPU total %", lambda row: share(row.cpu_time_total)),
        ("CPU total", lambda row: _time(row.cpu_time_total)),
        ("CPU time avg", lambda row: _time(row.cpu_time)),
    ]
    if events.has_memory:
        columns += [
            ("CPU Mem", lambda row: _bytes(row.cpu_memory_usage)),
            ("Self CPU Mem", lambda row: _bytes(row.self_cpu_memory_usage)),
        ]
    columns.append(("# of Calls", lambda row: str(row.count)))
    if events.has_shapes:
        columns.append(("Input Shapes", lambda row: _cut(_sizes(row.input_shapes), shapes_width)))
    if events.has_stacks:
        columns.append(
            ("Source Location", lambda row: _cut(row.stack[0] if row.stack else "", source_width))
        )
    return columns


def _laid_out(columns: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Lines of a table: names to the left, numbers to the right."""
    widths = [max(map(len, (title, *texts))) for title, texts in columns]
    rule = "  ".join("-" * width for width in widths)

    def line(texts: Sequence[str]) -> str:
        first, *others = zip(texts, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        return "  ".join(cells).rstrip()

    rows = zip(*(texts for _, texts in columns), strict=True)
    return [rule, line([title for title, _ in columns]), rule, *map(line, rows), rule]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 3, 0)]}..."


def _sizes(shapes: Shapes) -> str:
    return f"[{', '.join(str(list(shape)) for shape in shapes)}]"


def _time(us: float) -> str:
    """With three digits behind the point, as PyTorch's tables have it."""
    if abs(us) >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if abs(us) >= 1e3 else f"{us:.3f}us"


def _bytes(number: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(number) >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number} B"
