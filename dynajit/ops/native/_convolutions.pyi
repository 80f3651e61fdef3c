"""The C extension `dynajit.ops.native._convolutions`."""

from typing import Any

def correlate(
    sizes: tuple[int, ...],
    is_back: bool,
    source: Any,
    weight: Any,
    bias: Any,
    result: Any,
    threads: int,
    is_direct: bool,
) -> None: ...
def weigh(sizes: tuple[int, ...], y: Any, x: Any, result: Any, threads: int) -> None: ...
def use_set(name: str) -> str: ...
