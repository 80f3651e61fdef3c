"""Control of compiled functions by PyTorch's path: `dynajit.compiler.disable`, `.set_stance`, ...

Nearly everything here is defined elsewhere; this module is where programs look for it.
"""

from dynajit.compile import (
    allow_in_graph,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
)

is_dynamo_compiling = is_compiling


def cudagraph_mark_step_begin() -> None:
    """A step begins: nothing is to be done, since results are never overwritten by a later step."""


def is_exporting() -> bool:
    """Whether a program is being exported: False."""
    return False


__all__ = [
    "allow_in_graph",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]
