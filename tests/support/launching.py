"""Programs on several ranks, started as a user starts them, for tests."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

import pytest

from dynajit.distributed.launching.runtimes import why_absent

MARK: Final = "DYNAJIT_TEST_MARK"
"""Variable that all processes of one start inherit."""

WHOLE_S: Final = 60.0
"""More than any start takes: what hangs is ended by then."""

REASON: Final = why_absent()
needs_mpi: Final = pytest.mark.skipif(REASON is not None, reason=f"no MPI: {REASON}")


class Start:
    """A launcher that runs. Mutable.

    Args:
        folder: gets the script, and is the working directory.
        text: the script.
        flags: of the launcher.
        arguments: of the script.
        module: which launcher; None: Python alone.
        program: what to start in place of the script.
    """

    def __init__(
        self, folder: Path, text: str, *flags: str, arguments: tuple[str, ...] = (),
        module: str | None = "dynajit.distributed.run", program: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        script = folder / "program.py"
        script.write_text(text)
        self.mark = uuid.uuid4().hex
        launcher = [] if module is None else ["-m", module]
        self.process = subprocess.Popen(
            [sys.executable, *launcher, *flags, *(program or (str(script),)), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, MARK: self.mark, "PYTHONWARNINGS": "error"},
        )

    def done(self) -> "subprocess.CompletedProcess[str]":
        """Wait for the end; whatever is left is killed, so that tests stay apart."""
        try:
            out, err = self.process.communicate(timeout=WHOLE_S)
        finally:
            self.process.kill()
        return subprocess.CompletedProcess([], self.process.returncode, out, err)

    def left(self) -> list[int]:
        """Processes that are still there a moment after the end; killed now."""
        end = time.monotonic() + 10
        while (found := processes_of(self.mark)) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return found

    def wait_for(self, *paths: Path) -> None:
        """Until files are there."""
        end = time.monotonic() + WHOLE_S
        while not all(path.exists() for path in paths):
            assert time.monotonic() < end and self.process.poll() is None, self.done()
            time.sleep(0.02)


def launched(
    folder: Path, text: str, *flags: str, arguments: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Start a script, wait for its end, and see that nothing is left."""
    start = Start(folder, text, *flags, arguments=arguments)
    done = start.done()
    assert [] == start.left()
    return done


def processes_of(mark: str) -> list[int]:
    """Ids of processes with a mark in their environment, zombies left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
