"""Compiled kernels for a GPU, and where they are kept on disk.

Contract: `build(source, architecture)` gives what the driver loads, compiled by NVRTC at most once
per machine, architecture, NVRTC, options and source text; `find` gives it if it is there. Files
begin with the checksum of the rest: a damaged one, or one that others can write, is compiled again
(`codegen.compilers.cache_folder`). A folder that cannot be written changes nothing but the time.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from dynajit.codegen.compilers import cache_folder, nvrtc
from dynajit.codegen.compilers.cache_folder import write_atomically
from dynajit.codegen.compilers.toolchain import trim_at_times
from dynajit.codegen.cuda.units import registers as cuda_registers
from dynajit.codegen.device import driver as device_driver
from dynajit.core.errors import UnsupportedError
from dynajit.core.process import config
from dynajit.core.quoting import as_bytes
from dynajit.core.records import record

FOLDER: Final = "cubins"


@record
class Image:
    """Kernels as the driver loads them.

    Args:
        content: a cubin, or PTX text for a GPU that NVRTC does not know.
        from_cache: no compiler was run.
    """

    content: bytes
    from_cache: bool


def architecture_of(device: int) -> str:
    """What NVRTC compiles for a GPU: its own architecture, or, if the GPU is newer than NVRTC, PTX
    of the newest that it knows, which the driver compiles further."""
    major, minor = device_driver.capability(device)
    own = 10 * major + minor
    known = nvrtc.architectures()
    if not known or own in known:
        return f"sm_{own}"
    older = [number for number in known if number < own]
    return f"compute_{max(older)}" if older else f"sm_{own}"


def find(source: str, architecture: str) -> Image | None:
    """Kernels that were compiled before, or None."""
    try:
        written = cache_folder.read(_path(source, architecture))
    except OSError:
        return None
    digest, _, content = written.partition(b"\n")
    return Image(content, True) if digest == _digest(content) else None


def build(source: str, architecture: str) -> Image:
    """The kernels of a unit.

    Args:
        source: CUDA C++ that includes nothing.
        architecture: as `architecture_of` gives it.

    Raises:
        UnsupportedError: NVRTC is not installed.
        ToolchainError: NVRTC refused the source.
    """
    found = find(source, architecture)
    if found is not None:
        return found
    content = cuda_registers.compile_source(source, architecture)
    try:
        path = _path(source, architecture)
        write_atomically(path, _digest(content) + b"\n" + content)
        trim_at_times(path, config.current().cache_size_bytes)
    except OSError:
        pass  # a cache that cannot be written is no cache
    return Image(content, False)


def discard(source: str, architecture: str) -> None:
    """Remove kernels that the driver does not load."""
    with suppress(OSError):
        _path(source, architecture).unlink(missing_ok=True)


def _path(source: str, architecture: str) -> Path:
    library = nvrtc.find()
    if library is None:
        raise UnsupportedError(nvrtc.MSG_MISSING)
    version = ".".join(map(str, library.version))
    parts = (source, *nvrtc.OPTIONS, architecture, version)
    name = hashlib.sha256(as_bytes("\0".join(parts))).hexdigest()[:40]
    return cache_folder.folder_of(FOLDER) / f"{name}.bin"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
