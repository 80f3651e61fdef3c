"""Methods of built-in objects: lists, dicts, sets, tuples, strings, numbers, iterators.

`call_method` finds the handler by the receiver's family. Handlers are generators
`handler(x, receiver, args, keywords)`; they may run user code (a sort key, an iterator).
"""

import datetime
import types
from collections import OrderedDict, defaultdict
from typing import Any, Final, TypeGuard

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, describe, is_known, unsupported
from dynajit.capture.python.builtins.arguments import check_method_arguments
from dynajit.capture.python.builtins.dicts import DICT, dict_from_keys, dict_method, view_method
from dynajit.capture.python.builtins.folded import (
    bound_method,
    call_folded,
    deep_python,
    is_deeply_known,
)
from dynajit.capture.python.builtins.lists import LIST, list_method, tuple_method
from dynajit.capture.python.builtins.output import stream_method
from dynajit.capture.python.builtins.replaced import call_replaced, replacement
from dynajit.capture.python.builtins.sets import SET_METHODS, set_method
from dynajit.capture.python.builtins.specials import special_method
from dynajit.capture.python.builtins.table import special_call
from dynajit.capture.python.builtins.text import TEXT_METHODS, text_method
from dynajit.capture.python.containers import fold
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.exceptions import exception_method
from dynajit.capture.python.generators import (
    close_generator,
    resume_generator,
    throw_into,
    thrown_exception,
)
from dynajit.capture.python.numbers import function_of_numbers
from dynajit.capture.python.storage import storage_method
from dynajit.capture.python.tensors.overriding import field_name, overridden_method
from dynajit.capture.python.tensors.tensors import tensor_method
from dynajit.capture.python.text.output import is_stream
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, GeneratorValue
from dynajit.capture.values.objects import ExceptionValue, ObjectValue
from dynajit.capture.values.symbolic import NONE, Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.eager import Tensor

MOST_SUBCLASSES: Final = 64
"""Every one is looked at in every call: those of `object` are thousands, and change."""


def call_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`receiver.name(*args, **keywords)` for a built-in receiver."""
    if isinstance(receiver, TensorValue):
        found = yield from overridden_method(machine, receiver, name, args, keywords)
        if found is not None:
            return found
        function = getattr(Tensor, name, None)
        form = replacement(function)
        if form is not None:
            given = [receiver, *args]
            return (yield from call_replaced(machine, function, form, given, keywords))
        return tensor_method(machine, receiver, name, args, keywords)
    if isinstance(receiver, ExceptionValue):
        return (yield from exception_method(machine, receiver, name, args, keywords))
    if isinstance(receiver, ObjectValue):
        return (yield from storage_method(machine, receiver, name, args, keywords))
    check_method_arguments(machine, receiver, name, args, keywords)
    if isinstance(receiver, ListValue) and name in LIST:
        return (yield from list_method(machine, receiver, name, args, keywords))
    if isinstance(receiver, DictValue) and name in DICT:
        return (yield from dict_method(machine, receiver, name, args, keywords))
    if name in SET_METHODS and _is_set(receiver, args):
        return (yield from set_method(machine, receiver, name, args, keywords))
    if isinstance(receiver, DictViewValue):
        return (yield from view_method(machine, receiver, name, args, keywords))
    if isinstance(receiver, TupleValue):
        if name.startswith("__") and receiver.cls is tuple:
            return (yield from special_method(machine, receiver, name, args, keywords))
        return (yield from tuple_method(machine, receiver, name, args, keywords))
    if isinstance(receiver, GeneratorValue):
        if name in ("send", "close"):  # these do not tell their signatures
            count = int(name == "send")
            check_count(machine, getattr((None for _ in ()), name), args, keywords, count, count)
        return (yield from _generator_method(machine, receiver, name, args))
    if isinstance(receiver, IteratorValue):
        return (yield from _iterator_method(machine, receiver, name))
    if (
        isinstance(receiver, Constant)
        and name in TEXT_METHODS
        and (isinstance(receiver.value, (str, bytes)))
    ):
        return (yield from text_method(machine, receiver, name, args, keywords))
    if name == "__getnewargs__":
        raise unsupported(name, receiver)  # an equal copy: another object
    folded = bound_method(receiver, name)
    if folded is not None and all(is_deeply_known(machine, v) for v in (*args, *keywords.values())):
        return call_folded(machine, folded, args, keywords)
    if is_stream(receiver) and not keywords:
        return stream_method(machine, receiver, name, args)
    if name == "__get__" and isinstance(receiver, Known) and args:
        field = field_name(getattr(receiver.object, "__get__", None))
        if field is not None and isinstance(args[0], TensorValue):
            return (yield from machine.get_attribute(args[0], field))
    is_function = isinstance(getattr(receiver, "object", None), types.FunctionType)
    is_method = isinstance(receiver, BoundMethod)
    if name == "__get__" and (is_function or is_method) and len(args) in (1, 2) and not keywords:
        are_none = [is_known(arg) and as_python(machine, arg) is None for arg in args]
        if not all(are_none):
            return receiver if is_method or are_none[0] else BoundMethod(receiver, args[0])
    if name == "fromkeys" and isinstance(receiver, Known) and receiver.object is defaultdict:
        return (yield from _default_from_keys(machine, args, keywords))
    if name == "fromkeys" and _is_ordered_class(receiver) and set(keywords) == {"value"}:
        args, keywords = [*args, keywords["value"]], {}
    if name == "fromkeys" and _is_dict_class(receiver) and not keywords:
        return (yield from dict_from_keys(machine, receiver.object, args))
    if isinstance(receiver, Scalar) and not keywords:
        function = f"{receiver.python_type.__name__}.{name}"
        number = function_of_numbers(machine, function, [receiver, *args])
        if number is not None:
            return number
    if isinstance(receiver, Known) and type(receiver.object) is np.ufunc:
        handler = special_call(machine, getattr(receiver.object, name, None))
        if handler is not None:
            machine.recorder.use(receiver)
            return (yield from handler(machine, args, keywords))
    if isinstance(receiver, (Constant, Scalar, SliceValue, Known)):
        return _fold_method(machine, receiver, name, args, keywords)
    if isinstance(receiver, (ListValue, DictValue, SetValue)):
        return (yield from special_method(machine, receiver, name, args, keywords))
    raise unsupported(name, receiver, *args)


def _default_from_keys(
    machine: Machine, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`defaultdict.fromkeys(iterable, value)`: one that makes nothing."""
    if keywords:
        refuse(machine, "fromkeys", defaultdict.fromkeys, args, keywords)
    table = yield from dict_from_keys(machine, dict, args)
    return (yield from machine.call(Known(defaultdict), [NONE, table], {}))


def _is_ordered_class(receiver: Any) -> bool:
    return isinstance(receiver, Known) and receiver.object is OrderedDict


def _is_dict_class(receiver: Any) -> TypeGuard[Known]:
    return isinstance(receiver, Known) and receiver.object in (dict, OrderedDict)


def _is_set(receiver: Value, args: list[Value]) -> bool:
    if isinstance(receiver, SetValue):
        return True
    is_frozen = isinstance(receiver, Constant) and isinstance(receiver.value, frozenset)
    return is_frozen and not all(is_known(value) for value in args)


def _fold_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """A method of a known immutable object, computed now."""
    if name == "__subclasses__" and not args and not keywords:
        return _subclasses(machine, receiver)
    if isinstance(receiver, Known) and not _is_pure_method(receiver.object, name):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{describe(receiver)}.{name}")
    try:
        values = [_read_only(machine, value) for value in (receiver, *args)]
        named = {key: _read_only(machine, value) for key, value in keywords.items()}
    except NotKnown as error:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{name} with {error}") from None

    def apply(*_: Any) -> Any:
        return getattr(values[0], name)(*values[1:], **named)

    result: Value = fold(machine, apply, receiver)
    return result


def _subclasses(machine: Machine, receiver: Value) -> Value:
    """The classes that derive from a class directly: guard that there are no others later."""
    cls = getattr(receiver, "object", None)
    found: list[type] | None = type.__subclasses__(cls) if isinstance(cls, type) else None
    if found is None or len(found) > MOST_SUBCLASSES:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{describe(receiver)}.__subclasses__")
    machine.recorder.guard(sources.Constant(cls), Kind.SUBCLASSES, tuple(found), "subclasses")
    return from_python(machine, found)


def _read_only(machine: Machine, value: Value) -> Any:
    return (
        deep_python(machine, value)
        if is_deeply_known(machine, value)
        else as_python(machine, value)
    )


def _is_pure_method(obj: Any, name: str) -> bool:
    """Methods of classes and other known objects that only look things up."""
    if name == "mro":
        return isinstance(obj, type)
    dates = (datetime.date, datetime.datetime, datetime.time)
    makers: dict[str, tuple[type, ...]] = {
        "maketrans": (str, bytes), "from_bytes": (int,), "fromhex": (bytes, float),
        "fromisoformat": dates, "fromordinal": dates[:2], "combine": (datetime.datetime,),
    }  # fmt: skip
    return any(obj is cls for cls in makers.get(name, ()))  # others make an object of a user class


# -- text, iterators, generators -----------------------------------------------------------------


def _iterator_method(machine: Machine, receiver: IteratorValue, name: str) -> Steps[Value]:
    if name == "__iter__":
        return receiver
    if name == "__next__":
        item = yield from machine.advance(receiver)
        if item is None:
            raise_python(machine, StopIteration)
        return item
    raise unsupported(name, receiver)


def _generator_method(
    machine: Machine, receiver: GeneratorValue, name: str, args: list[Value]
) -> Steps[Value]:
    if name == "__iter__":
        return receiver
    if name in ("send", "__next__"):
        sent = args[0] if args else NONE
        item = yield from resume_generator(machine, receiver, sent)
        if item is None:
            raise_python(machine, StopIteration, *machine.generator_result(receiver))
        return item
    if name == "close" and not args:
        return (yield from close_generator(machine, receiver))
    if name == "throw" and args:
        raised = yield from thrown_exception(machine, args)
        item = yield from throw_into(machine, receiver, raised)
        if item is None:
            raise_python(machine, StopIteration, *machine.generator_result(receiver))
        return item
    raise unsupported(f"generator.{name}", *args)
