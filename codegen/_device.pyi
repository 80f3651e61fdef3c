from collections.abc import Callable
from typing import Any

ADD: int
MULTIPLY: int
FLOOR_DIVIDE: int
MODULO: int
MINIMUM: int
MAXIMUM: int
STEP_KERNEL: int
STEP_MEMSET: int
STEP_PRODUCT: int
DATA_F32: int
DATA_F64: int
DATA_F16: int
DATA_BF16: int
EPILOGUE_DEFAULT: int
EPILOGUE_RELU: int
EPILOGUE_BIAS: int
EPILOGUE_GELU: int
ARGUMENT_TENSOR: int
ARGUMENT_BOOL: int
ARGUMENT_INTEGER: int
ARGUMENT_FLOATING: int
RESULT_NEW: int
RESULT_ARGUMENT: int
RESULT_WRITTEN: int
RESULT_OBJECT: int
SLOT_STATUS: int
SLOT_WORKSPACE: int
SLOT_WORKSPACE_BYTES: int
SLOT_FIRST: int

class Driver:
    version: int
    device_count: int
    def __new__(
        cls, path: str, products: str | None, fail: Callable[[str, int, str, str], None]
    ) -> Driver: ...
    def name(self, device: int, /) -> str: ...
    def attribute(self, attribute: int, device: int, /) -> int: ...
    def synchronize(self, stream: int, device: int, /) -> None: ...

class Module:
    device: int
    def __new__(cls, driver: Driver, image: bytes, device: int) -> Module: ...

class Plan:
    slots: int
    step_count: int
    def __new__(
        cls,
        module: Module,
        slots: int,
        constants: tuple[tuple[int, int], ...],
        arithmetic: tuple[tuple[int, tuple[int, int, int]], ...],
        steps: tuple[tuple[Any, ...], ...],
        presets: tuple[bytes, ...],
    ) -> Plan: ...
    def run(self, stream: int, words: tuple[int, ...], workspace: int, /) -> None: ...

class Program:
    name: str
    plan: Plan
    replayed: tuple[int, int, str | None]
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
        plan: Plan,
        arguments: tuple[Any, ...],
        outputs: tuple[Any, ...],
        results: tuple[tuple[int, int, Any], ...],
        symbols: tuple[tuple[int, int, int, int, int], ...],
        constants: tuple[Any, ...],
        scalars_first: int,
        constants_first: int,
        arrays: tuple[Any, ...],
        fail: Callable[[int, int, int, int], None],
        replays: bool,
    ) -> Program: ...
    def __call__(self, *arguments: Any) -> tuple[Any, ...]: ...
    def run_here(self, arguments: tuple[Any, ...], /) -> tuple[Any, ...]: ...
    def measure(
        self, arguments: tuple[Any, ...], repeats: int, tune: bool, steps: bool, /
    ) -> tuple[float, tuple[float, ...]]: ...
    def algorithms(self) -> tuple[bytes, ...]: ...

def is_forked() -> bool: ...
def set_tf32(allowed: bool, /) -> None: ...
