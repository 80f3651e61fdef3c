"""One compile, from a missed call to a published entry.

`capture` runs the executor; `compile_entry` adds the backend, the emitter and the cache. Called
by `dynajit.compile` (which injects the backend) through the C entry object on a guard miss, and
by the scoped frame hook for frames inside a region that broke.

Contract: the user's grad mode, random state and objects are as before when a function here
returns; the frame hook's callback is off meanwhile. A defect of the compiler itself never reaches
the user: the call runs eagerly, with one warning per function, unless `config.strict`.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from dynajit.capture.region import Backend, Region, Skip


@dataclass(frozen=True, slots=True)
class Options:
    """How a function is compiled; one per `dj.compile` call.

    Args:
        backend: makes a callable from a CapturedGraph: tensors and numbers in graph-input order
            in, a tuple with one Tensor per graph output out.
        fullgraph: a graph break raises GraphBreakError.
        report: called with the Compilation of every compile of this function and of the frames
            below it, in order; None where nobody listens.
    """

    backend: Backend
    fullgraph: bool = False
    report: "Callable[[Compilation], None] | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Compilation:
    """What one compile made.

    Args:
        region: what was captured, or Skip with the reason.
        function: the new Python function (same signature, globals and closure), or None where
            the original must run.
        launch: what the backend returned, or None where the graph computes nothing.
        stages: name -> milliseconds (`capture`, `backend`, `emit`).
        error: the internal error that made the call fall back to plain Python, if any.
    """

    region: Region | Skip
    function: FunctionType | None
    launch: Callable[..., tuple[Any, ...]] | None = None
    stages: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None


def capture(
    function: FunctionType, arguments: tuple[Any, ...], *, fullgraph: bool = False
) -> Region | Skip:
    """Execute `function` symbolically on one call's arguments; runs no user code.

    Args:
        function: a plain Python function (not a generator or coroutine).
        arguments: bound arguments in the order of `co_varnames`: positional, keyword-only, the
            `*args` tuple, the `**kwargs` dict; defaults filled in.
        fullgraph: raise instead of ending the region at a break.

    Raises:
        GraphBreakError: `fullgraph` and a break; the message shows the user's line.
    """
    raise NotImplementedError


def compile_entry(
    function: FunctionType, arguments: tuple[Any, ...], options: Options
) -> Compilation:
    """Capture one call, compile its graph, and make the new function.

    The caller publishes `compilation.region.guards` with `compilation.function`; where
    `function` is None it remembers to run the original (`region.permanent`: for every call).

    Raises:
        GraphBreakError: `options.fullgraph` and a break.
    """
    raise NotImplementedError


def bind(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of `co_varnames`, as `capture` wants them.

    Raises:
        TypeError: as the call itself would raise.
    """
    raise NotImplementedError
