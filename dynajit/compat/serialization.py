"""Checkpoints by PyTorch's path: `dynajit.serialization.add_safe_globals` and its kin.

What reads and writes is defined in `eager.files.serialization`; this module is where programs look
for it.
"""

import os
from collections.abc import Callable
from typing import IO, Any, Final, TypeAlias

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.device import Device
from dynajit.eager.files.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)

FILE_LIKE: TypeAlias = str | os.PathLike[str] | IO[bytes]
"""What checkpoints are written to and read from."""

MAP_LOCATION: TypeAlias = (
    Callable[[Any, str], Any] | Device | str | dict[str, str] | None
)  # fmt: skip
"""What `load` takes as `map_location`."""

DEFAULT_PROTOCOL: Final = 2
"""The version of pickle's format that checkpoints are written in."""


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage itself, for the location "cpu".

    Raises:
        UnsupportedError: another one; `load` reads where its `map_location` says.
    """
    if location != "cpu":
        raise UnsupportedError(
            f"default_restore_location(location={location!r}): storages are read on the CPU.  Give "
            "map_location to load."
        )
    return storage


def location_tag(storage: Any) -> str:
    """Where a storage lies, as checkpoints say it: "cpu"."""
    return "cpu"


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages itself: there is one name for each."""
    return storage_type


__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "MAP_LOCATION",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "location_tag",
    "normalize_storage_type",
    "safe_globals",
    "save",
]
