"""Control of capture by PyTorch's inner path: what `dynajit` itself publishes.

Contract: the functions are dynajit's; `config` takes settings that change nothing.
"""

from typing import Any

from dynajit._dynamo import config, eval_frame
from dynajit._dynamo.eval_frame import OptimizedModule
from dynajit.compile import (
    allow_in_graph,
    compile,
    disable,
    explain,
    graph_break,
    is_compiling,
    list_backends,
    mark_dynamic,
    mark_static,
    reset,
)


def optimize(backend: Any = None, *, nopython: bool = False, **options: Any) -> Any:
    """A decorator that compiles, of older programs; whatever the backend, it is dynajit's."""
    return lambda function: compile(function, fullgraph=nopython)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """A hint that a size varies: sizes that vary are found by themselves."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """A hint that a tensor stays where it is: it changes nothing."""


def is_dynamo_supported() -> bool:
    """Whether Python can be captured here: True."""
    return True


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "compile",
    "config",
    "disable",
    "eval_frame",
    "explain",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
]
