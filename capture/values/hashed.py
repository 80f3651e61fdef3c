"""Dicts and sets of objects with a `__hash__` of their own, made again without calling it.

The executor has called `__hash__` and `__eq__` where the program does; the result is stored under
the hashes that were found then.
"""

from collections.abc import Iterable
from typing import Any

from dynajit.capture import _capture
from dynajit.capture.values.containers import UserKey

Hashes = tuple[int | None, ...]


def hashes_of(tokens: Iterable[Any]) -> Hashes | None:
    """The known hash for each key of a dict or set (None: Python asks the key), or None.

    Returns:
        None where no key has a `__hash__` of the user's.
    """
    found = tuple(token.number if isinstance(token, UserKey) else None for token in tokens)
    return found if any(number is not None for number in found) else None


def store(hashes: Hashes, container: Any, keys: tuple[Any, ...], items: tuple[Any, ...]) -> None:
    """Store keys that are not in a dict or set yet."""
    _capture.store_hashed(container, hashes, keys, items)


def dict_of(hashes: Hashes, keys: tuple[Any, ...], items: tuple[Any, ...]) -> dict[Any, Any]:
    """A new dict."""
    made: dict[Any, Any] = {}
    store(hashes, made, keys, items)
    return made


def set_of(hashes: Hashes, members: tuple[Any, ...]) -> set[Any]:
    """A new set."""
    made: set[Any] = set()
    store(hashes, made, members, ())
    return made
