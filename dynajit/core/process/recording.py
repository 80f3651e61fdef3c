"""What work is to a profile: the kinds of events, and blocks that are recorded.

Contract: a block costs one call in C while nobody records. The recorder is `_recorder.c`; C modules
speak to it by `recorder.h`. Recording is begun by `dynajit.profiler`.
"""

import enum
from typing import Any, Final

from dynajit.core.process import _recorder


class Kind(enum.IntEnum):
    """What an event is; as in `recorder.h`."""

    ROW = 0
    PROGRAM = 1
    KERNEL = 2
    NODE = 3
    NAMED = 4
    COMPILE = 5

    @property
    def category(self) -> str:
        """As Chrome's traces name it."""
        return _CATEGORIES[self]


_CATEGORIES: Final = {
    Kind.ROW: "cpu_op",
    Kind.PROGRAM: "native_call",
    Kind.KERNEL: "kernel",
    Kind.NODE: "backward",
    Kind.NAMED: "user_annotation",
    Kind.COMPILE: "compile",
}


class recorded:
    """A block that is an event while somebody records. Mutable.

    Args:
        kind: what it is.
        what: its name, or an object with a `name`.
    """

    __slots__ = ("_kind", "_place", "_what")

    def __init__(self, kind: Kind, what: Any) -> None:
        self._kind = kind
        self._what = what
        self._place = -1

    def __enter__(self) -> None:
        self._place = _recorder.begin(self._kind, self._what)

    def __exit__(self, *exception: object) -> None:
        _recorder.end(self._place)
