"""Data on disk beside the compiled kernels: what is known of what was compiled before.

Contract: `write(key, data)` keeps what JSON can hold; `read(key)` gives it back, in this process or
another one, or None; `has(key)` says whether it was written. A file is written under another name
and renamed, and begins with the checksum of the rest: what is cut off, changed, of another kind or
not this user's alone (`codegen.compilers.cache_folder`) is not read, and is written again. Called
by `dynajit.driver.artefacts` and `dynajit.driver.early_compiler`.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from dynajit.codegen.compilers import cache_folder
from dynajit.codegen.compilers.cache_folder import write_atomically
from dynajit.codegen.compilers.toolchain import trim_at_times
from dynajit.core.process import config

FOLDER: Final = "graphs"
"""Where data is kept that names no folder of its own."""
SHARE: Final = 8
"""The files may take this part of the cache's size: they are texts, the kernels are the rest."""


def read(key: str, folder: str = FOLDER) -> Any | None:
    """What was written under a key, or None."""
    try:
        content = cache_folder.read(_path(key, folder))
    except OSError:
        return None
    digest, _, text = content.partition(b"\n")
    if digest != _digest(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # written by something else
        return None


def has(key: str, folder: str = FOLDER) -> bool:
    """Whether something was written under a key."""
    try:
        return cache_folder.is_there(_path(key, folder))
    except OSError:
        return False


def write(key: str, data: Any, folder: str = FOLDER) -> None:
    """Keep `data` under a key; whoever reads it meanwhile sees the old or the new."""
    text = json.dumps(data, separators=(",", ":")).encode()
    try:
        path = _path(key, folder)
        write_atomically(path, _digest(text) + b"\n" + text)
    except OSError:
        return  # a cache that cannot be written is no cache
    trim_at_times(path, config.current().cache_size_bytes // SHARE)


def _path(key: str, folder: str) -> Path:
    return cache_folder.folder_of(folder) / f"{key}.json"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
