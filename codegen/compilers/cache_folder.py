"""The folder of the cache, and files in it: ours alone, or not used.

Code of the cache runs in this process, so whoever can write there can run what they like as this
user. Contract: `folder_of(name)` is a folder of the cache in which nobody but this user and root
can write; where the configured one is another, or cannot be written, it is one of the process's
own, with one warning. `read` gives the bytes of a regular file that belongs to this user or root
and that nobody else can write; it follows no link and waits for nobody (a pipe, a device).
`write_atomically` puts a file there as a whole. Everything that is kept on disk goes through here.
"""

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from dynajit.codegen.compilers.temporary import lasting_folder
from dynajit.core.errors import ConfigurationWarning
from dynajit.core.process import config
from dynajit.core.process.warning import warn
from dynajit.core.records import record

MOST_BYTES: Final = 1 << 30
"""Of a file: a larger one is no work of ours, and is not read."""

MSG_UNWRITABLE: Final = (
    "dynajit: the kernel cache {folder} cannot be written ({reason}); kernels of this process are "
    "kept in {temporary}.  Set DYNAJIT_CACHE_DIR to a folder that can be written."
)
MSG_UNSAFE: Final = (
    "dynajit: the kernel cache {folder} is not used, since others could put code there: {reason}.  "
    "Kernels of this process are kept in {temporary}.  Take the others' rights away (chmod go-w), "
    "or set DYNAJIT_CACHE_DIR to a folder of your own."
)
MSG_UNSAFE_FILE: Final = (
    "dynajit: {path} of the kernel cache is not used, since it is not this user's alone: {reason}."
    "  It is made again; remove it if it comes back."
)

_HAS_OWNERS: Final = hasattr(os, "geteuid")
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


class UnsafeFileError(OSError):
    """A file or folder of the cache is not ours alone."""


# ---------------------------------------------------------------------------------------------
# who may write


def _is_ours(status: os.stat_result) -> bool:
    return not _HAS_OWNERS or status.st_uid in (os.geteuid(), 0)


def _why_not_ours_alone(status: os.stat_result) -> str | None:
    """Why others may change a file or what a folder holds."""
    if not _HAS_OWNERS:
        return None
    if not _is_ours(status):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_MAY_WRITE:
        return f"others may write there (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def why_not_safe(folder: Path) -> str | None:
    """Why others can change what lies in a folder, or put another one in its place.

    Folders on the way may belong to others, as the home of a user for whom root works: what they
    put here is theirs. They may not be open to everybody, but for those like /tmp, where nobody
    takes away what others made. Links on the way are ours or root's.

    Raises:
        OSError: it does not exist.
    """
    if not _HAS_OWNERS:
        return None
    for path in _way_to(folder):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not _is_ours(status):
                return f"the link {path} belongs to user {status.st_uid}"
        elif not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(20, os.strerror(20), str(path))
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"everybody may write in {path}"
    return _why_not_ours_alone(folder.stat())


def _way_to(folder: Path) -> Iterator[Path]:
    """Every folder and link from the root to a folder, links followed."""
    waiting = [*reversed(Path(os.path.abspath(folder)).parts)]
    here = Path(waiting.pop())
    yield here
    for _ in range(1000):  # links may go round
        if not waiting:
            return
        part = waiting.pop()
        if part == "..":
            here = here.parent
            continue
        here = here / part
        yield here
        if here.is_symlink():
            target = Path(os.readlink(here))
            here = Path(target.anchor) if target.is_absolute() else here.parent
            waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    raise OSError(40, os.strerror(40), str(folder))


# ---------------------------------------------------------------------------------------------
# folders


@record
class _Known:
    """A folder that was looked at: where it is, and what `stat` said of it."""

    path: Path
    state: tuple[int, ...]


def _state(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_mode, status.st_uid


class _Folders:
    """What is known of folders of caches. Mutable; one for the process.

    Args:
        known: (cache, name) -> the folder that is used.
        refused: caches that are not used: the user was told.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: dict[tuple[Path, str], _Known] = {}
        self.refused: set[Path] = set()
        self.told_of_file = False

    def start_again(self) -> None:
        """In a forked child: what is the process's own is the parent's, and so is the lock."""
        self.lock = threading.RLock()
        self.known.clear()


_folders: Final = _Folders()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_folders.start_again)


def folder_of(name: str) -> Path:
    """The folder of the cache with a name, ready to be read and written.

    Raises:
        OSError: neither it nor a temporary one can be made.
    """
    cache = config.current().cache_dir
    key = cache, name
    with _folders.lock:
        known = _folders.known.get(key)
        if known is not None:
            with suppress(OSError):
                if _state(known.path) == known.state:
                    return known.path
        path = _made(cache, name)
        _folders.known[key] = _Known(path, _state(path))
        return path


def _made(cache: Path, name: str) -> Path:
    if cache not in _folders.refused:
        try:
            reason = _try(cache, name)
            message = MSG_UNSAFE
        except OSError as error:
            reason, message = str(error.strerror or error), MSG_UNWRITABLE
        if reason is None:
            return cache / name
        _folders.refused.add(cache)
        text = message.format(folder=cache, reason=reason, temporary=lasting_folder("cache"))
        warn(text, ConfigurationWarning)
    folder = lasting_folder("cache") / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _try(cache: Path, name: str) -> str | None:
    """Make a folder of the cache; why it is not safe.

    Raises:
        OSError: it cannot be made, or written.
    """
    folder = cache / name
    for made in (*reversed(cache.absolute().parents), cache, folder):
        if not made.is_dir():
            made.mkdir(mode=0o700, exist_ok=True)
    reason = why_not_safe(cache) or why_not_safe(folder)
    if reason is None and not any(known == cache for known, _ in _folders.known):
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe-"):
            pass
    return reason


# ---------------------------------------------------------------------------------------------
# files


def read(path: Path) -> bytes:
    """The bytes of a file of the cache.

    Raises:
        OSError: there is none, or it is not to be trusted; of the latter the user is told once.
    """
    try:
        file = os.open(path, _READ)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _untrusted(path, error.strerror or str(error)) from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _untrusted(path, "it is no regular file")
        reason = _why_not_ours_alone(status)
        if reason is not None:
            raise _untrusted(path, reason)
        if status.st_size > MOST_BYTES:
            raise _untrusted(path, f"it has {status.st_size} bytes")
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(status.st_size)
    finally:
        os.close(file)


def _untrusted(path: Path, reason: str) -> OSError:
    if not _folders.told_of_file:
        _folders.told_of_file = True
        warn(MSG_UNSAFE_FILE.format(path=path, reason=reason), ConfigurationWarning)
    return UnsafeFileError(f"{path}: {reason}")


def is_there(path: Path) -> bool:
    """Whether there is a regular file."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file of the cache: readers see all of it or none.

    Raises:
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


PARTIAL: Final = ".partial-"
"""What the names of files begin with that are being written."""
