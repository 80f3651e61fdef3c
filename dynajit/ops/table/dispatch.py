"""Who runs an op: the operand that asks for it most.

An operand class that can run ops has two attributes: `__dynajit_priority__` (int) and
`__dynajit_handler__`, a callable `(op, inputs, attributes) -> result`. Eager tensors have priority
0, graph values 10. Numbers, None and raw arrays have none. An op without such an operand (`arange`,
`full`) runs by the handler on top of this thread's stack: eager unless capture, a pass or the
autodiff driver is recording.

Random ops take `seed` and `offset` as inputs; library functions get them from `reserve_random`,
which asks the same stack: eager advances the default generator of the device, capture hands out
graph values.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from dynajit.core.errors import InternalError
from dynajit.core.process import _recorder
from dynajit.core.types.device import CPU, Device
from dynajit.ops.native._library_call import overrides
from dynajit.ops.native._row_call import enter_recording, leave_recording
from dynajit.ops.native._row_call import install as install_attempt
from dynajit.ops.table.overriding import override_row

Handler: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
# `reserve(blocks, device)` -> (seed, offset, shift): `blocks` Philox counter blocks that nobody
# else uses, of the stream of a device.
Reserve: TypeAlias = Callable[[Any, Device], tuple[Any, Any, Any]]
# `watch(op, inputs, run)` -> the result of `run()`, which it calls once.
Watch: TypeAlias = Callable[[Any, tuple[Any, ...], Callable[[], Any]], Any]


# An object of a class with `__torch_function__` that is no tensor.
_OVERRIDING: Final = 10_000


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[Handler, Reserve | None, bool]] = []


_state = _State()
_eager: list[tuple[Handler, Reserve]] = []
#: What eager installed, and that or what records its calls.
_eager_attempts: list[Handler] = []
_attempts: list[Handler] = []
_writers: list[Callable[..., Any]] = []
_watches: list[Watch] = []


def install_eager(handler: Handler, reserve_random: Reserve, attempt: Handler) -> None:
    """Called once, by eager.

    Args:
        handler: who runs ops without operands, outside any `recording`.
        reserve_random: who hands out random blocks there.
        attempt: `attempt(op, inputs, attributes)` is asked before `handler_for`. It runs the op if
            it can tell at a glance that eager tensors are to, else it gives NotImplemented and has
            done nothing.
    """
    _eager[:] = [(handler, reserve_random)]
    _attempts[:] = [attempt]
    _eager_attempts[:] = [attempt]
    install_attempt(attempt)


def record_rows(is_on: bool) -> None:
    """Let calls of rows pass through the recorder of profiles, in all threads, or no more."""
    attempt = _eager_attempts[0]
    _attempts[:] = [_recorder.Attempt(attempt) if is_on else attempt]
    if not _watches:
        install_attempt(_attempts[0])


def install_writer(write: Callable[..., Any]) -> None:
    """Called once, by eager: who writes results into `out=`; see `write_into`."""
    _writers[:] = [write]


def write_into(
    out: Any,
    name: str,
    run: Callable[[], Any],
    operands: tuple[Any, ...],
    *,
    casts: bool,
    warns: bool,
) -> Any:
    """`out`, which then holds the result of `run()`.

    Args:
        out: a tensor, or a tuple or list of as many as `run()` returns.
        name: of the function, for messages.
        run: the call without `out`.
        operands: all its arguments.
        casts: the result is cast to out's dtype, as far as its category does not fall.
        warns: where out has elements, but another shape.

    Raises:
        ArgumentError: `out` is something else.
        AutogradError: gradients are recorded and an argument requires one.
        DTypeError, DeviceError: `out` has another dtype than it may, or is elsewhere.
        UnsupportedError: `run()` was recorded into a graph.
        InternalError: eager is not loaded.
    """
    if not _writers:
        raise InternalError("out= was given before dynajit.eager was imported")
    return _writers[0](out, name, run, operands, casts=casts, warns=warns)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Every call of a row passes through `watch` within the block, in all threads.

    It stands where eager's `attempt` does, in front of it: outside of such blocks nothing is asked.
    Rows that others call are seen, too; what array functions call is not.
    """
    _watches.append(watch)
    install_attempt(_run_watched)
    try:
        yield
    finally:
        _watches.remove(watch)
        if not _watches:
            install_attempt(_attempts[0])


def is_watched() -> bool:
    """True within a block of `watching`, in any thread."""
    return bool(_watches)


def _run_watched(op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    def run() -> Any:
        result = _attempts[0](op, inputs, attributes)
        return op.run(*inputs, **attributes) if result is NotImplemented else result

    for watch in tuple(_watches):
        run = functools.partial(watch, op, inputs, run)
    return run()


@contextlib.contextmanager
def recording(
    handler: Handler, reserve_random: Reserve | None = None, is_run: bool = False
) -> Iterator[None]:
    """Ops without operands go to `handler` within the block (this thread only).

    Args:
        handler: runs or records those ops.
        reserve_random: serves `reserve_random` within the block; None where nothing inside may
            draw fresh random numbers (formulas, composites, passes).
        is_run: the handler runs ops at once: nothing is recorded.
    """
    _state.stack.append((handler, reserve_random, is_run))
    enter_recording()
    try:
        yield
    finally:
        leave_recording()
        _state.stack.pop()


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Nothing is recorded in the block: what interrupts a recording runs there (this thread)."""
    held, _state.stack = _state.stack, []
    for _ in held:
        leave_recording()
    try:
        yield
    finally:
        _state.stack = held
        for _ in held:
            enter_recording()


def reserve_random(blocks: Any, device: Device = CPU) -> tuple[Any, Any, Any]:
    """`(seed, offset, shift)` for a random op on a device that uses `blocks` counter blocks of four
    words.

    The first block of the op is number `offset + shift` of the stream of `seed`. Eager returns
    integers (shift 0); while a graph is captured, seed and offset are values of that graph and
    shift counts what the graph has reserved so far.

    Raises:
        InternalError: what is recording may not draw random numbers, or eager is not loaded.
    """
    if _state.stack:
        reserve = _state.stack[-1][1]
        if reserve is None:
            raise InternalError("fresh random numbers were asked for inside a recorded formula")
        return reserve(blocks, device)
    if not _eager:
        raise InternalError("random numbers were asked for before dynajit.eager was imported")
    return _eager[0][1](blocks, device)


def redirected() -> Callable[..., tuple[Any, Any, Any]] | None:
    """Who hands out random blocks of every generator, `(blocks, device, generator)`, while a
    handler that runs ops at once stands in front of eager's; None: nobody does."""
    return _state.stack[-1][1] if _state.stack and _state.stack[-1][2] else None


def is_recording() -> bool:
    """True inside `recording`: what runs now will run again, with other values."""
    return bool(_state.stack) and not all(is_run for _, _, is_run in _state.stack)


def default_handler() -> Handler:
    """The handler of ops without operands.

    Raises:
        InternalError: the eager layer is not loaded and nothing records.
    """
    if _state.stack:
        return _state.stack[-1][0]
    if not _eager:
        raise InternalError("an op without operands was called before dynajit.eager was imported")
    return _eager[0][0]


def handler_for(inputs: tuple[Any, ...]) -> Handler:
    """The handler of the operand with the highest priority, else `default_handler()`.

    Objects of other kinds whose class has `__torch_function__` come first.
    """
    best = -1
    handler: Handler | None = None
    for operand in inputs:
        priority = getattr(operand, "__dynajit_priority__", -1)
        if priority > best:
            best = priority
            handler = operand.__dynajit_handler__
        elif priority < 0 and overrides(operand):
            best, handler = _OVERRIDING, override_row
    return default_handler() if handler is None else handler
