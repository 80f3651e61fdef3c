"""Backends by name: those that are built in, other names for them, and the program's own.

Contract: a name means one backend for the whole process. Imported with `dynajit`, so that programs
register theirs before anything is compiled.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from dynajit.core.errors import ArgumentError, ArgumentRuntimeError
from dynajit.core.records import record

BUILT_IN: Final = ("native", "numpy", "eager", "cuda")
ALIASES: Final = {"inductor": "native", "aot_eager": "eager"}
"""PyTorch's names: the one that generates code, and the one that runs graphs by operations."""


@record(eq=False)
class Registered:
    """A backend of the program's own: `function(graph_module, example_inputs) -> callable`."""

    function: Callable[..., Any]
    tags: frozenset[str]


_registered: Final[dict[str, Registered]] = {}


def register_backend(
    compiler_fn: Any = None, name: str | None = None, tags: Iterable[str] = ()
) -> Any:
    """Let `compile(backend="name")` find a backend of the program's own; usable as a decorator.

    Args:
        compiler_fn: `backend(graph_module, example_inputs) -> callable`; None returns a decorator.
        name: of the backend; the function's own by default.
        tags: words by which `list_backends` leaves it out.

    Returns:
        `compiler_fn`.

    Raises:
        ArgumentError: it cannot be called, has no name, or another backend has the name.
    """
    if compiler_fn is None:
        return lambda given: register_backend(given, name, tags)
    if not callable(compiler_fn):
        raise ArgumentError(f"register_backend({compiler_fn!r}): expected what can be called.")
    found = name or getattr(compiler_fn, "__name__", None)
    if not isinstance(found, str):
        raise ArgumentError(f"register_backend({compiler_fn!r}): it has no name.  Give name=...")
    known = _registered.get(found)
    if found in (*BUILT_IN, *ALIASES) or (known and known.function is not compiler_fn):
        raise ArgumentError(
            f"register_backend(name={found!r}): another backend has this name.  Choose one that is "
            f"none of {', '.join(list_backends())}."
        )
    _registered[found] = Registered(compiler_fn, frozenset(tags))
    return compiler_fn


def list_backends(exclude_tags: Iterable[str] = ()) -> list[str]:
    """Names that `compile(backend=...)` accepts: built-in ones, PyTorch's for them, and registered
    ones.

    Args:
        exclude_tags: backends that were registered with one of these are left out.
    """
    left_out = frozenset(exclude_tags or ())
    own = (name for name, known in _registered.items() if not known.tags & left_out)
    return [*BUILT_IN, *ALIASES, *sorted(own)]


def resolved(backend: Any) -> Any:
    """What a name stands for: a built-in one's own name, or a callable; others stay as they are.

    Raises:
        ArgumentRuntimeError: there is no such backend.
    """
    if callable(backend):
        return backend
    if isinstance(backend, str):
        found = ALIASES.get(backend, backend)
        if found in BUILT_IN:
            return found
        if found in _registered:
            return _registered[found].function
    raise ArgumentRuntimeError(
        f"compile(backend={backend!r}): not a backend.  Expected one of "
        f"{', '.join(list_backends())}, or a callable (graph_module, example_inputs) -> callable."
    )
