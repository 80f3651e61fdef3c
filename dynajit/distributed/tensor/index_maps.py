"""Which dims of operands a movement or a scatter carries over to its result, read off its row.

Contract: the row's own index map (`Movement.read`, `Scatter.write`) is run once on symbols. A dim
is carried where its symbol reaches an operand's dim unchanged, and nothing else is computed from
it: then parts of the operands give parts of the result. What is not sure is not carried.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ops.table.op_table import Kind, Op


@record
class Carried:
    """A dim of the loop of a movement or a scatter.

    Args:
        operands: per operand the dim of it that the loop's goes along; None: it has none.
        result: the dim of the result; None: it is summed up in a scatter.
    """

    operands: tuple[int | None, ...]
    result: int | None


class _Symbol:
    """The index along a dim of the loop."""

    def __init__(self, notes: "_Notes", dim: int) -> None:
        self.notes = notes
        self.dim = dim

    def _computed(self, *others: Any) -> "_Value":
        self.notes.mark(self, *others)
        return _Value(self.notes)

    def _or_itself(self, other: Any, neutral: int) -> Any:
        return self if type(other) is int and other == neutral else self._computed(other)

    def __add__(self, other: Any) -> Any:
        return self._or_itself(other, 0)

    def __mul__(self, other: Any) -> Any:
        return self._or_itself(other, 1)

    def __sub__(self, other: Any) -> Any:
        return self._or_itself(other, 0)

    def __floordiv__(self, other: Any) -> Any:
        return self._or_itself(other, 1)

    __radd__ = __add__
    __rmul__ = __mul__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._computed(), name)


def _marking(name: str) -> Callable[..., Any]:
    def operator(self: Any, *others: Any) -> Any:
        self.notes.mark(self, *others)
        return _Value(self.notes)

    operator.__name__ = name
    return operator


_OPERATORS: Final = (
    "__mod__", "__rmod__", "__rsub__", "__rfloordiv__", "__neg__", "__lt__", "__le__", "__gt__",
    "__ge__", "__truediv__", "__and__", "__or__", "__invert__", "__rtruediv__", "__pow__",
)  # fmt: skip


class _Value:
    """What was computed, or loaded: no symbol any more."""

    def __init__(self, notes: "_Notes") -> None:
        self.notes = notes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **named: self.notes.asked(*arguments, *named.values())


for _name in _OPERATORS:
    setattr(_Symbol, _name, _marking(_name))
for _name in (*_OPERATORS, "__add__", "__radd__", "__mul__", "__rmul__", "__sub__", "__floordiv__"):
    setattr(_Value, _name, _marking(_name))


class _Notes:
    """What a run of an index map showed. Mutable; it is the namespace `m` of the run, too."""

    def __init__(self, rank: int, operands: int) -> None:
        self.symbols = [_Symbol(self, dim) for dim in range(rank)]
        self.computed: set[int] = set()
        self.loads: list[dict[int, set[int | None]]] = [
            {dim: set() for dim in range(rank)} for _ in range(operands)
        ]

    def mark(self, *values: Any) -> None:
        """Something is computed from these."""
        for value in values:
            if type(value) is _Symbol:
                self.computed.add(value.dim)
            elif type(value) in (tuple, list):
                self.mark(*value)

    def asked(self, *values: Any) -> _Value:
        """A function of these is called."""
        self.mark(*values)
        return _Value(self)

    def load(self, operand: int, index: Sequence[Any]) -> _Value:
        """An element is read."""
        found: dict[int, int] = {}
        for place, at in enumerate(index):
            if type(at) is _Symbol:
                if at.dim in found:
                    self.computed.add(at.dim)
                found[at.dim] = place
        for dim, places in self.loads[operand].items():
            places.add(found.get(dim))
        return _Value(self)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self.asked(*arguments, *named.values())

    def operands_of(self, dim: int) -> tuple[int | None, ...] | None:
        """See `Carried`; None: the dim is not carried."""
        if dim in self.computed or any(len(load[dim]) > 1 for load in self.loads):
            return None
        return tuple(next(iter(load[dim]), None) for load in self.loads)


def carried(
    op: Op, types: Sequence[Any], attributes: Mapping[str, Any], out: TensorType
) -> tuple[Carried, ...]:
    """The dims that a movement or a scatter carries.

    Args:
        types: of the operands, as the row knows them.
        out: of the result.
    """
    return _carried(op, tuple(types), tuple(attributes.items()), out)


@functools.lru_cache(maxsize=4096)
def _carried(
    op: Op, types: tuple[Any, ...], attributes: tuple[tuple[str, Any], ...], out: TensorType
) -> tuple[Carried, ...]:
    named = dict(attributes)
    if op.kind is Kind.MOVEMENT:
        notes = _Notes(len(out.shape), len(types))
        op.rule.read(notes, notes.load, tuple(notes.symbols), types, **named)
        places: dict[int, int] = {dim: dim for dim in range(len(out.shape))}
    else:
        domain = tuple(op.rule.domain(types, **named))
        notes = _Notes(len(domain), len(types))
        target, _ = op.rule.write(notes, notes.load, tuple(notes.symbols), types, **named)
        places = {at.dim: place for place, at in enumerate(target) if type(at) is _Symbol}
    found = ((notes.operands_of(dim), places.get(dim)) for dim in range(len(notes.symbols)))
    return tuple(Carried(at, result) for at, result in found if at is not None)
