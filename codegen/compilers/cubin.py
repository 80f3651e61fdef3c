"""What kernels in a cubin take of a GPU's registers and memory.

Contract: `read(cubin)` gives registers, local memory and static shared memory of each kernel, from
the ELF file itself: no tool of CUDA's toolkit is needed. Local memory is where registers spill to
and where arrays with indices that the compiler does not know live; either is a slow kernel. Source
of the attribute numbers: the records of section `.nv.info`, as `readelf` tools for cubins print
them (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE).
"""

import struct
from collections.abc import Iterator
from typing import Final

from dynajit.core.errors import InternalError
from dynajit.core.records import record

_SYMBOLS: Final = 2
"""Section type of a symbol table."""
_SIZED: Final = 4
"""Format of a record that is followed by as many bytes as its last two say."""
_FRAME_SIZE: Final = 0x11
_REGISTERS: Final = 0x2F


@record
class Resources:
    """What one kernel takes.

    Args:
        registers: per thread.
        local_bytes: per thread, in memory that only this thread sees.
        shared_bytes: per block, without what a launch adds, with what the architecture reserves.
    """

    registers: int
    local_bytes: int
    shared_bytes: int


@record
class _Section:
    name: str
    type: int
    content: memoryview
    size: int
    link: int


def read(cubin: bytes) -> dict[str, Resources]:
    """Kernel name -> resources.

    Raises:
        InternalError: this is no cubin.
    """
    sections = _sections(cubin)
    names = _symbol_names(sections)
    sizes = {section.name: section.size for section in sections}
    registers: dict[str, int] = {}
    local: dict[str, int] = {}
    for section in sections:
        if section.name == ".nv.info":
            for attribute, symbol, value in _records(section.content):
                if attribute == _REGISTERS:
                    registers[names[symbol]] = value
                elif attribute == _FRAME_SIZE:
                    local[names[symbol]] = value
    return {
        name: Resources(count, local.get(name, 0), sizes.get(f".nv.shared.{name}", 0))
        for name, count in registers.items()
    }


def _sections(cubin: bytes) -> list[_Section]:
    """The sections of an ELF file of 64 bits, little-endian."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise InternalError("cubin.read: the given bytes are no ELF file of 64 bits.")
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    view = memoryview(cubin)
    headers = [struct.unpack_from("<IIQQQQII", cubin, start + i * size) for i in range(count)]
    texts = bytes(view[headers[names_at][4] :][: headers[names_at][5]])
    return [
        _Section(_text(texts, name), type, view[offset:][:length], length, link)
        for name, type, _, _, offset, length, link, _ in headers
    ]


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode()


def _symbol_names(sections: list[_Section]) -> list[str]:
    """The names of the symbol table's entries, in order."""
    for section in sections:
        if section.type == _SYMBOLS:
            texts = bytes(sections[section.link].content)
            entries = struct.iter_unpack("<IBBHQQ", bytes(section.content))
            return [_text(texts, entry[0]) for entry in entries]
    raise InternalError("cubin.read: the cubin has no symbol table.")


def _records(content: memoryview) -> Iterator[tuple[int, int, int]]:
    """Attribute, symbol and value of the records that have both."""
    at = 0
    while at + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == _SIZED:
            if size == 8:
                symbol, value = struct.unpack_from("<II", content, at)
                yield attribute, symbol, value
            at += size
