"""What lies in the folder of the cache, for people: listed, counted, removed.

Contract: only files that the library writes are seen: of a name that it gives, in a folder of its
own, regular, and no link. So `clear` of a folder that is something else removes nothing. A file
that another process removes meanwhile is no error.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dynajit.core.records import record

FOLDERS: Final = {
    "kernels": "C compiled for the CPU",
    "cubins": "CUDA compiled for GPUs",
    "graphs": "what was made of captured graphs",
    "functions": "notes of what was compiled before",
}
"""Folders of the cache -> what they hold."""

_NAME: Final = re.compile(r"[0-9a-f]{16,64}\.(json|o|so|bin)|\.(partial|probe)-\w+")


@record
class Entry:
    """A file of the cache.

    Args:
        folder: one of `FOLDERS`.
        path: of the file.
        size_bytes: of its contents.
        modified_s: when it was last written or used, in seconds since the epoch.
    """

    folder: str
    path: Path
    size_bytes: int
    modified_s: float


@record
class Cleared:
    """What `clear` did.

    Args:
        count, size_bytes: files that were removed.
        refused: a sentence per file that could not be.
    """

    count: int
    size_bytes: int
    refused: tuple[str, ...]


def entries(cache: Path) -> tuple[Entry, ...]:
    """The files of a cache, the newest first; none where there is no such folder."""
    found = [entry for folder in FOLDERS for entry in _files(cache, folder)]
    return tuple(sorted(found, key=lambda entry: -entry.modified_s))


def _files(cache: Path, folder: str) -> Iterator[Entry]:
    place = cache / folder
    if place.is_symlink():
        return
    try:
        listed = [*os.scandir(place)]
    except OSError:  # not there, not ours to read, no folder
        return
    for file in listed:
        if not _NAME.fullmatch(file.name):
            continue
        try:
            status = file.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield Entry(folder, place / file.name, status.st_size, status.st_mtime)


def clear(cache: Path) -> Cleared:
    """Remove the files of a cache; folders stay."""
    count = size_bytes = 0
    refused = []
    for entry in entries(cache):
        try:
            entry.path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append(f"{entry.path}: {error.strerror or error}")
            continue
        count += 1
        size_bytes += entry.size_bytes
    return Cleared(count, size_bytes, tuple(refused))
