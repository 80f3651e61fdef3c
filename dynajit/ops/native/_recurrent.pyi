"""The C extension `dynajit.ops.native._recurrent`."""

from typing import Any

def states(
    operands: tuple[Any, ...],
    mode: str,
    batch_sizes: tuple[int, ...] | None,
    is_reversed: bool,
    keeps: bool,
    threads: int,
) -> Any: ...
def slopes(
    operands: tuple[Any, ...],
    mode: str,
    batch_sizes: tuple[int, ...] | None,
    is_reversed: bool,
    keeps: bool,
    threads: int,
) -> Any: ...
