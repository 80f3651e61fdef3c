"""Kernels that shall keep their values in registers: compiled again with more of them where needed.

Contract: `compile_source(source, architecture)` is that of `nvrtc`, but a kernel that has filled
the registers that its `__launch_bounds__` leave, and keeps values in memory, is compiled for half
as many blocks of an SM, with twice the registers, until it fits or has an SM's registers for one
block. How many values live at a time is the compiler's knowledge; few kernels are compiled twice.
"""

import re
from collections.abc import Mapping
from typing import Final

from dynajit.codegen.compilers import cubin, nvrtc
from dynajit.codegen.compilers.cubin import Resources
from dynajit.core.errors import InternalError

SM_REGISTERS: Final = 65536
"""Of an SM, from Volta on: CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"."""

MOST_REGISTERS: Final = 255
"""Of a thread; same source."""

GRANULE: Final = 8
"""Registers are given to a thread in eights; same source."""

_BOUNDS: Final = re.compile(r"__launch_bounds__\((\d+), (\d+)\) (\w+)\(")
"""Threads of a block, blocks of an SM, and the kernel: as `codegen.cuda.units.support` prints
them."""


def compile_source(source: str, architecture: str) -> bytes:
    """A cubin, or PTX, as `nvrtc.compile_source` gives it; errors as there."""
    content = nvrtc.compile_source(source, architecture)
    while architecture.startswith("sm_"):
        try:
            found = cubin.read(content)
        except InternalError:
            return content  # a form of cubins that is not known is taken as it is
        roomier = with_room(source, found)
        if roomier == source:
            return content
        source, content = roomier, nvrtc.compile_source(roomier, architecture)
    return content


def with_room(source: str, found: Mapping[str, Resources]) -> str:
    """The source, with half the blocks of an SM for kernels whose registers were too few.

    Args:
        found: what the kernels took, by their names.
    """

    def halved(match: re.Match[str]) -> str:
        threads, blocks, name = int(match[1]), int(match[2]), match[3]
        taken = found.get(name)
        if blocks == 1 or taken is None or not is_short(taken, threads, blocks):
            return match[0]
        return f"__launch_bounds__({threads}, {blocks // 2}) {name}("

    return _BOUNDS.sub(halved, source)


def is_short(taken: Resources, threads: int, blocks: int) -> bool:
    """True if a kernel has all registers that it may have, and keeps values in memory."""
    most = min(SM_REGISTERS // (threads * blocks) // GRANULE * GRANULE, MOST_REGISTERS)
    return taken.local_bytes > 0 and taken.registers > most - GRANULE
