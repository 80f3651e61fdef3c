"""One run of the C compiler: a translation unit in, machine code out.

Contract: `compiled_unit` gives the code or raises. That is object files, which this process loads
by itself (`object_files.h`), or one shared object where it cannot. A unit that says so (`DJ_PARTS`
of `codegen.c.text`) is compiled in parts side by side, one process each, where there are processors
for it; what the code computes does not depend on that. `start_ahead` starts a compiler before its
text is known.
"""

import os
import re
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from dynajit.codegen._runtime import LOADS_OBJECTS, Library
from dynajit.codegen.compilers import openmp
from dynajit.codegen.compilers.temporary import temporary_folder
from dynajit.core.errors import CompilerTimeoutError, ToolchainError
from dynajit.core.process import background
from dynajit.core.process.processors import available_processors
from dynajit.core.records import record

THREADS_FLAG: Final = "-fopenmp"
NO_THREADS_FLAG: Final = "-fopenmp-simd"
LIBRARIES: Final = ("-lm",)
FEW_LIBRARIES: Final = ("-nostdlib", "-lgomp", "-lm", "-lgcc")
"""All that a unit needs of what GCC links, where all are linked: every process has the C library,
and generated code has no constructors. Linking takes 7 instead of 11 ms so."""

COMPILE_LIMIT_S: Final = 120
"""The largest units take seconds: a compiler that takes longer waits for something else."""
MOST_PROCESSES: Final = 4
"""Compilers that run at a time: each may need some hundred megabytes."""


class _Running:
    """Bounds the compilers that run. Mutable: a forked child waits for none of its parent's."""

    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(min(available_processors(), MOST_PROCESSES))


_running: Final = _Running()


@record
class Request:
    """What is asked of the compiler.

    Args:
        command: the compiler's path, and flags but those for threads and libraries.
        name: of the compiler, for messages, in which it is turned into text.
        source: text of the unit.
        is_plain: GCC without sanitizers, which `FEW_LIBRARIES` are enough for, and no shared object
            is asked for.
    """

    command: tuple[str, ...]
    name: object
    source: str
    is_plain: bool


@record
class Unit:
    """What a unit was compiled to.

    Args:
        contents: of its object files, or of one shared object.
        library: the object files, loaded; None for a shared object.
    """

    contents: tuple[bytes, ...]
    library: Library | None


@record
class Ahead:
    """A compiler that has started and waits for the text of a whole unit.

    Loading, its own tables and the driver take GCC 6 ms, in which the text can be made. It reads
    the text as a file that the main one includes, since it reads the main one before all that.

    Args:
        command: as in a `Request`.
        files: its folder, which ends with it.
        folder: where that is.
        process: reads the text from its standard input and makes an object file.
    """

    command: tuple[str, ...]
    files: ExitStack
    folder: Path
    process: "subprocess.Popen[bytes]"

    def is_for(self, command: tuple[str, ...], source: str) -> bool:
        """Whether it compiles a unit as it is asked: with the same flags, and whole."""
        return self.command == command and not _PARTS.search(source)

    def feed(self, source: str) -> None:
        """Give it the text, once; it waits where the text is longer than a pipe may hold."""
        pipe, self.process.stdin = self.process.stdin, None
        if pipe is None:
            return
        _waiting.discard(self.process)
        rest = memoryview(source.encode())
        os.set_blocking(pipe.fileno(), False)
        with pipe, suppress(BrokenPipeError):  # it has died: its exit status tells
            while rest:
                _, ready, _ = select.select((), (pipe,), (), COMPILE_LIMIT_S)
                if not ready:
                    raise _timeout(self.command)
                rest = rest[pipe.write(rest) or 0 :]

    def finish(self) -> Unit | None:
        """The code of the text; None if it cannot be compiled in this way.

        Raises:
            CompilerTimeoutError: the compiler takes longer than `COMPILE_LIMIT_S`.
        """
        with _running.places:
            try:
                self.process.communicate(timeout=COMPILE_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise _timeout(self.command) from None
        if self.process.returncode != 0:
            return None
        folder, way = self.folder, _Way(1, THREADS_FLAG, FEW_LIBRARIES)
        made = _joined(self.command, way, folder, [folder / _FILE])
        return made if isinstance(made, Unit) else None

    def dismiss(self) -> None:
        """Stop it and remove its files; each is dismissed in the end."""
        _waiting.discard(self.process)
        with self.process, suppress(ProcessLookupError):
            if self.process.poll() is None:
                _kill(self.process)
        self.files.close()


_waiting: Final[set["subprocess.Popen[bytes]"]] = set()


def _close_in_child() -> None:
    """The end of a text is where nobody can write more: a forked child must not be able to."""
    for process in _waiting:
        if process.stdin is not None:
            process.stdin.close()
    _waiting.clear()
    _running.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def start_ahead(command: tuple[str, ...]) -> Ahead | None:
    """A compiler for the next unit; None where it would not run beside this process.

    Args:
        command: of a plain `Request`.
    """
    if available_processors() == 1 or not os.path.exists(_INPUT):
        return None
    with ExitStack() as held:
        try:
            folder = held.enter_context(temporary_folder())
            main, file = folder / _TEXT, folder / _FILE
            main.write_text(f'#include "{_INPUT}"\n')
            process = subprocess.Popen(
                [*command, THREADS_FLAG, "-pipe", "-c", "-o", str(file), str(main)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                bufsize=0, pipesize=_PIPE_BYTES, process_group=0,
                env=_environment(folder),
            )  # fmt: skip
        except OSError:
            return None
        files = held.pop_all()
    _waiting.add(process)
    return Ahead(command, files, folder, process)


_INPUT: Final = "/dev/stdin"
_PIPE_BYTES: Final = 1 << 20
"""As much as Linux lets everybody ask for: longer texts are rare."""


@contextmanager
def compiled_unit(request: Request, ahead: Ahead | None = None) -> Iterator[Unit]:
    """The code of a unit, for a block after which the compiler's files are removed.

    Args:
        ahead: a compiler that waits for a text, or was fed with this one.

    Raises:
        ToolchainError: the compiler refused the source; the message shows the generated line.
        CompilerTimeoutError: it did not finish in time.
    """
    with ExitStack() as held:
        built = None
        if ahead is not None:
            held.callback(ahead.dismiss)
            if ahead.is_for(request.command, request.source):
                ahead.feed(request.source)
                built = ahead.finish()
        if built is None:
            built = _compiled(request, held.enter_context(temporary_folder()))
        yield built


def _compiled(request: Request, folder: Path) -> Unit:
    (folder / _TEXT).write_text(request.source, encoding="utf-8")
    complaint = ""
    for way in _ways(request):
        made = _compile(request, way, folder)
        if isinstance(made, Unit):
            return made
        complaint = complaint or made
        if _ERROR.search(made) and "omp" not in made:
            break
    raise ToolchainError(_explain(request, complaint))


_TEXT: Final = "unit.c"
_FILE: Final = "unit.o"
_OBJECT: Final = "unit.so"
_ERROR: Final = re.compile(r":(\d+):\d+: (?:fatal )?error: (.*)")
_PARTS: Final = re.compile(r"^#define DJ_PARTS (\d+)$", re.MULTILINE)


@record
class _Way:
    """How a unit is compiled: in how many parts, with which flags for threads and libraries."""

    parts: int
    threads: str
    libraries: tuple[str, ...]


def _ways(request: Request) -> Iterator[_Way]:
    """The fastest first; the last ones need least of the compiler."""
    if request.is_plain:
        found = _PARTS.search(request.source) if available_processors() > 1 else None
        yield _Way(int(found[1]) if found else 1, THREADS_FLAG, FEW_LIBRARIES)
    yield _Way(1, THREADS_FLAG, LIBRARIES)
    yield _Way(1, NO_THREADS_FLAG, LIBRARIES)


def _compile(request: Request, way: _Way, folder: Path) -> Unit | str:
    """The code, or what the compiler printed before it failed."""
    # The assembler starts beside the compiler and reads what it writes: 4 ms of 40.
    command = [*request.command, way.threads, "-pipe", "-c"]
    text, files = str(folder / _TEXT), [folder / f"{part}{_FILE}" for part in range(way.parts)]
    if way.parts == 1:
        refused = _run([*command, "-o", str(files[0]), text])
        return refused or _joined(request.command, way, folder, files)

    def compile_part(part: int) -> str | None:
        return _run([*command, f"-DDJ_PART={part}", "-o", str(files[part]), text])

    compiling = [background.start(compile_part, part) for part in range(way.parts)]
    futures.wait(compiling)
    complaints = [complaint for part in compiling if (complaint := part.result()) is not None]
    return complaints[0] if complaints else _joined(request.command, way, folder, files)


def _joined(command: Sequence[str], way: _Way, folder: Path, files: Sequence[Path]) -> Unit | str:
    """The code of object files, or what the compiler's driver printed before it failed."""
    libraries = way.libraries
    if LOADS_OBJECTS and libraries == FEW_LIBRARIES:
        contents = tuple(file.read_bytes() for file in files)
        openmp.load()
        with suppress(OSError):
            return Unit(contents, Library(contents))
        libraries = LIBRARIES  # they need more than usual
    target = folder / _OBJECT
    refused = _run([*command, way.threads, "-o", str(target), *map(str, files), *libraries])
    return Unit((target.read_bytes(),), None) if refused is None else refused


def _run(command: Sequence[str]) -> str | None:
    """None, or what the compiler printed before it failed, of whatever bytes.

    Args:
        command: has `-o` and a file, in whose folder the compiler may write.

    Raises:
        CompilerTimeoutError: it takes longer than `COMPILE_LIMIT_S`.
    """
    folder = Path(command[command.index("-o") + 1]).parent
    # A file: who waits for the end of a pipe waits for all that the driver has started.
    with _running.places, tempfile.TemporaryFile(dir=folder) as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=printed,
            env=_environment(folder), process_group=0,
        )  # fmt: skip
        try:
            if wait_or_kill(process, COMPILE_LIMIT_S) == 0:
                return None
        except subprocess.TimeoutExpired:
            raise _timeout(command) from None
        printed.seek(0)
        return printed.read(MOST_PRINTED).decode("utf-8", "replace")


MOST_PRINTED: Final = 1 << 20
"""Bytes of what a compiler printed that are read: the first error is what is shown."""


def wait_or_kill(process: "subprocess.Popen[bytes]", limit_s: float) -> int:
    """The exit status of a process in a group of its own, which is killed if it takes too long, or
    the user stops waiting.

    Raises:
        TimeoutExpired: it took longer.
    """
    try:
        return process.wait(limit_s)
    finally:
        if process.returncode is None:
            _kill(process)
            process.wait()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a compiler with all that its driver has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _timeout(command: Sequence[str]) -> CompilerTimeoutError:
    return CompilerTimeoutError(
        f"the C compiler {command[0]} did not finish in {COMPILE_LIMIT_S} s.  Try it in a "
        "terminal, or set DYNAJIT_CC to another one."
    )


def _environment(folder: Path) -> dict[str, str]:
    """The environment without what is preloaded into this process, such as a sanitizer; the
    compiler's own files lie in a folder that is removed if it is killed."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**kept, "TMPDIR": str(folder)}


def _explain(request: Request, complaint: str) -> str:
    """The compiler's first error with the generated line."""
    lines = request.source.splitlines()
    match = _ERROR.search(complaint)
    if match is None:
        return f"{request.name} failed on generated code:\n{complaint.strip()}"
    number = int(match[1])
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return (
        f"{request.name} refused generated code, line {number}: {match[2]}\n    {line}\n"
        "This is an error of dynajit; the whole source is written when DYNAJIT_DUMP is set."
    )
