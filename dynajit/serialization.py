"""Checkpoints by PyTorch's path: `dynajit.serialization.add_safe_globals` and its kin.

What reads and writes is defined in `eager.serialization`; this module is where programs look for
it.
"""

from typing import Any

from dynajit.eager.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)


def location_tag(storage: Any) -> str:
    """Where a storage lies, as checkpoints say it: "cpu"."""
    return "cpu"


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages itself: there is one name for each."""
    return storage_type


__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "location_tag",
    "normalize_storage_type",
    "safe_globals",
    "save",
]
