"""Calls that classes of arguments override: `__torch_function__` in captured code.

Contract: where eager execution asks classes (`ops.table.overriding`), so does captured code, in
the same order and with the same `func`. A method of the program's is inlined like any other; that
of `Tensor` makes the call and keeps the class of results. Meanwhile, and in blocks that say so, no
class is asked; whether the region begins in such a block is guarded. Active modes are never met: a
compiled function calls the original while there is one.

Functions of the machine (`capture.machine.machine`). What asks: calls of functions and methods of
the library, operators, subscripts, and reads of what the C base of tensors keeps. `native_call`
breaks where a tensor gets through to it whose class should have been asked.
"""

import functools
import types
from collections.abc import Iterable
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.parts import is_wrapper, wrapped
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, is_not_implemented, type_of
from dynajit.capture.python.contents import dict_entries, list_items, new_dict
from dynajit.capture.python.tensors.native_calls import are_classes_asked, overrides
from dynajit.capture.python.tensors.unread_lists import told_items
from dynajit.capture.values.containers import DictValue, ListValue, TupleValue
from dynajit.capture.values.functions import BoundMethod
from dynajit.capture.values.symbolic import NOT_IMPLEMENTED, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import lookup
from dynajit.eager import Tensor
from dynajit.ops.methods.methods import OF_OPERATORS
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table import overriding

NOT_ASKED: Final = ("as_subclass", "__iter__", "__torch_function__")

#: `Tensor.__torch_function__`, as the class stores it.
OF_TENSORS: Final = lookup(Tensor, overriding.PROTOCOL)


def has_own(value: Value) -> bool:
    """True if an object's class overrides functions by code of the program's."""
    return overrides(value) and lookup(value.python_type, overriding.PROTOCOL) is not OF_TENSORS


def _asked(machine: Machine, operands: Iterable[Value]) -> list[Value]:
    """One argument of each class that is asked, in order: as they come, but classes before those
    they derive from."""
    found: list[Value] = []
    for operand in operands:
        inner: Iterable[Value] = (operand,)
        if isinstance(operand, TupleValue) and operand.cls is tuple:
            inner = operand.items
        elif isinstance(operand, ListValue) and operand.cls is list:
            inner = told_items(machine, operand)
        for item in inner:
            if overrides(item):
                _insert(found, item)
    return found if found and are_classes_asked(machine) else []


def _insert(found: list[Value], item: Value) -> None:
    kind = item.python_type
    if any(kind is other.python_type for other in found):
        return
    places = (i for i, other in enumerate(found) if issubclass(kind, other.python_type))
    found.insert(next(places, len(found)), item)


def overridden(
    machine: Machine, func: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value | None]:
    """What takes the place of `func(*args, **keywords)`, or None: nobody overrides it.

    Raises:
        Raised: a TypeError: all that were asked gave NotImplemented.
    """
    receivers = _asked(machine, [*args, *keywords.values()])
    if not receivers:
        return None
    kinds = [type_of(machine, receiver) for receiver in receivers]
    known = TupleValue(tuple(map(Known, kinds)))
    named = [(constant(name), value) for name, value in keywords.items()]
    for receiver in receivers:
        given = [Known(func), known, TupleValue(tuple(args)), new_dict(machine, named)]
        result = yield from machine.call(_method_of(receiver), given, {})
        if not is_not_implemented(machine, result):
            return result
    names = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    raise_python(
        machine,
        TypeError,
        f"no implementation found for '{overriding.name_of(func)}' on types that implement "
        f"__torch_function__: {names} gave NotImplemented.  Handle the function there, or call "
        "super().__torch_function__.",
    )


def _method_of(receiver: Value) -> Value:
    cls = receiver.python_type
    raw = lookup(cls, overriding.PROTOCOL)
    if is_wrapper(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
        return BoundMethod(wrapped(raw, "__func__"), Known(cls))
    if is_wrapper(raw, staticmethod):
        return wrapped(raw, "__func__")
    if isinstance(raw, types.FunctionType):
        return BoundMethod(Known(raw), receiver)
    raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__qualname__}.{overriding.PROTOCOL}")


def overridden_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value | None]:
    """The same for a method or an operator of `Tensor`."""
    if name in NOT_ASKED:
        return None
    if not any(map(overrides, (receiver, *args, *keywords.values()))):  # so it is for most
        inner = [v for v in args if isinstance(v, (TupleValue, ListValue))]
        if not _asked(machine, inner):
            return None
    func = getattr(Tensor, OF_OPERATORS.get(name, name))
    return (yield from overridden(machine, func, [receiver, *args], keywords))


def called_name(target: LibraryFunction) -> Any:
    """What programs call where a library function runs: `func` of the protocol."""
    return overriding.public(target)


# -- the method of Tensor --------------------------------------------------------------------------


def wrapped_call(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    """`Tensor.__torch_function__(cls, func, types, args, kwargs)`: the call, whose tensors become
    tensors of the class."""
    names = ("cls", "func", "types", "args", "kwargs")
    given = dict(zip(names, args, strict=False)) | keywords
    cls = as_python(machine, given["cls"])
    kinds = [as_python(machine, kind) for kind in (yield from machine.to_items(given["types"]))]
    if not all(issubclass(cls, kind) for kind in kinds):
        return NOT_IMPLEMENTED
    operands = (yield from machine.to_items(given["args"])) if "args" in given else []
    named = given.get("kwargs")
    pairs = dict_entries(machine, named).values() if isinstance(named, DictValue) else ()
    machine.unasked_blocks += 1
    try:
        result = yield from machine.call(
            given["func"], list(operands), {as_python(machine, key): item for key, item in pairs}
        )
    finally:
        machine.unasked_blocks -= 1
    existing = [operand for operand in operands if isinstance(operand, TensorValue)]
    return _of_class(machine, result, cls, existing)


def _of_class(machine: Machine, result: Value, cls: type, operands: list[TensorValue]) -> Value:
    if isinstance(result, TensorValue):
        return _tensor_of_class(machine, result, cls, operands)
    if isinstance(result, TupleValue):
        items = [_of_class(machine, item, cls, operands) for item in result.items]
        return TupleValue(tuple(items), result.cls)
    if isinstance(result, ListValue) and machine.recorder.existing(result) is None:
        items = [_of_class(machine, i, cls, operands) for i in list_items(machine, result)]
        machine.heap.write(result.identity, tuple(items))
    return result


def _tensor_of_class(
    machine: Machine, result: TensorValue, cls: type, operands: list[TensorValue]
) -> TensorValue:
    """A result that nobody else has yet, as a tensor of the class.

    Raises:
        GraphBreak: it is another tensor that the program has.
    """
    if issubclass(result.cls, cls):
        return result
    is_known = any(operand.identity == result.identity for operand in operands)
    if is_known or machine.recorder.existing(result) is not None:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"a plain tensor as a {cls.__qualname__}")
    return machine.recorder.with_class(result, cls)


def as_subclass(machine: Machine, value: TensorValue, cls: Any) -> TensorValue:
    """`value.as_subclass(cls)`: a view of all of it."""
    seen = machine.recorder.alias_of(value)
    return machine.recorder.with_class(seen, cls)


# -- functions of Tensor as objects ---------------------------------------------------------------


@functools.cache
def _methods() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in dir(Tensor):
        member = getattr(Tensor, name)
        is_bound = isinstance(lookup(Tensor, name), (staticmethod, classmethod))
        if callable(member) and not isinstance(member, type) and not is_bound:
            is_own = getattr(member, "__name__", None) == name
            if is_own or id(member) not in found:
                found[id(member)] = name
    return found


def method_name(target: Any) -> str | None:
    """The name of a method of tensors that is called as a function, as `Tensor.add(x, y)`."""
    name = _methods().get(id(target))
    return name if name is not None and getattr(Tensor, name, None) is target else None


def field_name(target: Any) -> str | None:
    """The name of what `Tensor.shape.__get__` and its likes read."""
    field = getattr(target, "__self__", None)
    if type(target) is not types.MethodWrapperType or target.__name__ != "__get__":
        return None
    is_field = isinstance(field, (types.GetSetDescriptorType, types.MemberDescriptorType, property))
    name = getattr(field, "__name__", None) or getattr(
        getattr(field, "fget", None), "__name__", None
    )
    return name if is_field and name and lookup(Tensor, name) is field else None
