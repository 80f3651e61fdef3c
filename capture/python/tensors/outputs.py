"""Calls of library functions as programs see them: NumPy's names of arguments, and `out=`.

Contract: arguments get the names that the function itself knows, then the function is called as if
it stood there. A result goes into `out` by a write that is followed like that of `copy_`, where
eager execution would write it as it is: of out's shape, dtype and device, with no gradient. All
else is a break, and the real call does it, or raises.
"""

from collections.abc import Iterator
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.python.basic import Steps, is_none
from dynajit.capture.python.tensors.tensors import needs_gradient, tensor_type
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Known, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.errors import ArgumentError
from dynajit.ops.calls import autocast_words
from dynajit.ops.calls.library_calls import is_older_form, renamed
from dynajit.ops.native._library_call import LibraryFunction


def call_library(
    x: Any, target: LibraryFunction, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """`target(*args, **keywords)`."""
    try:
        named = renamed(target, keywords)
    except ArgumentError as error:
        raise GraphBreak(breaks.TENSOR_FAILURE, str(error)) from None
    out = named.pop("out", NONE) if "out" in target.foreign else NONE
    if is_older_form(target, len(args)):
        if not is_none(x, out):
            raise _break(target, "an older overload")
        return x.native_call(target, args, named)
    function = Known(target.__wrapped__)
    if is_none(x, out):
        return (yield from x.call(function, args, named))
    if "requires_grad" in named or _is_autocast(x):
        raise _break(target, "requires_grad or autocast")
    result = yield from x.call(function, args, named)
    for place in _items(x, target, out) if isinstance(result, TupleValue) else (out,):
        for operand in _tensors(x, [*args, *named.values()]):
            if isinstance(place, TensorValue):
                tensor_memory.refuse_partial_overlap(x.recorder, place, operand)
    return _written(x, target, result, out)


def _tensors(x: Any, operands: list[Value]) -> Iterator[TensorValue]:
    """Tensors among operands, and in lists and tuples of them."""
    for operand in operands:
        if isinstance(operand, TensorValue):
            yield operand
        elif isinstance(operand, TupleValue):
            yield from _tensors(x, list(operand.items))
        elif isinstance(operand, ListValue):
            yield from _tensors(x, list(x.list_items(operand)))


def _break(target: LibraryFunction, why: str) -> GraphBreak:
    return GraphBreak(breaks.UNKNOWN_CALL, f"{target.__name__}(out=...) with {why}")


def _is_autocast(x: Any) -> bool:
    x.uses_autocast()
    word = x.recorder.autocast_word
    return any(autocast_words.is_enabled(word, kind) for kind in ("cpu", "cuda"))


def _written(x: Any, target: LibraryFunction, result: Value, out: Value) -> Value:
    """`out`, with the results in it."""
    if isinstance(result, TupleValue):
        results, outs = result.items, _items(x, target, out)
        if len(results) != len(outs):
            raise _break(target, f"{len(outs)} tensors for {len(results)} results")
    else:
        results, outs = (result,), (out,)
    pairs = list(zip(results, outs, strict=True))
    for value, place in pairs:
        _check(x, target, value, place)
    for value, place in pairs:
        x.in_place_method(place, "copy_", [value], {})
    return TupleValue(tuple(outs), result.cls) if isinstance(result, TupleValue) else out


def _items(x: Any, target: LibraryFunction, out: Value) -> tuple[Value, ...]:
    if isinstance(out, TupleValue):
        return out.items
    if isinstance(out, ListValue):
        return tuple(x.list_items(out))
    raise _break(target, "what is no tuple")


def _check(x: Any, target: LibraryFunction, value: Value, out: Value) -> None:
    """Only what eager execution writes as it is.

    Raises:
        GraphBreak: it would resize, cast or refuse.
    """
    if not isinstance(value, TensorValue) or not isinstance(out, TensorValue):
        raise _break(target, "what is no tensor")
    here, there = tensor_type(x, value), tensor_type(x, out)
    if here.shape != there.shape:
        raise _break(target, "a tensor of another shape")
    if here.dtype is not there.dtype or here.device is not there.device:
        raise _break(target, "a tensor of another dtype or device")
    if needs_gradient(x, value) or needs_gradient(x, out):
        raise _break(target, "gradients")
