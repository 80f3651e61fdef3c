"""Where the operations of a graph stand in its picture.

Contract: arrows point down, boxes do not overlap, and the result depends on the graph alone.
Layers are longest paths from the inputs; long arrows bend around boxes through empty places; the
order within a layer follows the neighbours' (the method of Sugiyama, Tagawa and Toda, "Methods for
visual understanding of hierarchical system structures", IEEE Transactions on Systems, Man, and
Cybernetics 11 (1981), with medians). What is used once beside the first operand, such as a weight,
is written into the box. Equal layers may be drawn once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind, storage_root
from dynajit.report.layers import Repeat, repeat_of

MOST_DRAWN: Final = 1500
"""Boxes of a picture: larger graphs are read as text."""
FOLDED_FROM: Final = 24
"""Operations of a graph from which on equal layers are drawn once."""
_LETTER, _PADDING = 6.7, 18.0
_HEIGHT, _GAP_DOWN, _GAP_ACROSS = 38.0, 26.0, 18.0
_SLOT: Final = 14.0
"""Width of an arrow that passes a layer."""
_SWEEPS: Final = 8
_LONGEST_NAMES: Final = 26


@record
class Box:
    """An operation or an input in the picture: where it stands and what node it is."""

    node: int
    x: float
    y: float
    width: float
    title: str
    detail: str


@record(eq=False)
class Picture:
    """A picture, in pixels.

    Args:
        width, height: of all of it.
        boxes: their x and y are those of the upper left corner; all are `_HEIGHT` high.
        arrows: (number of the box it comes from, of the one it goes to, SVG path).
        band: (y, height, text) of the layers that are drawn once, or None.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int, str], ...]
    band: tuple[float, float, str] | None = None

    def as_data(self) -> dict[str, Any]:
        """What the page's script draws."""
        return {
            "width": round(self.width),
            "height": round(self.height),
            "box": _HEIGHT,
            "boxes": [
                [b.node, round(b.x, 1), round(b.y, 1), round(b.width, 1), b.title, b.detail]
                for b in self.boxes
            ],
            "arrows": [list(arrow) for arrow in self.arrows],
            "band": self.band,
        }


def pictures_of(graph: Graph) -> list[Picture]:
    """The picture of a graph; in front of it one with equal layers drawn once, where there are
    some; none of graphs that are too large to be looked at."""
    repeat = repeat_of(graph) if len(graph.calls) >= FOLDED_FROM else None
    found = [] if repeat is None else [_picture(graph, repeat)]
    if len(graph.nodes) <= MOST_DRAWN:
        found.append(_picture(graph, None))
    return [picture for picture in found if len(picture.boxes) <= MOST_DRAWN]


def inside_of(graph: Graph) -> set[Node]:
    """What is written into the box of the operation that uses it.

    Numbers, and inputs and constants, as they are or through views, that one operation takes beside
    its first operand.
    """
    users = graph.users()
    found: set[Node] = set()
    for node in reversed(graph.nodes):  # users come later
        if node.kind is NodeKind.CALL and not _is_whole_view(node):
            continue
        if node in graph.outputs or (node.kind is NodeKind.CALL and not users[node]):
            continue
        only = users[node][0] if len(users[node]) == 1 else None
        is_beside = only is not None and (only in found or only.args[0] is not node)
        if not isinstance(node.type, TensorType) or not users[node] or is_beside:
            found.add(node)
    return found


def _is_whole_view(node: Node) -> bool:
    """True for views of all that an input or a constant is."""
    root = storage_root(node)
    is_whole = (
        isinstance(node.type, TensorType)
        and isinstance(root.type, TensorType)
        and node.type.numel == root.type.numel
    )
    return node.is_view and root.kind is not NodeKind.CALL and is_whole


def _picture(graph: Graph, repeat: Repeat | None) -> Picture:
    inside = inside_of(graph)
    stands_for = {} if repeat is None else _folded(graph.calls, repeat)
    shown = [node for node in graph.nodes if node not in inside and node not in stands_for]
    if repeat is not None:  # what only the layers that are left out use
        used = {_in_place_of(a, stands_for) for node in shown for a in node.args}
        shown = [n for n in shown if n.kind is NodeKind.CALL or n in used]
    number = {node: place for place, node in enumerate(shown)}
    edges = sorted(
        {
            (number[source], number[node])
            for node in shown
            for source in (_in_place_of(argument, stands_for) for argument in node.args)
            if source in number and number[source] < number[node]
        }
    )
    boxes = [_texts(node, inside) for node in shown]
    widths = [_width(title, detail) for title, detail in boxes]
    plan = _Plan(_levels(len(shown), edges), widths, edges)
    plan.arrange()
    position = {node: place for place, node in enumerate(graph.nodes)}
    placed = tuple(
        Box(position[node], plan.x[i] - widths[i] / 2, plan.y_of(i), widths[i], *boxes[i])
        for i, node in enumerate(shown)
    )
    band = None
    if repeat is not None:
        layer = graph.calls[repeat.start : repeat.start + repeat.period]
        kept = [number[node] for node in layer if node in number]
        top = min(plan.y_of(i) for i in kept)
        bottom = max(plan.y_of(i) for i in kept) + _HEIGHT
        band = (top - 9, bottom - top + 18, f"{repeat.count} equal layers")
    return Picture(plan.width, plan.height, placed, plan.arrows(), band)


def _folded(calls: Sequence[Node], repeat: Repeat) -> dict[Node, Node]:
    """Operation of a layer that is left out -> the one of the first layer that stands for it."""
    second = repeat.start + repeat.period
    return {
        calls[place]: calls[repeat.start + (place - repeat.start) % repeat.period]
        for place in range(second, repeat.stop)
    }


def _in_place_of(argument: Any, stands_for: Mapping[Node, Node]) -> Any:
    return stands_for.get(argument, argument) if isinstance(argument, Node) else None


def _texts(node: Node, inside: set[Node]) -> tuple[str, str]:
    """The two lines of a box."""
    if node.op is None:
        return node.name[:40], str(node.type)[:44]
    beside = [
        storage_root(a).name
        for a in node.args
        if isinstance(a, Node) and a in inside and isinstance(a.type, TensorType)
    ]
    owners = dict.fromkeys(
        name.rpartition("___")[2].removesuffix("_weight").removesuffix("_bias") for name in beside
    )
    names = ", ".join(owners)
    shown = f" \N{MIDDLE DOT} {names}" if names and len(names) <= _LONGEST_NAMES else ""
    return f"{node.op.name}{shown}", str(node.type)[:44]


def _width(title: str, detail: str) -> float:
    return max(_LETTER * max(len(title) * 1.06, len(detail) * 0.92), 40.0) + _PADDING


def _levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box, from above; inputs stand right above what uses them."""
    levels = [0] * count
    for source, target in edges:  # sorted by source: numbers grow along edges
        levels[target] = max(levels[target], levels[source] + 1)
    nearest: dict[int, int] = {}
    for source, target in edges:
        nearest[source] = min(nearest.get(source, levels[target]), levels[target])
    has_source = {target for _, target in edges}
    return [
        level if i in has_source else max(nearest.get(i, 1) - 1, 0)
        for i, level in enumerate(levels)
    ]


@dataclass(slots=True)
class _Plan:
    """Places while they are found. Mutable.

    Items are boxes, by number, and behind them the places where long arrows pass a layer.
    """

    levels: list[int]
    widths: list[float]
    edges: list[tuple[int, int]]
    rows: list[list[int]] = field(default_factory=list)
    chains: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    x: list[float] = field(default_factory=list)

    def arrange(self) -> None:
        """Find `x` of every item."""
        self._bend()
        self.rows = [[] for _ in range(max(self.levels, default=-1) + 1)]
        for item, level in enumerate(self.levels):
            self.rows[level].append(item)
        self.x = [0.0] * len(self.levels)
        for row in self.rows:
            self._spread(row, {item: float(place) for place, item in enumerate(row)})
        for sweep in range(_SWEEPS):
            is_down = sweep % 2 == 0
            neighbours = self.above if is_down else self.below
            for row in self.rows if is_down else reversed(self.rows):
                wanted = {item: self._median(neighbours[item], self.x[item]) for item in row}
                row.sort(key=wanted.__getitem__)
                self._spread(row, wanted)
        left = min((self.x[i] - self._of(i) / 2 for i in range(len(self.x))), default=0.0)
        self.x = [x - left + _GAP_ACROSS for x in self.x]

    def _bend(self) -> None:
        """Let long arrows pass through a place of every layer between."""
        self.above = [[] for _ in self.levels]
        self.below = [[] for _ in self.levels]
        for edge in self.edges:
            source, target = edge
            chain = [source]
            for level in range(self.levels[source] + 1, self.levels[target]):
                chain.append(len(self.levels))
                self.levels.append(level)
                self.above.append([])
                self.below.append([])
            chain.append(target)
            self.chains[edge] = chain
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)

    def _of(self, item: int) -> float:
        return self.widths[item] if item < len(self.widths) else _SLOT

    def _median(self, items: Sequence[int], default: float) -> float:
        found = sorted(self.x[item] for item in items)
        if not found:
            return default
        middle = len(found) // 2
        return found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2

    def _spread(self, row: Sequence[int], wanted: Mapping[int, float]) -> None:
        """Place a row near where its items want to be, in its order, without overlaps.

        Groups of items that touch each other stand where the mean of their wishes is.
        """
        groups: list[tuple[list[int], list[float], float]] = []  # items, offsets, left end
        for item in row:
            items, offsets = [item], [0.0]
            left = wanted[item]
            while groups:
                before, shifts, start = groups[-1]
                apart = (self._of(before[-1]) + self._of(items[0])) / 2 + _GAP_ACROSS
                if start + shifts[-1] + apart <= left:
                    break
                groups.pop()
                offsets = [*shifts, *(shifts[-1] + apart + offset for offset in offsets)]
                items = [*before, *items]
                left = sum(wanted[i] - o for i, o in zip(items, offsets, strict=True)) / len(items)
            groups.append((items, offsets, left))
        for items, offsets, left in groups:
            for item, offset in zip(items, offsets, strict=True):
                self.x[item] = left + offset

    def y_of(self, item: int) -> float:
        """The upper end of an item."""
        return _GAP_DOWN + self.levels[item] * (_HEIGHT + _GAP_DOWN)

    @property
    def width(self) -> float:
        """Of the picture."""
        right = max((self.x[i] + self._of(i) / 2 for i in range(len(self.x))), default=0.0)
        return right + _GAP_ACROSS

    @property
    def height(self) -> float:
        """Of the picture."""
        return len(self.rows) * (_HEIGHT + _GAP_DOWN) + _GAP_DOWN

    def arrows(self) -> tuple[tuple[int, int, str], ...]:
        """See `Picture`."""
        return tuple((*edge, self._path(chain)) for edge, chain in self.chains.items())

    def _path(self, chain: Sequence[int]) -> str:
        x, y = self.x[chain[0]], self.y_of(chain[0]) + _HEIGHT
        parts = [f"M{x:.0f} {y:.0f}"]
        for item in chain[1:]:
            below, top = self.x[item], self.y_of(item)
            middle = (y + top) / 2
            parts.append(f"C{x:.0f} {middle:.0f} {below:.0f} {middle:.0f} {below:.0f} {top:.0f}")
            x, y = below, top
            if item != chain[-1]:
                y += _HEIGHT
                parts.append(f"V{y:.0f}")
        return "".join(parts)
