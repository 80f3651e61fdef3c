"""Object files to a shared object by the linker alone, without the compiler's driver.

Contract: `link(objects, target)` says whether it made `target`; `prepare()` finds what it needs. It
does so where it knows every library that the objects need, which is nearly always; for the rest,
and on systems whose object files it does not read, the caller asks the driver, which searches its
folders, reads scripts and takes 7 instead of 3 ms (a seventh of what a small kernel takes in all).
Called by `codegen.compilation` and `codegen.pipeline`.
"""

import ctypes
import functools
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from dynajit.codegen import openmp
from dynajit.codegen.c_prelude import C_LIBRARY, MATHEMATICS

MATH_LIBRARY: Final = "libm.so.6"
_LIBC_VERSION: Final = "CS_GNU_LIBC_VERSION"
"""What only GNU's C library says of itself."""
_OPENMP_PREFIXES: Final = ("GOMP_", "omp_")
_EVERYWHERE: Final = frozenset({"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail", *C_LIBRARY})
"""What the linker itself defines, and what every process has of the C library."""


def link(
    objects: Sequence[Path], target: Path, limit_s: float, environment: Mapping[str, str]
) -> bool:
    """Whether a shared object was made.

    Args:
        objects: files of this machine's kind.
        target: the file to make.
        limit_s: seconds that the linker may take.
        environment: that it runs in.
    """
    linker = _linker()
    if linker is None:
        return False
    libraries = _libraries(_undefined(path.read_bytes() for path in objects))
    if libraries is None:
        return False
    command = [linker, "-shared", "--eh-frame-hdr", "--hash-style=gnu", "-o", str(target)]
    result = subprocess.run(
        [*command, *map(str, objects), *libraries],
        capture_output=True, timeout=limit_s, check=False, env=environment,
    )  # fmt: skip
    return result.returncode == 0


def prepare() -> None:
    """Find what `link` will need, while the compiler works."""
    if _linker() is not None:
        _file_of(openmp.NAME)


@functools.lru_cache(maxsize=1)
def _linker() -> str | None:
    """GNU's linker where files and libraries are as this module takes them to be."""
    if sys.platform != "linux" or struct.calcsize("P") != _POINTER_BYTES:
        return None
    return shutil.which("ld") if _LIBC_VERSION in os.confstr_names else None


def _libraries(names: Iterable[str]) -> list[str] | None:
    """The files that define these names; None if one is in none of them."""
    needed = set[str]()
    for name in names:
        if name.startswith(_OPENMP_PREFIXES):
            needed.add(openmp.NAME)
        elif name in MATHEMATICS:
            needed.add(MATH_LIBRARY)
        elif name not in _EVERYWHERE:
            return None
    found = [_file_of(library) for library in sorted(needed)]
    known = [path for path in found if path is not None]
    return known if len(known) == len(found) else None


class _LinkMap(ctypes.Structure):
    """The beginning of what the dynamic linker knows of a loaded library (link.h)."""

    _fields_ = (("base", ctypes.c_size_t), ("path", ctypes.c_char_p))


_LINK_MAP_REQUEST: Final = 2
"""RTLD_DI_LINKMAP of dlfcn.h."""


@functools.cache
def _file_of(name: str) -> str | None:
    """Where this process has a library from: kernels that are linked with it will find it."""
    try:
        library = openmp.load() if name == openmp.NAME else ctypes.CDLL(name)
    except OSError:
        return None
    found = ctypes.POINTER(_LinkMap)()
    dlinfo = ctypes.CDLL(None).dlinfo
    dlinfo.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    if library is None or dlinfo(library._handle, _LINK_MAP_REQUEST, ctypes.byref(found)):
        return None
    path = found.contents.path
    return path.decode() if path else None


# ---------------------------------------------------------------------------------------------
# object files: ELF of 64 bits, in this machine's order of bytes (System V ABI, chapter 4)

_HEADER: Final = struct.Struct("@16sHHIQQQIHHHHHH")
_POINTER_BYTES: Final = 8
_SECTION: Final = struct.Struct("@IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("@IBBHQQ")
_SYMBOLS: Final = 2
"""SHT_SYMTAB, the type of the section with all names."""


def _undefined(contents: Iterable[bytes]) -> set[str]:
    """Names that some of the objects use and none defines."""
    used, defined = set[str](), set[str]()
    for content in contents:
        for name, section in _symbols(content):
            (defined if section else used).add(name)
    return used - defined - {""}


def _symbols(content: bytes) -> Iterator[tuple[str, int]]:
    """Every name of an object and the section that defines it; 0 where none does."""
    header = _HEADER.unpack_from(content)
    start, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(content, start + size * each) for each in range(count)]
    for section in sections:
        if section[1] == _SYMBOLS:
            names = sections[section[6]][4]
            table = content[section[4] : section[4] + section[5]]
            for symbol in _SYMBOL.iter_unpack(table):
                begin = names + symbol[0]
                yield content[begin : content.index(b"\0", begin)].decode(), symbol[3]
