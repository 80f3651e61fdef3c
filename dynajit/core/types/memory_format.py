"""Memory formats: the order in which a tensor's dims lie in memory, as programs ask for it.

Frozen names. Elements and sizes never depend on them.
"""

import enum
from typing import Any, Final

from dynajit.core.errors import ArgumentError, ShapeError


class MemoryFormat(enum.Enum):
    """`contiguous_format` is row-major, `preserve_format` that of the operand, the others have
    the channels (dim 1) innermost."""

    contiguous_format = "contiguous_format"
    preserve_format = "preserve_format"
    channels_last = "channels_last"
    channels_last_3d = "channels_last_3d"

    def __repr__(self) -> str:
        return f"dynajit.{self.value}"

    __str__ = __repr__


contiguous_format: Final = MemoryFormat.contiguous_format
preserve_format: Final = MemoryFormat.preserve_format
channels_last: Final = MemoryFormat.channels_last
channels_last_3d: Final = MemoryFormat.channels_last_3d

RANKS: Final = {channels_last: 4, channels_last_3d: 5}
"""How many dims tensors of a format have, where it matters."""


def order_in(memory_format: Any, rank: int) -> tuple[int, ...] | None:
    """The dims of a tensor in a memory format from the outermost to the innermost; None where that
    of an operand is kept.

    Raises:
        ShapeError, ArgumentError: see `outer_to_inner`.
    """
    if memory_format is contiguous_format:
        return tuple(range(rank))
    return outer_to_inner(memory_format, rank)


def outer_to_inner(memory_format: Any, rank: int) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost; None: as they are.

    Raises:
        ShapeError: a format with channels last needs another number of dims.
        ArgumentError: it is no memory format.
    """
    if memory_format is None:
        return None
    if not isinstance(memory_format, MemoryFormat):
        raise ArgumentError(
            f"memory_format={memory_format!r}: expected a memory format such as channels_last."
        )
    wanted = RANKS.get(memory_format)
    if wanted is None:
        return None
    if rank != wanted:
        raise ShapeError(
            f"required rank {wanted} tensor to use {memory_format.value} format; this one has "
            f"{rank} dims."
        )
    return (0, *range(2, rank), 1)
