"""Programs on their way: what code generation gives before compilers have finished.

Contract: a `Started` is called to wait for its program; several are started before the first is
waited for. Made by `codegen.pipeline` and `codegen.device.pipeline`.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from dynajit.core.process import progress
from dynajit.core.records import record


class Program(Protocol):
    """What `pipeline.compile_graph` returns.

    Attributes:
        name: of the graph.
        kernels: generated kernels, in running order.
        source: the whole generated text.
        stages: milliseconds per stage.
        from_cache: no compiler was run.
        explain: fusion decisions in words.
        may_fail: a call may refuse its values.
    """

    @property
    def name(self) -> str: ...
    @property
    def kernels(self) -> tuple[Any, ...]: ...
    @property
    def source(self) -> str: ...
    @property
    def stages(self) -> dict[str, float]: ...
    @property
    def from_cache(self) -> bool: ...
    @property
    def explain(self) -> str: ...
    @property
    def may_fail(self) -> bool: ...

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run: arrays and numbers in, a tuple of arrays out."""


@record
class Started:
    """A program on its way: call it to wait for it.

    Args:
        finish: gives the program.
        blueprint: what can be kept on disk of it; None if nothing.
        building: what the compiler is doing; None where nothing is compiled.
        parts: other programs that it waits for.
    """

    finish: Callable[[], Program]
    blueprint: Any = None
    building: "Future[Any] | None" = None
    parts: "tuple[Started, ...]" = ()

    @property
    def is_ready(self) -> bool:
        """True if a call will not wait."""
        built = self.building is None or self.building.done()
        return built and all(part.is_ready for part in self.parts)

    def __call__(self) -> Program:
        """The program.

        Raises:
            ToolchainError: the compiler refused the generated code.
        """
        return self.finish()


class Stages:
    """Milliseconds per stage. Mutable: stages are added as they finish."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note how long the block takes."""
        start = time.perf_counter()
        progress.note(name)
        try:
            yield
        finally:
            self.milliseconds[name] = 1e3 * (time.perf_counter() - start)
