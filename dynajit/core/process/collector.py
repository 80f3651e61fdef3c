"""The garbage collector, held back while much is made that stays.

Contract: `paused()` and `seldom()` leave the collector as it was, also after an error.
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SELDOM: Final = 100_000
"""New objects between two collections of the youngest: 10 to 20 MB. Python's own number is 700, and
2000 from 3.13 on."""

KEPT_BY_PYTHON: Final = 1000
"""Objects that may be kept from the collector before a program does that: CPython 3.12 keeps some
375 immortal ones of its own, other versions none."""


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection within the block, and none that goes over what it made: that counts
    as old afterwards, unless the program keeps objects from the collector itself (`gc.freeze`)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() <= KEPT_BY_PYTHON:
                # All objects become old so, without a look at any; there is no other way.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Seldom:
    """How many threads are in a block of `seldom`, and the thresholds before. Mutable."""

    lock = threading.RLock()  # a handler of signals may come here within
    blocks = 0
    before: tuple[int, int, int] = (0, 0, 0)


def _begin_child() -> None:
    """In a forked child no other thread is in a block, and nobody would release the lock."""
    _Seldom.lock = threading.RLock()
    if _Seldom.blocks:
        _Seldom.blocks = 0
        if gc.get_threshold()[0] == SELDOM:
            gc.set_threshold(*_Seldom.before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


@contextmanager
def seldom() -> Iterator[None]:
    """Fewer collections, in all threads, until the last of the blocks that overlap ends.

    A program that has set thresholds of its own above `SELDOM`, or 0 for never, keeps them.
    """
    with _Seldom.lock:
        if not _Seldom.blocks:
            _Seldom.before = gc.get_threshold()
            if 0 < _Seldom.before[0] < SELDOM:
                gc.set_threshold(SELDOM, *_Seldom.before[1:])
        _Seldom.blocks += 1
    try:
        yield
    finally:
        with _Seldom.lock:
            _Seldom.blocks = max(_Seldom.blocks - 1, 0)
            if not _Seldom.blocks and gc.get_threshold()[0] == SELDOM:
                gc.set_threshold(*_Seldom.before)
