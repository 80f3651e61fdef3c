"""Facts about classes that are found out once, and forgotten when the class changes or ends.

A plain cache would keep every user's class alive, with the globals of its module, and would ask
metaclasses for hashes.
"""

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar

from dynajit.capture import _capture

Fact = TypeVar("Fact")


def remembered(fact: Callable[[type], Fact]) -> Callable[[type], Fact]:
    """`fact`, asked once for each class while the class lives and nothing in it changes."""
    known: dict[int, tuple[weakref.ref[type], int, Fact]] = {}
    remove = known.pop

    @functools.wraps(fact)
    def ask(kind: type) -> Fact:
        key = id(kind)
        tag = _capture.class_tag(kind)
        found = known.get(key)
        if found is not None and found[0]() is kind and found[1] == tag != 0:
            return found[2]
        answer = fact(kind)
        known[key] = weakref.ref(kind, lambda _: remove(key, None)), tag, answer
        return answer

    return ask
