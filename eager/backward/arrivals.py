"""Leaves whose gradients somebody awaits while backward goes on.

Contract: backward tells a watcher of a leaf as soon as its gradient is complete and in `.grad`,
after post-accumulate hooks; leaves that nobody waits for are done at the end. `WATCHERS` is the one
mutable place.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.records import record


@record(eq=False)
class Watcher:
    """Who awaits gradients of leaves.

    Args:
        arrived: called with each leaf, in the thread that runs backward.
        sizes: bytes of gradients from which it has something to do: for the first time, and for
            each further one. Nodes that compute many gradients give them in parts of this size.
    """

    arrived: Callable[[Any], None]
    sizes: tuple[int, int]


WATCHERS: Final[dict[int, tuple[Watcher, ...]]] = {}
"""Identity of a leaf -> who watches it. A watcher keeps its leaves alive, or forgets them first."""


def watch(leaves: list[Any], watcher: Watcher) -> None:
    """Tell a watcher of these leaves, after those who watch them already."""
    for leaf in leaves:
        WATCHERS[id(leaf)] = (*WATCHERS.get(id(leaf), ()), watcher)


def forget(keys: list[int], watcher: Watcher) -> None:
    """Tell it no more; `keys` are the identities of its leaves."""
    for key in keys:
        rest = tuple(other for other in WATCHERS.get(key, ()) if other is not watcher)
        if rest:
            WATCHERS[key] = rest
        else:
            WATCHERS.pop(key, None)
