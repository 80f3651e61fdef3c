"""Where the output of a rank goes: shown with a prefix, written to a file, or both.

Contract: `routes` decides from the settings; a `Pump` moves bytes. A rank whose output is shown as
it is has no pump: it writes where the launcher's pipe is.
"""

import os
from pathlib import Path
from typing import Final

from dynajit.core.records import record
from dynajit.distributed.launching.settings import STDERR, STDOUT, Settings

_NAMES: Final = {STDOUT: "stdout.log", STDERR: "stderr.log"}


@record
class Route:
    """Of one stream.

    Args:
        is_shown: on the launcher's output.
        prefix: in front of lines that are shown.
        file: gets everything, or None.
    """

    is_shown: bool
    prefix: str
    file: Path | None

    @property
    def is_plain(self) -> bool:
        """Whether the program may write by itself."""
        return self.is_shown and not self.prefix and self.file is None


def routes(settings: Settings | None, rank: int) -> dict[int, Route]:
    """Stream -> its route."""
    return {stream: _route(settings, rank, stream) for stream in (STDOUT, STDERR)}


def folder_of(settings: Settings, rank: int) -> Path | None:
    """Of a rank's files in this attempt."""
    if settings.log_folder is None:
        return None
    return Path(settings.log_folder) / f"attempt_{settings.attempt}" / str(rank)


def _route(settings: Settings | None, rank: int, stream: int) -> Route:
    if settings is None:
        return Route(True, "", None)
    redirected = bool(settings.redirects.get(str(rank), 0) & stream)
    teed = bool(settings.tee.get(str(rank), 0) & stream)
    folder = folder_of(settings, rank)
    is_shown = not redirected and (settings.shown is None or rank in settings.shown)
    file = folder / _NAMES[stream] if folder is not None and (redirected or teed) else None
    return Route(is_shown, f"[{rank}] " if settings.prefix else "", file)


class Pump:
    """Moves what a program writes. Mutable: keeps the beginning of a line.

    Args:
        stream: which one it is.
        source: where the program's bytes come out.
        shown: a file descriptor, or None.
        prefix: in front of lines that are shown.
        file: a file descriptor, or None.
    """

    def __init__(
        self, stream: int, source: int, shown: int | None, prefix: str, file: int | None
    ) -> None:
        self.stream = stream
        self.source = source
        self._shown = shown
        self._prefix = prefix.encode()
        self._file = file
        self._line = b""

    def fileno(self) -> int:
        """For selectors."""
        return self.source

    def move(self) -> bool:
        """Move what is there; False at the end.

        Lines are shown whole, so that those of two ranks do not mix. A carriage return ends one,
        too: progress bars write it.
        """
        data = os.read(self.source, 1 << 16)
        if self._file is not None:
            _write(self._file, data)
        if self._shown is not None:
            self._show(data)
        return bool(data)

    def note(self, text: str) -> None:
        """Write a text to the file alone."""
        if self._file is not None:
            _write(self._file, text.encode(errors="replace"))

    def _show(self, data: bytes) -> None:
        if not self._prefix:
            _write(self._shown, data)
            return
        lines = (self._line + data).replace(b"\r\n", b"\n").splitlines(keepends=True)
        is_open = bool(data) and bool(lines) and not lines[-1].endswith((b"\n", b"\r"))
        self._line = lines.pop() if is_open else b""
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            lines[-1] += b"\n"
        _write(self._shown, b"".join(self._prefix + line for line in lines))


def _write(target: int | None, data: bytes) -> None:
    """All of `data`; nobody may be there to read it any more."""
    while data and target is not None:
        try:
            data = data[os.write(target, data) :]
        except OSError:
            return
