from collections.abc import Callable
from pathlib import Path
from typing import Any

ARGUMENT_TENSOR: int
ARGUMENT_BOOL: int
ARGUMENT_INTEGER: int
ARGUMENT_FLOATING: int
RESULT_NEW: int
RESULT_ARGUMENT: int
RESULT_WRITTEN: int
RESULT_OBJECT: int

LOADS_OBJECTS: bool

class Library:
    def __new__(cls, code: Path | str | tuple[bytes, ...]) -> Library: ...
    def address(self, name: str, /) -> int: ...

class Program:
    name: str
    threads: int
    kernels: tuple[Any, ...]
    source: str
    stages: dict[str, float]
    from_cache: bool
    may_fail: bool
    explain: str
    blueprint: Any
    def __new__(
        cls,
        *,
        name: str,
        library: Library,
        arguments: tuple[Any, ...],
        outputs: tuple[Any, ...],
        results: tuple[tuple[int, int, Any], ...],
        constants: tuple[Any, ...],
        symbols: tuple[tuple[int, int, int, int], ...],
        workspace: int,
        threads: int,
        releases_gil: bool,
        blas: tuple[int, int, int, int, int, int],
        products: tuple[int, int],
        sums: tuple[int, int],
        fail: Callable[[int, int, int, int], None],
    ) -> Program: ...
    def __call__(self, *arguments: Any) -> tuple[Any, ...]: ...
    def turns(
        self, numbers: tuple[Any, ...], values: tuple[Any, ...], carried: int, limit: int,
        test: int, stacked: int = 0, collected: int = 0, backwards: bool = False, /,
    ) -> tuple[Any, ...] | None: ...  # fmt: skip

def set_team_size(size: int, /) -> None: ...
def set_direct(is_direct: bool, /) -> None: ...
def trim() -> None: ...
def cached_bytes() -> int: ...
