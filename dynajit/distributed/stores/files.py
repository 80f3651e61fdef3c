"""Keys in a file that processes of one machine, or of one file system with locks, share.

Contract: the file is a sequence of records, each a key with its new value or its end, to which is
only added, under a lock of the whole file. What was read before is not read again.
"""

import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from dynajit.core.errors import DistStoreError
from dynajit.distributed.stores.keepers import HeldKeeper

#: Lengths of key and value; a value's length of -1 ends the key.
_HEAD: Final = struct.Struct("<qq")

#: Seconds between looks at a file that somebody else is to write.
_INTERVAL: Final = 0.01


class FileKeeper(HeldKeeper):
    """Keys in a file. Mutable: it knows what it has read.

    Args:
        path: of the file, which is made if there is none.

    Raises:
        DistStoreError: the file cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._values = {}
        self._read_bytes = 0
        self._lock = threading.Lock()
        with self._locked():
            pass

    def delete(self, key: str) -> bool:
        """As of `Keeper`."""
        with self._locked() as file:
            if key not in self._values:
                return False
            self._record(file, key, None)
            return True

    def await_keys(self, keys: Sequence[str], limit: float) -> bool:
        """As of `Keeper`."""
        end = time.monotonic() + limit
        while not self.has(keys):
            if time.monotonic() > end:
                return False
            time.sleep(_INTERVAL)
        return True

    def _held(self) -> AbstractContextManager[int]:
        return self._locked()

    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        with self._locked() as file:
            value = change(self._values.get(key))
            if value is not None:
                self._record(file, key, value)
            return value

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, by its descriptor, with all that it holds read; nobody else has it."""
        with self._lock:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise DistStoreError(
                    f"FileStore({self._path!r}): the file cannot be opened ({error.strerror}).  "
                    "Expected a path in a folder that all processes can write."
                ) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._catch_up(file)
                yield file
            finally:
                os.close(file)

    def _catch_up(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size < self._read_bytes:  # the file was made anew
            self._values, self._read_bytes = {}, 0
        new = os.pread(file, size - self._read_bytes, self._read_bytes)
        place = 0
        while place < len(new):
            key_size, value_size = _HEAD.unpack_from(new, place)
            place += _HEAD.size
            key = new[place : place + key_size].decode()
            place += key_size
            if value_size < 0:
                self._values.pop(key, None)
                continue
            self._values[key] = new[place : place + value_size]
            place += value_size
        self._read_bytes = size

    def _record(self, file: int, key: str, value: bytes | None) -> None:
        name = key.encode()
        head = _HEAD.pack(len(name), -1 if value is None else len(value))
        record = head + name + (value or b"")
        os.pwrite(file, record, self._read_bytes)
        self._read_bytes += len(record)
        if value is None:
            del self._values[key]
        else:
            self._values[key] = value
