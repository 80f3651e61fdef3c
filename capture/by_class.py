"""Facts about classes that are found out once and forgotten with the class.

A plain cache would keep every user's class alive, with the globals of its module, and would ask
metaclasses for hashes. Used by `capture.recording`.
"""

import functools
import weakref
from collections.abc import Callable


def remembered(fact: Callable[[type], bool]) -> Callable[[type], bool]:
    """`fact`, asked once for each class while the class lives."""
    known: dict[int, tuple[weakref.ref[type], bool]] = {}
    remove = known.pop

    @functools.wraps(fact)
    def ask(kind: type) -> bool:
        key = id(kind)
        found = known.get(key)
        if found is not None and found[0]() is kind:
            return found[1]
        answer = fact(kind)
        known[key] = weakref.ref(kind, lambda _: remove(key, None)), answer
        return answer

    return ask
