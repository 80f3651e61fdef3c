"""Functions compiled in all calls, without what `dj.compile` does around it."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from dynajit.capture.entry import cache
from dynajit.capture.entry.session import Options, compile_entry
from dynajit.capture.region.region import Skip
from dynajit.capture.tensors.size_memory import SizeMemory


def publisher(options: Options) -> Callable[[FunctionType, tuple[Any, ...]], cache.Published]:
    """The `compile` argument of `capture.entry.cache.compiled_function` for these options."""
    memories: dict[CodeType, SizeMemory] = {}

    def publish(function: FunctionType, arguments: tuple[Any, ...]) -> cache.Published:
        memory = memories.setdefault(function.__code__, SizeMemory())
        compilation = compile_entry(function, arguments, options, memory)
        region = compilation.region
        if isinstance(region, Skip):
            return cache.Published(
                region.guards,
                compilation.function,
                permanent=region.permanent,
                reason=region.reason,
            )
        return cache.Published(
            guards=region.guards,
            function=compilation.function,
            is_scoped=bool(region.breaks),
            compiled=compilation.guards,
        )

    return publish
