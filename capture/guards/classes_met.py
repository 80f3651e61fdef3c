"""The classes that a capture has met: it relies on what they do.

Which operators a class has, what its methods and descriptors are, how its instances are made: all
of that is looked up while capturing and guarded as a whole, once for each class. Data that a class
holds is guarded where it is read.

Filled by the recorder; nothing of a class runs.
"""

from collections.abc import Iterator
from typing import Any, Final

from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.values.plain_classes import bases_in_order, flags

_IMMUTABLE: Final = 1 << 8


def _is_mutable(cls: type) -> bool:
    return not flags(cls) & _IMMUTABLE


class ClassesMet:
    """A growing collection. It is not undone with the rest: a class too many costs little."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[int, type] = {}

    def add(self, cls: Any) -> None:
        """What `cls`, or an instance of it, does is relied on."""
        while id(cls) not in self._found and _is_mutable(cls):
            self._found[id(cls)] = cls
            cls = type(cls)

    def guards(self) -> Iterator[Guard]:
        """That none of them has changed; a class speaks for its bases."""
        bases = {id(base) for cls in self._found.values() for base in bases_in_order(cls)[1:]}
        for key, cls in self._found.items():
            if _is_mutable(type(cls)):
                yield Guard(sources.Constant(cls), Kind.TYPE_IS, type(cls), reason="metaclass")
            if key not in bases:
                yield Guard(sources.Constant(cls), Kind.CLASS_UNCHANGED, cls, reason="class")
