"""Temporary folders of this process, which are gone when it ends, however it ends.

Contract: `temporary_folder()` is a folder for a block; `lasting_folder(name)` is one for the
process. All lie in one folder of the process, which is made when it is first needed, is locked
while the process lives, and is removed when it ends. What a process leaves that was killed is found
by the next one that removes its own: nobody holds its lock any more. A forked child has a folder of
its own.
"""

import atexit
import itertools
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_PREFIX: Final = "dynajit-of-a-process-"
SURELY_LOCKED_S: Final = 60
"""A folder that is older is locked if its process lives: it locks it right after making it."""


class _Own:
    """The folder of this process. Mutable: made when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._path: Path | None = None
        self._held = -1
        self._numbers = itertools.count()

    def path(self) -> Path:
        """Where it is, now.

        Raises:
            OSError: it cannot be made.
        """
        with self._lock:
            if self._path is None or not self._path.is_dir():  # somebody may tidy up /tmp
                self._path = Path(tempfile.mkdtemp(prefix=_PREFIX))
                self._held = _locked(self._path)
            return self._path

    def new_name(self) -> Path:
        """A name in it that nothing has."""
        return self.path() / str(next(self._numbers))

    def remove(self) -> None:
        """At the end of the process."""
        path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):
                remove_left(path.parent)

    def forget(self) -> None:
        """In a forked child: the folder is the parent's, and so is whoever held our lock."""
        if self._held >= 0:
            with suppress(OSError):
                os.close(self._held)  # the lock is the parent's as well: it goes with the last
        self.__init__()  # type: ignore[misc]


# `tempfile` locks what it finds out at its first use, and a child that is forked meanwhile would
# wait for that lock for ever. Forks wait for the import of this module (`core.process.late`).
with suppress(OSError), tempfile.TemporaryDirectory(prefix=_PREFIX):
    pass

_own: Final = _Own()
atexit.register(_own.remove)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.forget)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder for a block.

    Raises:
        OSError: it cannot be made.
    """
    folder = _own.new_name()
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lasting_folder(name: str) -> Path:
    """A folder that stays until the process ends.

    Raises:
        OSError: it cannot be made.
    """
    folder = _own.path() / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _locked(folder: Path) -> int:
    """A file that holds the lock of a folder; -1 where there are none."""
    if sys.platform == "win32":
        return -1
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(OSError):  # not every file system has locks: then nothing is tidied up
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return held


def remove_left(within: Path) -> None:
    """Remove the folders of processes that have ended.

    Raises:
        OSError: `within` cannot be read.
    """
    if sys.platform == "win32":
        return
    with os.scandir(within) as found:
        names = [entry.path for entry in found if entry.name.startswith(_PREFIX)]
    for name in names:
        with suppress(OSError):
            _remove_if_left(name)


def _remove_if_left(name: str) -> None:
    """Remove one, if it is ours and nobody holds its lock.

    Raises:
        OSError: it is none of ours, or somebody does.
    """
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        is_ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
        if is_ours and status.st_mtime < time.time() - SURELY_LOCKED_S:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(name, ignore_errors=True)
    finally:
        os.close(folder)
