"""The C compiler and the disk cache of compiled kernels.

Contract: `build(source)` gives the loaded code of a text, compiled at most once per machine,
compiler, flags and source text. Cache entries appear by atomic rename with a checksum beside them;
an entry that does not match its checksum, or that others can write, is compiled again. Folders are
those of `codegen.compilers.cache_folder`.
"""

import functools
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from dynajit.codegen import _runtime
from dynajit.codegen._runtime import Library
from dynajit.codegen.compilers import cache_folder, openmp
from dynajit.codegen.compilers.cache_folder import PARTIAL, folder_of, write_atomically
from dynajit.codegen.compilers.compilation import (
    THREADS_FLAG,
    Ahead,
    Request,
    Unit,
    compiled_unit,
    start_ahead,
    wait_or_kill,
)
from dynajit.core.errors import CompilerTimeoutError, ConfigurationWarning, ToolchainError
from dynajit.core.process import config, determinism
from dynajit.core.process.warning import warn
from dynajit.core.quoting import as_bytes
from dynajit.core.records import record

FLAGS: Final = (
    "-std=gnu11", "-O3", "-shared", "-fPIC",
    "-Werror=implicit-function-declaration",  # a missing helper is no function of the C library
    "-fwrapv",             # integers wrap, as in PyTorch
    "-fno-math-errno",     # sqrt and friends are instructions
    "-fno-trapping-math",  # a comparison may be computed for an element that is not chosen
    "-ffp-contract=off",   # the same bits as one operation after the other
)  # fmt: skip
GCC_FLAGS: Final = (
    "-fno-loop-unroll-and-jam",  # it would put two turns of a loop over lanes into one, and keep
                                 # their accumulators in memory: sums take twice as long
    "-fno-thread-jumps",         # two choices in a row would become three paths, and a vector takes
                                 # all of them: exp took 1.3 times as long, with twice the masks
)  # fmt: skip
"""Behind `FLAGS` for GCC. As a pragma of the unit they would cost it 8 ms."""
X86_FLAGS: Final = ("-mno-red-zone",)
"""Behind those on x86. GCC 12 puts arrays of functions that call nothing below the stack pointer,
and there it aligns them to 8 bytes where it stores 16 with an instruction that wants 16 (measured
with six sums of uint8 in int64 side by side: a crash)."""
WIDE_FLAGS: Final = ("-mprefer-vector-width=512", "-DDJ_WIDE")
"""Behind those on CPUs that lose no clock with vectors of 512 bits. GCC and Clang take 256 where
they are not told: the first CPUs that had 512 ran slower with them (measured on a later one: erf of
4 million floats in 1.7 instead of 3.8 ms, softmax in 2.4 instead of 2.9)."""
_WIDE_SETS: Final = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vbmi2"})
"""Instruction sets of those CPUs: Ice Lake, Zen 4 and later."""
SANITIZE_FLAGS: Final = (
    "-O1", "-g1", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)  # fmt: skip
"""Behind `FLAGS` with `Config.sanitize`. Integers wrap by contract, so overflow is no finding;
sizes and indices that overflow show as reads and writes outside of arrays."""
LINKED_FLAGS: Final = ("-g1",)
"""Behind `FLAGS` with `Config.link_kernels`: functions that are inlined have names, too."""
CANDIDATES: Final = ("gcc", "clang", "cc")
_NAME_OF_GCC: Final = re.compile(r"(^|-)gcc(-[\d.]+)?$")

VERSION_LIMIT_S: Final = 10
UNKNOWN_VERSION: Final = "unknown version"

MSG_MISSING: Final = (
    "the C compiler {command!r} (DYNAJIT_CC, CC or Config.compiler) is not found.  Expected the "
    "name of gcc, clang or a compatible compiler on PATH.  Install gcc, or unset the variable."
)
MSG_NOT_KEPT: Final = (
    "dynajit: a kernel cannot be written to the cache {folder} ({reason}); the next process will "
    "compile it again.  Make room there, or set DYNAJIT_CACHE_DIR to another folder."
)


@record
class Compiler:
    """A C compiler.

    Args:
        path: of the executable.
        state: size and time of change of that file: another version has others. To ask for the
            version itself takes 2 ms, a fifth of what a graph takes that is known on disk.
        read_version: gives the version; waits for the compiler to say it.
    """

    path: str
    state: str
    read_version: Callable[[], str]

    @property
    def version(self) -> str:
        """First line of `--version`."""
        return self.read_version()

    @property
    def is_gcc(self) -> bool:
        """Whether it is GCC, by whatever name it is called."""
        name = Path(self.path).resolve().name
        if sys.platform == "linux" and _NAME_OF_GCC.search(name):
            return True  # without a wait for what it says; elsewhere Clang has that name too
        names = f"{name} {self.version}".lower()
        return "gcc" in names and "clang" not in names

    def __str__(self) -> str:
        return f"{self.path} ({self.version})"


@record
class Built:
    """A compiled translation unit.

    Args:
        library: its code.
        from_cache: no compiler was run.
    """

    library: Library
    from_cache: bool


def find_compiler() -> Compiler | None:
    """The configured C compiler, else gcc, clang or cc on PATH; None if there is none.

    Raises:
        ToolchainError: the configured compiler does not exist.
    """
    return _find_compiler(config.current().compiler, os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=16)
def _find_compiler(command: str | None, search_path: str) -> Compiler | None:
    if command:
        found = shutil.which(command)
        if found is None:
            raise ToolchainError(MSG_MISSING.format(command=command))
        return _compiler(found)
    for candidate in CANDIDATES:
        found = shutil.which(candidate)
        if found is not None:
            return _compiler(found)
    return None


def _compiler(path: str) -> Compiler:
    status = os.stat(path)
    return Compiler(path, f"{status.st_size} {status.st_mtime_ns}", _version(path))


def _version(path: str) -> Callable[[], str]:
    @functools.cache
    def read() -> str:
        with tempfile.TemporaryFile() as printed:  # a pipe may be held open by others
            try:
                asked = subprocess.Popen(
                    [path, "--version"], stdin=subprocess.DEVNULL, stdout=printed,
                    stderr=subprocess.DEVNULL, process_group=0,
                )  # fmt: skip
                wait_or_kill(asked, VERSION_LIMIT_S)
            except (OSError, subprocess.TimeoutExpired):
                return UNKNOWN_VERSION
            printed.seek(0)
            lines = printed.read(4096).decode("utf-8", "replace").splitlines()
        return lines[0] if lines else UNKNOWN_VERSION

    return read


@functools.lru_cache(maxsize=1)
def cpu_identity() -> str:
    """Model and instruction sets of this CPU: code made with -march=native depends on them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    first = text.split("\n\n", 1)[0]
    telling = ("model name", "flags", "Features")
    kept = [line for line in first.splitlines() if line.startswith(telling)]
    return "\n".join(kept) or platform.machine()


@functools.lru_cache(maxsize=1)
def instruction_sets() -> frozenset[str]:
    """What this CPU says it has, as Linux writes it; empty where that is not known."""
    line = next((line for line in cpu_identity().splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


_CACHE: Final = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
_MOST_CACHE: Final = 32 << 20
_BYPASS_ON_INTEL: Final = 16 << 20


@functools.cache
def bypass_bytes() -> int:
    """The bytes that a kernel moves from which its results bypass the caches (see
    `codegen.c.bypass`).

    More than the last cache holds. Of a larger one than 32 MiB, or of unknown size, that much
    counts: the cores of a large server share it. Intel's are far from a core, and less is enough.
    """
    if "model name\t: Intel" in cpu_identity():
        return _BYPASS_ON_INTEL
    try:
        size = int(_CACHE.read_text().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        size = _MOST_CACHE
    return min(size, _MOST_CACHE)


# ---------------------------------------------------------------------------------------------
# building


def find_built(source: str) -> Built | None:
    """The code of a C translation unit if this process or the cache has it.

    Raises:
        ToolchainError: there is no compiler.
    """
    return _found(_entry_of(source, _required_compiler()))


def _required_compiler() -> Compiler:
    compiler = find_compiler()
    if compiler is None:
        raise ToolchainError(
            "no C compiler is found.  Expected gcc, clang or cc on PATH.  Install gcc, or set "
            "DYNAJIT_CC."
        )
    return compiler


def _entry_of(source: str, compiler: Compiler) -> Path:
    """The record of the cache entry, beside which the code lies, or will."""
    return folder_of("kernels") / f"{cache_key(source, compiler)}.json"


@contextmanager
def compiler_ahead() -> Iterator[None]:
    """Start the compiler for the first unit of the block that must be compiled, before it is known.

    What cannot be started, or is not needed in the end, changes nothing but the time. A block
    within another one, whose compiler still waits, has that.
    """
    if _ahead.get([]):
        yield
        return
    compiler = None
    with suppress(ToolchainError):  # whoever needs it will say so
        compiler = find_compiler()
    held = []
    if compiler is not None and not hangs(compiler) and _is_plain(compiler):
        started = start_ahead(_command(compiler))
        held += [] if started is None else [started]
    token = _ahead.set(held)
    try:
        yield
    finally:
        _ahead.reset(token)
        for ahead in held:
            ahead.dismiss()


_ahead: Final[ContextVar[list[Ahead]]] = ContextVar("dynajit_compiler_ahead")


def take_ahead(source: str) -> Ahead | None:
    """The compiler that waits in this block, at work on a unit; None if there is none for it."""
    held = _ahead.get([])
    if not held:
        return None
    ahead = held.pop()
    compiler = _required_compiler()
    if not ahead.is_for(_command(compiler), source):
        ahead.dismiss()
        return None
    try:
        ahead.feed(source)
    except CompilerTimeoutError:  # whoever waits for another one will say so
        ahead.dismiss()
        return None
    return ahead


def build(source: str) -> Built:
    """The code of a C translation unit.

    Raises:
        ToolchainError: there is no compiler, or it refused the source; the message shows the
            generated line.
    """
    (built,) = building(source)
    return built


def building(source: str, ahead: Ahead | None = None) -> Iterator[Built]:
    """The same once, and then what is left to be kept and tidied up.

    Args:
        ahead: a compiler that is at work on it.
    """
    compiler = _required_compiler()
    entry = _entry_of(source, compiler)
    found = _found(entry)
    if found is not None:
        if ahead is not None:
            ahead.dismiss()
        yield found
        return
    request = Request(_command(compiler), compiler, source, _is_plain(compiler))
    try:
        yield from _compiling(request, ahead, entry, compiler)
    except CompilerTimeoutError:
        _hanging.add((compiler.path, compiler.state))
        raise


_hanging: Final[set[tuple[str, str]]] = set()
"""Compilers that did not finish in time: they are not asked again."""


def hangs(compiler: Compiler) -> bool:
    """Whether a compiler did not finish in time in this process."""
    return (compiler.path, compiler.state) in _hanging


def _compiling(
    request: Request, ahead: Ahead | None, entry: Path, compiler: Compiler
) -> Iterator[Built]:
    with compiled_unit(request, ahead) as unit:
        library, code = unit.library, None
        if library is None:
            code = _keep(entry, unit, compiler)
            library = Library(code)
        _loaded[entry] = library
        yield Built(library, False)
        try:
            code = code or _keep(entry, unit, compiler)
        except OSError as error:
            reason = error.strerror or error
            warn(MSG_NOT_KEPT.format(folder=entry.parent, reason=reason), ConfigurationWarning)
            return
    trim_at_times(code, config.current().cache_size_bytes)


_loaded: Final[WeakValueDictionary[Path, Library]] = WeakValueDictionary()
"""What programs of this process hold, by entry: equal units have the same code, and one that was
compiled just now need not be in the cache yet."""


def _found(entry: Path) -> Built | None:
    """The code of an entry; None if there is none, or it does not match its record."""
    library = _loaded.get(entry)
    if library is None:
        openmp.load()
        try:
            library = _read(entry)
        except (OSError, ValueError, LookupError, TypeError):
            return None
        _loaded[entry] = library
    return Built(library, True)


def _read(entry: Path) -> Library:
    """The code of an entry.

    Raises:
        OSError, ValueError, LookupError, TypeError: it is not there, damaged, or something else.
    """
    record = json.loads(cache_folder.read(entry))
    if not isinstance(record, dict):
        raise TypeError("the record is something else")
    sizes = record.get("objects")
    code = _code_of(entry, is_shared=sizes is None)
    content = cache_folder.read(code)
    if record["sha256"] != hashlib.sha256(content).hexdigest():
        raise ValueError("the file is not the one of the record")
    if sizes is None:
        return Library(code)
    if sum(sizes) != len(content):
        raise ValueError("the object files are not those of the record")
    ends = [*itertools.accumulate(sizes)]
    return Library(tuple(content[end - size : end] for end, size in zip(ends, sizes, strict=True)))


def _keep(entry: Path, unit: Unit, compiler: Compiler) -> Path:
    """Write the entry of a unit; the file with its code."""
    content = b"".join(unit.contents)
    record = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content),
              "compiler": compiler.path}  # fmt: skip
    is_shared = unit.library is None
    if not is_shared:
        record["objects"] = [*map(len, unit.contents)]
    code = _code_of(entry, is_shared)
    write_atomically(code, content)
    write_atomically(entry, json.dumps(record).encode())
    _code_of(entry, not is_shared).unlink(
        missing_ok=True
    )  # when it is trimmed the record goes, too
    return code


def _code_of(entry: Path, is_shared: bool) -> Path:
    """The file with the code of an entry: object files one after the other, or a shared object."""
    return entry.with_suffix(_SHARED if is_shared else _OBJECTS)


_OBJECTS: Final = ".o"
_SHARED: Final = ".so"
_CODE: Final = (_OBJECTS, _SHARED)


def flags(compiler: Compiler) -> tuple[str, ...]:
    """Flags under the current configuration, but for those for threads and libraries."""
    asked = config.current()
    own: tuple[str, ...] = GCC_FLAGS if compiler.is_gcc else ()
    if platform.machine().lower() in ("x86_64", "amd64"):
        own += X86_FLAGS
    if asked.cpu == "native" and instruction_sets() >= _WIDE_SETS:
        own += WIDE_FLAGS
    if not asked.sanitize:  # its stores are not looked at
        own += (f"-DDJ_BYPASS_BYTES={bypass_bytes()}",)
    own += (SANITIZE_FLAGS if asked.sanitize else ()) + (LINKED_FLAGS if asked.link_kernels else ())
    return (*FLAGS, f"-march={asked.cpu}", *own)


def _command(compiler: Compiler) -> tuple[str, ...]:
    return (compiler.path, *flags(compiler))


def _is_plain(compiler: Compiler) -> bool:
    asked = config.current()
    return compiler.is_gcc and not asked.sanitize and not asked.link_kernels


def cache_key(source: str, compiler: Compiler) -> str:
    """Name of the cache entry: everything on which the object depends."""
    asked = (*flags(compiler), THREADS_FLAG)
    parts = (source, *asked, compiler.path, compiler.state, cpu_identity())
    return hashlib.sha256(as_bytes("\0".join(parts))).hexdigest()[:40]


# ---------------------------------------------------------------------------------------------
# the cache folder


_TRIMMED_AFTER: Final = "0"
"""What the name of a new file begins with after which its folder is trimmed: names are checksums,
and that is one in 16. Folders of many thousand files take longer to list than kernels to compile.
"""


def trim_at_times(new: Path, limit_bytes: int) -> None:
    """Delete the oldest files beside a new one of its kind until the rest fits the limit.

    That is done after one in 16 new files only, by whatever processes write them.

    Args:
        new: code, or a file of data.
    """
    if new.name.startswith(_TRIMMED_AFTER):
        trim(new, limit_bytes)


_LONGEST_WRITING_S: Final = 3600


def _remove_if_left(entry: "os.DirEntry[str]") -> None:
    """Remove a file that a process was writing when it died."""
    if entry.stat(follow_symlinks=False).st_mtime < time.time() - _LONGEST_WRITING_S:
        os.unlink(entry.path)


def trim(new: Path, limit_bytes: int) -> None:
    """The same at once; with code goes its record."""
    entries = []
    kind = _CODE if new.suffix in _CODE else (new.suffix,)
    with suppress(OSError), os.scandir(new.parent) as found:
        for entry in found:
            with suppress(OSError):  # another process may have removed it
                if entry.name.endswith(kind):
                    status = entry.stat(follow_symlinks=False)
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.startswith(PARTIAL):
                    _remove_if_left(entry)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit_bytes:
            return
        if path != str(new):
            Path(path).unlink(missing_ok=True)
            Path(path).with_suffix(".json").unlink(missing_ok=True)
            total -= size


# ---------------------------------------------------------------------------------------------
# threads


def team_size() -> int:
    """Team of a program: 0, what the process is set to, unless an `override` in force here differs.

    Programs without a team of their own follow `set_num_threads`.
    """
    overridden = config.CURRENT.get()
    if overridden is None or overridden.num_threads == config.default().num_threads:
        return 0
    return overridden.thread_count


config.on_default(lambda default: _runtime.set_team_size(default.thread_count))
determinism.on_change(_runtime.set_direct)
