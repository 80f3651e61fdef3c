"""Data on disk beside the compiled kernels: what is known of graphs that were compiled before.

Contract: `write(key, data)` keeps what JSON can hold; `read(key)` gives it back, in this process or
another one, or None; `has(key)` says whether it was written. A file is written under another name and renamed, and begins with the
checksum of the rest: what is cut off, changed or of another kind is not read, and is written
again. Nothing is said where the folder cannot be written: the kernels are what the user is told
about. Called by `dynajit.artefacts` and `dynajit.early_compiler`.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from dynajit.codegen.toolchain import trim, write_atomically
from dynajit.core import config

FOLDER: Final = "graphs"
SHARE: Final = 8
"""The files may take this part of the cache's size: they are texts, the kernels are the rest."""

_WRITTEN_BETWEEN_TRIMS: Final = 16

_written: Final[list[str]] = []
"""Keys written since the folder was last trimmed: listing it for every file would cost more than
writing the file."""


def read(key: str) -> Any | None:
    """What was written under a key, or None."""
    try:
        content = _path(key).read_bytes()
    except OSError:
        return None
    digest, _, text = content.partition(b"\n")
    if digest != _digest(text):
        return None
    return json.loads(text)


def has(key: str) -> bool:
    """Whether something was written under a key."""
    return _path(key).exists()


def write(key: str, data: Any) -> None:
    """Keep `data` under a key; whoever reads it meanwhile sees the old or the new."""
    text = json.dumps(data, separators=(",", ":")).encode()
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _digest(text) + b"\n" + text)
    except OSError:
        return  # a cache that cannot be written is no cache
    _written.append(key)
    if len(_written) >= _WRITTEN_BETWEEN_TRIMS:
        _written.clear()
        trim(path.parent.glob("*.json"), config.current().cache_size_bytes // SHARE, keep=path)


def _path(key: str) -> Path:
    return config.current().cache_dir / FOLDER / f"{key}.json"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
