"""A picture of a GPU's memory over time, from the record of what was taken and given back.

Contract: each allocation is an area, as high as its bytes and as long as it lived; areas lie on one
another, so that the whole is what was taken. Time runs by events, since most of them crowd into
moments. Small allocations are one area on top.
"""

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from dynajit.core.arrays.gpu.memory import Event, readable
from dynajit.core.errors import InvalidValueError
from dynajit.core.process import optional
from dynajit.core.quoting import as_bytes, in_html
from dynajit.core.records import record

LARGEST: Final = 1000
"""How many allocations have an area of their own."""
_NAMED: Final = 20  # lines of the list below the picture
_WIDTH, _HEIGHT, _LEFT = 1200, 500, 90


@record
class Block:
    """An allocation.

    Args:
        start, end: numbers of the events with which it begins and ends; the end of the record where
            it was not given back.
        size: bytes.
        site: the line that made it.
        seconds: how long it lived; None where it was not given back.
    """

    start: int
    end: int
    size: int
    site: str
    seconds: float | None


@record
class Area:
    """Where a block lies: from each event number on at an offset, in bytes."""

    block: Block
    steps: tuple[tuple[int, int], ...]

    def outline(self) -> list[tuple[int, int]]:
        """Corners of the area, around it."""
        ends = [start for start, _ in self.steps[1:]] + [self.block.end]
        lower = [
            corner
            for (start, offset), end in zip(self.steps, ends, strict=True)
            for corner in ((start, offset), (end, offset))
        ]
        return lower + [(x, y + self.block.size) for x, y in reversed(lower)]


def blocks_of(events: Sequence[Event]) -> list[Block]:
    """The allocations of a record; those made before it are not in it."""
    open_: dict[tuple[int, int], tuple[int, Event]] = {}
    found = []
    for number, event in enumerate(events):
        place = event.device, event.address
        if event.action == "alloc":
            open_[place] = number, event
        elif place in open_:
            start, made = open_.pop(place)
            lived = event.seconds - made.seconds
            found.append(Block(start, number, made.size, _site(made), lived))
    found += [
        Block(start, len(events), made.size, _site(made), None) for start, made in open_.values()
    ]
    return sorted(found, key=lambda block: block.start)


def _site(event: Event) -> str:
    if not event.frames:
        return "?"
    file, line, function = event.frames[0]
    return f"{file}:{line} in {function}"


def areas_of(blocks: Sequence[Block]) -> list[Area]:
    """Blocks on one another: a new one lies on top, what lies above one that ends comes down."""
    changes = sorted(
        [(block.end, 0, i) for i, block in enumerate(blocks)]
        + [(block.start, 1, i) for i, block in enumerate(blocks)]
    )
    stack: list[int] = []
    offsets: dict[int, int] = {}
    steps: dict[int, list[tuple[int, int]]] = {}
    top = 0
    for time, is_start, i in changes:
        size = blocks[i].size
        if is_start:
            stack.append(i)
            offsets[i], steps[i] = top, [(time, top)]
            top += size
            continue
        above = stack[stack.index(i) + 1 :]
        stack.remove(i)
        top -= size
        for other in above:
            offsets[other] -= size
            steps[other].append((time, offsets[other]))
    return [Area(block, tuple(steps[i])) for i, block in enumerate(blocks)]


def totals_of(blocks: Iterable[Block]) -> list[tuple[int, int]]:
    """What was taken, from each event number on."""
    changes: dict[int, int] = {}
    for block in blocks:
        changes[block.start] = changes.get(block.start, 0) + block.size
        changes[block.end] = changes.get(block.end, 0) - block.size
    total, found = 0, []
    for time in sorted(changes):
        total += changes[time]
        found.append((time, total))
    return found


@record
class _Picture:
    """What is drawn.

    Args:
        areas: of the largest blocks.
        totals: of all blocks: the line above the areas.
        peak: the highest total, at least 1.
        length: number of events.
        at_peak: the largest blocks that lived when most was taken.
    """

    title: str
    areas: list[Area]
    totals: list[tuple[int, int]]
    peak: int
    length: int
    at_peak: list[Block]


def _picture(events: Sequence[Event], title: str) -> _Picture:
    blocks = blocks_of(events)
    if not blocks:
        raise InvalidValueError(
            "save_timeline: nothing was recorded.  Call cuda.memory._record_memory_history() "
            "before the work that shall be drawn."
        )
    largest = sorted(blocks, key=lambda block: -block.size)[:LARGEST]
    totals = totals_of(blocks)
    when, peak = max(totals, key=lambda pair: pair[1])
    living = [block for block in largest if block.start <= when < block.end]
    areas = areas_of(sorted(largest, key=lambda block: block.start))
    return _Picture(title, areas, totals, max(peak, 1), max(len(events), 1), living[:_NAMED])


def save(path: Path, events: Sequence[Event], title: str) -> None:
    """Write the picture.

    Args:
        path: ends in .html or .png.
        title: the name of the GPU.

    Raises:
        InvalidValueError: nothing was recorded, or the path ends in something else.
        UnsupportedError: a .png without matplotlib.
    """
    picture = _picture(events, title)
    if path.suffix == ".html":
        path.write_text(_page(picture), encoding="utf-8")
    elif path.suffix == ".png":
        _save_png(path, picture)
    else:
        raise InvalidValueError(f"save_timeline({str(path)!r}): expected a name in .html or .png.")


def _color(site: str) -> str:
    return f"hsl({zlib.crc32(as_bytes(site)) % 360},55%,65%)"


def _words(block: Block) -> str:
    lived = "until the end" if block.seconds is None else f"{block.seconds * 1e3:.3f} ms"
    return f"{readable(block.size)}, {lived}, {block.site}"


def _page(picture: _Picture) -> str:
    """The picture as a page that is complete in itself."""

    def x(number: int) -> float:
        return _LEFT + (_WIDTH - _LEFT) * number / picture.length

    def y(size: int) -> float:
        return 10 + (_HEIGHT - 40) * (1 - size / picture.peak)

    shapes = []
    for area in picture.areas:
        corners = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in area.outline())
        name = in_html(_words(area.block))
        shapes.append(
            f'<polygon points="{corners}" fill="{_color(area.block.site)}"><title>{name}</title>'
            "</polygon>"
        )
    line, before = [], 0
    for number, total in picture.totals:
        line += [f"{x(number):.1f},{y(before):.1f}", f"{x(number):.1f},{y(total):.1f}"]
        before = total
    ticks = [
        f'<text x="{_LEFT - 6}" y="{y(part) + 4:.0f}" text-anchor="end">{readable(part)}</text>'
        for part in sorted({picture.peak * i // 4 for i in range(5)})
    ]
    rows = [
        f'<li><span style="background:{_color(b.site)}">&emsp;</span> {in_html(_words(b))}</li>'
        for b in picture.at_peak
    ]
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en"><meta charset="utf-8">',
        f"<title>Memory of {in_html(picture.title)}</title>",
        "<style>body{font:14px sans-serif}polygon{stroke:#fff;stroke-width:.3}"
        "polygon:hover{fill:#222}text{font-size:11px}</style>",
        f"<h1>Memory of {in_html(picture.title)}</h1>",
        f"<p>Peak {readable(picture.peak)}, {picture.length} events from left to right.</p>",
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}">', *shapes,
        f'<polyline points="{" ".join(line)}" fill="none" stroke="#222"/>', *ticks, "</svg>",
        "<h2>Largest at the peak</h2>", "<ol>", *rows, "</ol></html>", "",
    ])  # fmt: skip


def _save_png(path: Path, picture: _Picture) -> None:
    matplotlib: Any = optional.load("matplotlib", needed_for="the plot", install="dynajit[demo]")
    matplotlib.use("Agg")
    pyplot = optional.load("matplotlib.pyplot", needed_for="the plot", install="dynajit[demo]")
    figure, axes = pyplot.subplots(figsize=(12, 6))
    for area in picture.areas:
        across, up = zip(*area.outline(), strict=True)
        shade = zlib.crc32(as_bytes(area.block.site)) % 360 / 360
        axes.fill(across, [v / 2**20 for v in up], color=pyplot.get_cmap("hsv")(shade), alpha=0.6)
    times, sizes = zip(*picture.totals, strict=True)
    axes.step(times, [size / 2**20 for size in sizes], where="post", color="black", linewidth=0.8)
    axes.set_xlabel("events")
    axes.set_ylabel("MiB")
    axes.set_title(f"Memory of {picture.title}, peak {readable(picture.peak)}")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
