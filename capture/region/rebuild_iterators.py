"""Built-in iterators made again where they stood, at run time."""

import collections
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

#: Over letters of a string or over bytes: their classes depend on the whole.
TEXT_ITERATORS: Final = frozenset(type(iter(text)) for text in ("", "a", "\xe4", b""))


def sequence_iterator(items: Any, position: int, start: Callable[[Any], Any] = iter) -> Any:
    """An iterator over a sequence whose next item is the one at `position`.

    Args:
        start: makes the iterator.
    """
    iterator = start(items)
    iterator.__setstate__(position)
    return iterator


def range_iterator(start: int, stop: int) -> Any:
    """An iterator over what a range has left."""
    return iter(range(start, stop))


def table_iterator(table: Any, position: int, start: Callable[[Any], Any] = iter) -> Any:
    """An iterator over a dict, view or set that has given `position` items.

    Args:
        start: makes the iterator.
    """
    iterator = start(table)
    for _ in range(position):
        next(iterator)
    return iterator


def exhausted(cls: type) -> Any:
    """An iterator of a built-in class that has ended."""
    for make in _EMPTY_ITERATORS:
        made = make()
        kind = type(made)
        if kind is cls:
            collections.deque(made, maxlen=0)
            return made
    return iter(())


_EMPTY_ITERATORS: Final[tuple[Callable[[], Any], ...]] = (
    lambda: iter([]), lambda: iter(()), lambda: iter(""), lambda: iter("\xff"), lambda: iter(b""),
    lambda: iter(set()), lambda: iter({}), lambda: iter({}.values()), lambda: iter({}.items()),
    lambda: iter(range(0)), lambda: iter(range(1 << 99, 1 << 99)), lambda: reversed([]),
    lambda: reversed(()), lambda: reversed({}), lambda: reversed({}.values()),
    lambda: reversed({}.items()), lambda: iter(OrderedDict()), lambda: enumerate(()), zip,
    lambda: map(len, ()), lambda: filter(None, ()), lambda: iter(_Indexed()),
)  # fmt: skip


class _Indexed:
    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)
