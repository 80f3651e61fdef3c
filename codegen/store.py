"""Data on disk beside the compiled kernels: what is known of what was compiled before.

Contract: `write(key, data)` keeps what JSON can hold; `read(key)` gives it back, in this process or
another one, or None; `has(key)` says whether it was written. A file is written under another name
and renamed, and begins with the checksum of the rest: what is cut off, changed or of another kind
is not read, and is written again. Nothing is said where the folder cannot be written: the kernels
are what the user is told about. Called by `dynajit.artefacts` and `dynajit.early_compiler`.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from dynajit.codegen.toolchain import trim_at_times, write_atomically
from dynajit.core import config

FOLDER: Final = "graphs"
"""Where data is kept that names no folder of its own."""
SHARE: Final = 8
"""The files may take this part of the cache's size: they are texts, the kernels are the rest."""


def read(key: str, folder: str = FOLDER) -> Any | None:
    """What was written under a key, or None."""
    try:
        content = _path(key, folder).read_bytes()
    except OSError:
        return None
    digest, _, text = content.partition(b"\n")
    if digest != _digest(text):
        return None
    return json.loads(text)


def has(key: str, folder: str = FOLDER) -> bool:
    """Whether something was written under a key."""
    return _path(key, folder).exists()


def write(key: str, data: Any, folder: str = FOLDER) -> None:
    """Keep `data` under a key; whoever reads it meanwhile sees the old or the new."""
    text = json.dumps(data, separators=(",", ":")).encode()
    path = _path(key, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _digest(text) + b"\n" + text)
    except OSError:
        return  # a cache that cannot be written is no cache
    trim_at_times(path, config.current().cache_size_bytes // SHARE)


def _path(key: str, folder: str) -> Path:
    return config.current().cache_dir / folder / f"{key}.json"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
