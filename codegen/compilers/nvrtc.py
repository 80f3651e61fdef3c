"""The CUDA compiler as a library: NVRTC through ctypes.

Contract: `compile_source(source, architecture)` gives a cubin (for `sm_80`, `sm_90`, ...) or PTX
text (for `compute_80`, ...) and needs no GPU, driver or toolkit: only `libnvrtc`, from the wheel
`nvidia-cuda-nvrtc-cu12` (or -cu13) or from a system toolkit.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dynajit.core.errors import ToolchainError, UnsupportedError
from dynajit.core.records import record

OPTIONS: Final = (
    "--std=c++17",
    "--fmad=false",  # the same operations one after the other as in C and in eager mode
)
"""Options of every compilation; the architecture is added."""

MSG_MISSING: Final = (
    "CUDA kernels need NVRTC, and no libnvrtc is found.  Expected the package "
    "nvidia-cuda-nvrtc-cu12 or a CUDA toolkit whose libraries the loader finds.  Install it with: "
    "pip install nvidia-cuda-nvrtc-cu12"
)

_WHEEL_FOLDERS: Final = ("nvidia.cuda_nvrtc", "nvidia.cu13")


@record
class Library:
    """A loaded NVRTC.

    Args:
        path: of the shared object, or the name that the loader found.
        version: major and minor.
        handle: its functions.
    """

    path: str
    version: tuple[int, int]
    handle: ctypes.CDLL


def find() -> Library | None:
    """The installed NVRTC, or None. Wheels win over system libraries."""
    return _find()


@functools.lru_cache(maxsize=1)
def _find() -> Library | None:
    for path in _candidates():
        try:
            handle = ctypes.CDLL(path)
        except OSError:
            continue  # another candidate may load
        major, minor = ctypes.c_int(), ctypes.c_int()
        if handle.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
            return Library(path, (major.value, minor.value), handle)
    return None


def architectures() -> tuple[int, ...]:
    """The architectures that the installed NVRTC compiles for (90 for sm_90), lowest first; empty
    without NVRTC."""
    library = find()
    if library is None:
        return ()
    count = ctypes.c_int()
    _check(library.handle, library.handle.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(library.handle, library.handle.nvrtcGetSupportedArchs(numbers))
    return tuple(numbers)


def _candidates() -> Iterator[str]:
    for module in _WHEEL_FOLDERS:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found = Path(folder).glob("lib/libnvrtc.so.*")
            yield from sorted(map(str, found), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def compile_source(source: str, architecture: str, options: Sequence[str] = ()) -> bytes:
    """Compile CUDA C++ text.

    Args:
        source: a whole unit that includes nothing.
        architecture: `sm_<n>` for a cubin, `compute_<n>` for PTX text.
        options: further options of NVRTC.

    Returns:
        The cubin or the PTX text (with its final zero byte).

    Raises:
        UnsupportedError: NVRTC is not installed.
        ToolchainError: NVRTC refused the source; the message shows its log and the generated line.
    """
    library = find()
    if library is None:
        raise UnsupportedError(MSG_MISSING)
    handle = library.handle
    program = ctypes.c_void_p()
    _check(handle, handle.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"unit.cu", 0, None, None
    ))  # fmt: skip
    try:
        given = [f"--gpu-architecture={architecture}".encode()]
        given += [option.encode() for option in (*OPTIONS, *options)]
        result = handle.nvrtcCompileProgram(
            program, len(given), (ctypes.c_char_p * len(given))(*given)
        )
        if result != 0:
            log = _text(handle, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise ToolchainError(_explain(library, architecture, log, source))
        return _text(handle, program, "CUBIN" if architecture.startswith("sm_") else "PTX")
    finally:
        handle.nvrtcDestroyProgram(ctypes.byref(program))


def _text(handle: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(handle, getattr(handle, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(handle, getattr(handle, f"nvrtcGet{what}")(program, content))
    return content.raw


def _check(handle: ctypes.CDLL, result: int) -> None:
    if result != 0:
        handle.nvrtcGetErrorString.restype = ctypes.c_char_p
        reason = handle.nvrtcGetErrorString(result).decode()
        raise ToolchainError(f"NVRTC failed: {reason} (code {result})")


def _explain(library: Library, architecture: str, log: str, source: str) -> str:
    """The compiler's errors with the generated line of the first one."""
    version = ".".join(map(str, library.version))
    head = f"NVRTC {version} ({library.path}) refused generated code for {architecture}"
    match = re.search(r"unit\.cu\((\d+)\): error", log)
    lines = source.splitlines()
    if match is not None and int(match.group(1)) <= len(lines):
        number = int(match.group(1))
        head += f", line {number}:\n    {lines[number - 1].strip()}"
    told = _errors_of(log)
    return f"{head}\n{told}\nThis is an error of dynajit, unless the architecture is wrong."


def _errors_of(log: str) -> str:
    """The log without its warnings, of which every unit has hundreds; the whole log if nothing else
    is in it."""
    entries = log.strip().split("\n\n")
    return "\n\n".join(entry for entry in entries if ": warning #" not in entry) or log.strip()
