"""What a suspended instruction does with the result of the frame that it waits for.

A handler that runs user code is a generator, suspended while the callee's frame is on top. When
the region ends inside the callee, the rest of each caller is real code, which has to do what the
handler would have done. Where every generator between the handler and the frame passes the result
on unchanged, that follows from the instruction alone; what a generator in between does to it is
declared with `then`. Anything else has no answer: the region ends in the caller instead.

Whether a generator only passes on is read off its own bytecode: `return (yield from steps)`,
outside any `try`. Used by the operations (`then`) and by `capture.region.finish` (`awaited_by`).
"""

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, Final, TypeVar

from dynajit.capture.bytecode.instruction_set import OPERATIONS, Use
from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.machine.frames import Answer, Frame, Steps
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record

F = TypeVar("F", bound=Callable[..., Any])


@record
class Then:
    """`result = function(result, *values)`, when the program runs."""

    function: Callable[..., Any]
    values: tuple[Value, ...]


@record
class Awaited:
    """See the module's text: first each of `then`, then `use`."""

    use: Use
    then: tuple[Then, ...] = ()


_USES: Final = {row.name: row.awaiting for row in OPERATIONS.values() if row.awaiting is not None}


def next_item(result: Any) -> Any:
    """Marks a call of `__next__`: its StopIteration ends the loop."""
    return result


def checked_none(result: Any, made: Any) -> Any:
    """What `Cls()` gives after `__init__` returned `result`."""
    if result is not None:
        kind = type(result).__name__
        raise TypeError(f"__init__() should return None, not '{kind}'")
    return made


def checked_bool(result: Any) -> bool:
    """The truth that `__bool__` said."""
    if type(result) is not bool:
        kind = type(result).__name__
        raise TypeError(f"__bool__ should return bool, returned {kind}")
    return result


class _Sized:
    """Asks for the truth of a length in the interpreter's own words."""

    __slots__ = ("length",)

    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length


def length_is_true(result: Any) -> bool:
    """The truth of an object whose `__len__` said `result`."""
    return bool(_Sized(result))


def then(steps: Steps[Answer], function: Callable[..., Any], *values: Value) -> Steps[Answer]:
    """Pass `steps` on, and declare what the caller does with the result before it returns it.

    Args:
        steps: what gives the result.
        function: does the same at run time: `function(result, *values)`.
        values: what it needs besides.
    """
    return (yield from steps)


_ENTRANCES: Final[set[CodeType]] = set()


def entrance(function: F) -> F:
    """Mark a generator function that yields a frame and returns the frame's result."""
    _ENTRANCES.add(function.__code__)
    return function


def awaited_by(frame: Frame) -> Awaited | None:
    """What the suspended instruction of `frame` does with the result, or None: not known."""
    chain = []
    steps: Any = frame.pending
    while steps is not None:
        chain.append(steps)
        steps = steps.gi_yieldfrom
    if len(chain) < 2 or chain[-1].gi_code not in _ENTRANCES:
        return None
    use = _USES.get(frame.body.instructions[frame.index - 1].operation)
    if use is None:
        return None
    conversions = []
    explained = dropped = False
    for steps in reversed(chain[1:-1]):
        if steps.gi_code is then.__code__:
            local = steps.gi_frame.f_locals
            conversions.append(Then(local["function"], local["values"]))
            explained = True
            continue
        passing = "pass" if explained else _passing(steps.gi_code, steps.gi_frame.f_lasti)
        explained = False
        if passing is None:
            return None
        dropped = dropped or passing == "drop"
    if dropped and use is not Use.DROP:
        return None
    return _for_instruction(frame, use, conversions, chain[0])


def _for_instruction(
    frame: Frame, use: Use, conversions: list[Then], handler: Any
) -> Awaited | None:
    is_next = [part.function is next_item for part in conversions]
    if any(is_next):
        if use is not Use.NEXT or len(conversions) > 1:
            return None
        conversions = []
    elif use is Use.NEXT:
        return None
    if use in (Use.PUSH, Use.PUSH_METHOD) and not _is_last_push(
        handler.gi_code, handler.gi_frame.f_lasti
    ):
        return None
    if use is Use.OPERAND and not conversions:
        return None
    following = frame.body.instructions[frame.index]
    if following.offset == frame.body.instructions[frame.index - 1].offset:
        if following.operation != "TO_BOOL":
            return None
        conversions = [*conversions, Then(bool, ())]
    return Awaited(use, tuple(conversions))


def _after_send(body: Body, lasti: int) -> int | None:
    """Where the generator goes on when what it delegates to has finished."""
    sends = [item for item in body if item.operation == "SEND" and item.offset <= lasti]
    if not sends:
        return None
    send = sends[-1]
    handler = send.handler
    if handler is not None and body[handler.target].operation != "CALL_INTRINSIC_1":
        return None  # inside `try`: an exception would be seen on its way
    target: int = send.argument
    return target + 1 if body[target].operation == "END_SEND" else target


def _operations(body: Body, index: int, count: int) -> list[str]:
    return [item.operation for item in body.instructions[index : index + count]]


@functools.cache
def _passing(code: CodeType, lasti: int) -> str | None:
    """What a generator that is suspended in `yield from` does with the result it gets."""
    body = decode(code)
    index = _after_send(body, lasti)
    if index is None:
        return None
    if body[index].operation == "RETURN_VALUE":
        return "pass"
    dropping = ["POP_TOP", "LOAD_CONST", "RETURN_VALUE"]
    if _operations(body, index, 3) == dropping and body[index + 1].argument is None:
        return "drop"
    return None


@functools.cache
def _is_last_push(code: CodeType, lasti: int) -> bool:
    """True for a handler that ends with `frame.push((yield from steps))`."""
    body = decode(code)
    index = _after_send(body, lasti)
    ending = ["CALL", "POP_TOP", "LOAD_CONST", "RETURN_VALUE"]
    return index is not None and _operations(body, index, 4) == ending
