"""What is known about sizes before a capture starts: marks, the `dynamic=` option, earlier calls.

A place is the text of a source and a dimension (None for a Python int). Places are only compared
here: nothing that a compiled region relies on is decided by their text.

One `SizeMemory` lives as long as the cache of one compiled function; `capture.tensors.sizes` asks
it which sizes become symbols and tells it what it saw. `mark_dynamic` and `mark_static` are public.
"""

import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dynajit.capture.guards.churn import MOST_VERSIONS, Churn
from dynajit.core.errors import ArgumentError
from dynajit.core.location import Location
from dynajit.core.records import record
from dynajit.eager import Tensor

Place: TypeAlias = tuple[str, int | None]

_INDEX: Final = re.compile(r"\[\d+\]")


@record
class Mark:
    """What the user said about one dimension of a tensor.

    Args:
        is_dynamic: a symbol from the first call on; else never one.
        low, high: sizes that the user promises; None where nothing is promised.
    """

    is_dynamic: bool
    low: int | None = None
    high: int | None = None


_marks: Final[dict[int, tuple[Any, dict[int, Mark]]]] = {}


def mark_dynamic(tensor: Any, dim: int, *, min: int | None = None, max: int | None = None) -> None:
    """Compile functions that get this tensor for every size of dimension `dim` at once.

    Sizes 0 and 1 are still compiled on their own. Where the code forces one size, compiling is an
    error that names the line.

    Args:
        tensor: the tensor that is going to be an argument; the mark belongs to this object.
        dim: the dimension, negative ones from the end.
        min, max: inclusive bounds that hold for every call; others are compiled anew.

    Raises:
        ArgumentError: no tensor, no such dimension, or its size is outside the bounds.
    """
    d = _dimension(tensor, dim, "mark_dynamic")
    size = tensor.shape[d]
    if (min is not None and size < min) or (max is not None and size > max):
        raise ArgumentError(
            f"mark_dynamic(dim={dim}, min={min}, max={max}): the tensor has size {size} there.  "
            "Expected bounds that include it."
        )
    _marks_of(tensor)[d] = Mark(True, min, max)


def mark_static(tensor: Any, dim: int | None = None) -> None:
    """Compile each size of dimension `dim` (None: of every dimension) of this tensor on its own.

    Raises:
        ArgumentError: no tensor, or no such dimension.
    """
    dims = range(len(tensor.shape)) if dim is None else [_dimension(tensor, dim, "mark_static")]
    for d in dims:
        _marks_of(tensor)[d] = Mark(False)


def marks_of(tensor: Any) -> Mapping[int, Mark]:
    """The marks of a tensor, by dimension."""
    found = _marks.get(id(tensor))
    return {} if found is None else found[1]


def _marks_of(tensor: Any) -> dict[int, Mark]:
    key = id(tensor)
    if key not in _marks:
        _marks[key] = (weakref.ref(tensor, lambda _: _marks.pop(key, None)), {})
    return _marks[key][1]


def _dimension(tensor: Any, dim: Any, function: str) -> int:
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"{function}: expected a tensor, got a {type(tensor).__name__}.")
    rank = len(tensor.shape)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise ArgumentError(f"{function}: dim is {dim!r}.  Expected one of {rank} dimensions.")
    return dim % rank


@dataclass(slots=True)
class SizeMemory:
    """Mutable; see the module's text.

    Args:
        mode: the `dynamic=` option.
        history: per tensor or int, by its text, the shapes (or numbers) of all compiles so far.
        varying: places whose size changed between compiles.
        fixed: places where the code forced one size: which line, and why.
        fixed_now: the same for the compile that is going on, because of the numbers that it met.
        apart: places that share no symbol, although their sizes were always equal.
        positions: where iterators that existed before were, by their text.
        moving: those that were elsewhere in another compile.
        news: what changed in the compile that is going on, for its report.
        churn: guards that keep failing.
        forced: places where the code forced a number, and how often another one came.
    """

    mode: bool | None = None
    history: dict[str, list[tuple[int | float, ...]]] = field(default_factory=dict)
    varying: set[Place] = field(default_factory=set)
    fixed: dict[Place, tuple[Location | None, str]] = field(default_factory=dict)
    apart: set[Place] = field(default_factory=set)
    fixed_now: set[Place] = field(default_factory=set)
    positions: dict[str, int] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)
    news: list[str] = field(default_factory=list)
    churn: Churn = field(default_factory=Churn)
    forced: dict[Place, int] = field(default_factory=dict)

    def note_forced(self, text: str) -> None:
        """A version is made for another shape of this tensor.

        Sizes that the code forces, and that change all the same, are left to Python in the end.
        """
        for place in [place for place in self.fixed if place[0] == text]:
            self.forced[place] = self.forced.get(place, 0) + 1
            if self.is_left_to_python(place):
                del self.fixed[place]

    def is_left_to_python(self, place: Place) -> bool:
        """True if code must not force a number on a size any more."""
        return self.churn.may_break and self.forced.get(place, 0) >= MOST_VERSIONS

    def is_varying(self, place: Place, size: int | float) -> bool:
        """True if the size differs from that of an earlier compile.

        The items of a list count as one tensor whose sizes are those of all of them.
        """
        text, dim = place
        past = self.history.get(text)
        if past and len(past[-1]) <= (dim or 0):
            past = None  # another rank, or no number: nothing is known
        if past and past[-1][dim or 0] != size and place not in self.varying:
            self._notice(place, past[-1][dim or 0], size)
        if place in self.varying:
            return True
        pattern = _INDEX.sub("[*]", text)
        return pattern != text and (pattern, dim) in self.varying

    def _notice(self, place: Place, old: int | float, new: int | float) -> None:
        text, dim = place
        self.varying.add(place)
        self.varying.add((_INDEX.sub("[*]", text), dim))
        shown = text if dim is None else f"{text}.shape[{dim}]"
        self.news.append(f"{shown}: {old} -> {new}; now dynamic")

    def is_moving(self, text: str, position: int) -> bool:
        """True for an iterator that is elsewhere in every call: no version serves two of them."""
        if self.positions.setdefault(text, position) != position:
            self.moving.add(text)
        return text in self.moving

    def sizes_so_far(self, place: Place) -> tuple[int | float, ...]:
        """The sizes of a place in all compiles so far."""
        text, dim = place
        index = dim or 0
        return tuple(seen[index] for seen in self.history.get(text, ()) if len(seen) > index)

    def remember(self, seen: Mapping[str, tuple[int | float, ...]]) -> None:
        """A compile is done: these were the shapes and numbers that it used."""
        for text, sizes in seen.items():
            self.history.setdefault(text, []).append(sizes)

    def start(self) -> None:
        """A compile begins."""
        self.news.clear()
        self.fixed_now.clear()

    def forget(self) -> None:
        """As if nothing had been compiled."""
        self.start()
        for known in (
            self.history, self.varying, self.fixed, self.apart, self.positions, self.moving,
            self.forced,
        ):  # fmt: skip
            known.clear()
        self.churn.forget()
