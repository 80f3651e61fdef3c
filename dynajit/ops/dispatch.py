"""Who runs an op: the operand that asks for it most.

An operand class that can run ops has two attributes: `__dynajit_priority__` (int) and
`__dynajit_handler__`, a callable `(op, inputs, attributes) -> result`. Eager tensors have priority
0, graph values 10. Numbers, None and raw arrays have none. An op without such an operand (`arange`,
`full`) runs by the handler on top of this thread's stack: eager unless capture, a pass or the
autodiff driver is recording.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dynajit.core.errors import InternalError

Handler: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Handler] = []


_state = _State()
_eager: list[Handler] = []


def install_eager(handler: Handler) -> None:
    """Name the handler of ops without operands outside any `recording`. Called once, by eager."""
    _eager[:] = [handler]


@contextlib.contextmanager
def recording(handler: Handler) -> Iterator[None]:
    """Ops without operands go to `handler` within the block (this thread only)."""
    _state.stack.append(handler)
    try:
        yield
    finally:
        _state.stack.pop()


def default_handler() -> Handler:
    """The handler of ops without operands.

    Raises:
        InternalError: the eager layer is not loaded and nothing records.
    """
    if _state.stack:
        return _state.stack[-1]
    if not _eager:
        raise InternalError("an op without operands was called before dynajit.eager was imported")
    return _eager[0]


def handler_for(inputs: tuple[Any, ...]) -> Handler:
    """The handler of the operand with the highest priority, else `default_handler()`."""
    best = -1
    handler: Handler | None = None
    for operand in inputs:
        priority = getattr(operand, "__dynajit_priority__", -1)
        if priority > best:
            best = priority
            handler = operand.__dynajit_handler__
    return default_handler() if handler is None else handler
