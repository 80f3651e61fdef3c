"""Built-in functions that ask classes: `isinstance`, `issubclass`, and `divmod`, `round`.

Handlers of `capture.python.builtins.table`; see there.
"""

import abc
import builtins
import dataclasses
import reprlib
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.parts import rely_on_registrations
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    as_python,
    at_once,
    defines,
    is_known,
    is_none,
    is_not_implemented,
    type_of,
    unsupported,
)
from dynajit.capture.python.builtins.table import SPECIAL, SPECIAL_CODE, Handler, special
from dynajit.capture.python.containers import boolean, fold
from dynajit.capture.python.storage import new_with_storage
from dynajit.capture.python.truth import truth
from dynajit.capture.values.class_layouts import is_made_class, is_plain_tuple
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.storage import CHANGING, NATIVE, native_base
from dynajit.capture.values.symbolic import Constant, Known, Opaque, Value
from dynajit.capture.values.users_code import lookup


@special(isinstance)
def _isinstance(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    value, classes = args
    if not is_known(classes):
        raise unsupported("isinstance", value, classes)
    accepted = as_python(machine, classes)
    kind = type_of(machine, value)
    return boolean((yield from _is_one_of(machine, value, kind, accepted, "__instancecheck__")))


@special(issubclass)
def _issubclass(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    cls, classes = args
    if not (is_known(cls) and is_known(classes)):
        raise unsupported("issubclass", cls, classes)
    accepted, kind = as_python(machine, classes), as_python(machine, cls)
    return boolean((yield from _is_one_of(machine, cls, kind, accepted, "__subclasscheck__")))


def _is_one_of(machine: Machine, value: Value, kind: Any, accepted: Any, check: str) -> Steps[bool]:
    """`isinstance` (`kind` is the class of `value`) or `issubclass`, as a Python bool."""
    if is_plain_union(accepted):
        accepted = accepted.__args__
    if isinstance(accepted, tuple):
        for cls in accepted:
            if (yield from _is_one_of(machine, value, kind, cls, check)):
                return True
        return False
    by_instance = check == "__instancecheck__"
    if by_instance and kind is accepted:
        return True
    custom = lookup(type(accepted), check)
    by_registry = custom in (lookup(abc.ABCMeta, check), lookup(type(Protocol), check))
    if isinstance(custom, types.FunctionType) and not by_registry:
        result = yield from machine.call(Known(custom), [Known(accepted), value], {})
        return (yield from truth(machine, result))
    return (yield from _is_really_one_of(machine, value, kind, accepted, by_instance))


def _is_really_one_of(
    machine: Machine, value: Value, kind: Any, accepted: Any, by_instance: bool
) -> Steps[bool]:
    """`_is_one_of` of one class, without asking its metaclass."""
    if getattr(accepted, "_is_protocol", False) and type(accepted) is type(Protocol):
        return _has_protocol(machine, value, kind, accepted, by_instance)
    _refuse_hooks(kind, accepted)
    try:
        if by_instance and not isinstance(accepted, type):
            isinstance(None, accepted)  # raises what is wrong with it
        if issubclass(kind, accepted):
            return True
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)
    if issubclass(type(accepted), abc.ABCMeta):
        rely_on_registrations(machine)
    claimed = (yield from _claimed_class(machine, value, kind)) if by_instance else None
    return claimed is not None and issubclass(claimed, accepted)


def _check_of_type(check: Any, by_instance: bool) -> Handler:
    """`type.__instancecheck__(cls, value)`, which a metaclass's own check falls back on."""

    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        if keywords or len(args) != 2 or not is_known(args[0]):
            raise unsupported(check.__name__, *args)
        accepted, value = as_python(machine, args[0]), args[1]
        if not isinstance(accepted, type) or not (by_instance or is_known(value)):
            raise unsupported(check.__name__, *args)
        kind = type_of(machine, value) if by_instance else as_python(machine, value)
        found = yield from _is_really_one_of(machine, value, kind, accepted, by_instance)
        return boolean(found)

    return handler


SPECIAL[type.__instancecheck__] = _check_of_type(type.__instancecheck__, True)
SPECIAL[type.__subclasscheck__] = _check_of_type(type.__subclasscheck__, False)


def _claimed_class(machine: Machine, value: Value, kind: Any) -> Steps[type | None]:
    """What `value.__class__` says where it is not the class itself, or None."""
    reader = lookup(kind, "__getattribute__")
    ordinary = lookup(kind, "__class__") is vars(object)["__class__"]
    is_hidden = isinstance(value, Opaque) and reader is not object.__getattribute__
    if ordinary and not isinstance(reader, types.FunctionType) and not is_hidden:
        return None
    try:
        claimed = yield from machine.get_attribute(value, "__class__")
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return None
        raise
    if isinstance(claimed, Known) and isinstance(claimed.object, type):
        return None if claimed.object is kind else claimed.object
    if is_known(claimed):
        return None
    raise unsupported("isinstance", value, claimed)


def _has_protocol(
    machine: Machine, value: Value, kind: Any, accepted: Any, by_instance: bool
) -> bool:
    """A protocol whose methods the class has; anything else is asked of the object itself."""
    try:
        if issubclass(kind, accepted):
            return True
    except TypeError:
        raise unsupported("isinstance", value) from None
    if by_instance:
        raise unsupported("isinstance", value)
    return False


def is_plain_union(classes: Any) -> bool:
    """True for `A | B` of classes, which is asked one class after the other."""
    return isinstance(classes, types.UnionType) and all(
        isinstance(cls, type) and not isinstance(cls, types.GenericAlias)
        for cls in classes.__args__
    )


def _refuse_hooks(kind: Any, accepted: Any) -> None:
    """An abstract class that asks user code which classes belong to it.

    Raises:
        GraphBreak: it would be asked about `kind`.
    """
    if isinstance(accepted, types.UnionType):
        for cls in accepted.__args__:
            _refuse_hooks(kind, cls)
    if not isinstance(accepted, abc.ABCMeta) or not isinstance(kind, type):
        return
    _refuse_hook(accepted)
    if lookup(accepted, "__subclasses__") is not vars(type)["__subclasses__"] and any(
        "__subclasses__" in vars(base) for base in accepted.__mro__
    ):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{accepted.__qualname__}.__subclasses__")
    try:
        answer = accepted.__subclasshook__(kind)
    except TypeError:  # a protocol that nobody may ask
        raise GraphBreak(
            breaks.UNSUPPORTED_OPERATION, f"{accepted.__qualname__}.__subclasshook__"
        ) from None
    if answer is not NotImplemented or accepted in kind.__mro__:
        return
    ask: Callable[[Any], list[Any]] = type.__subclasses__
    for derived in ask(accepted):
        _refuse_hooks(kind, derived)


def _refuse_hook(cls: type) -> None:
    hook = getattr(cls.__subclasshook__, "__func__", None)
    root = (getattr(hook, "__module__", None) or "").partition(".")[0]
    if isinstance(hook, types.FunctionType) and root not in sys.stdlib_module_names:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{cls.__qualname__}.__subclasshook__")


@special(builtins.__build_class__)
@at_once
def _build_class(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise GraphBreak(breaks.CLASS_DEFINITION)


@special(divmod)
def _divmod(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if len(args) == 2 and not keywords:
        left, right = args
        for receiver, name, other in ((left, "__divmod__", right), (right, "__rdivmod__", left)):
            if isinstance(receiver, ObjectValue) and defines(receiver.cls, name):
                method = yield from machine.get_special(receiver, name)
                result = yield from machine.call(method, [other], {})
                if not is_not_implemented(machine, result):
                    return result
    if keywords or not all(is_known(value) for value in args):
        raise unsupported("divmod", *args)
    return fold(machine, divmod, *args)


@special(round)
def _round(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if args and isinstance(args[0], ObjectValue) and defines(args[0].cls, "__round__"):
        method = yield from machine.get_special(args[0], "__round__")
        digits = [*args[1:], *keywords.values()]
        if len(digits) == 1 and is_none(machine, digits[0]):
            digits.clear()
        return (yield from machine.call(method, digits, {}))
    operands = [*args, *keywords.values()]
    if not all(is_known(value) for value in operands) or set(keywords) - {"ndigits"}:
        raise unsupported("round", *args)
    return fold(machine, round, *operands)


def _native_new(base: type) -> Handler:
    def make(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        cls = as_python(machine, args[0]) if args and is_known(args[0]) else None
        if not isinstance(cls, type):
            raise unsupported(f"{base.__name__}.__new__", *args)
        if base is tuple and is_plain_tuple(cls) and len(args) < 3 and not keywords:
            items = (yield from machine.to_items(args[1])) if len(args) > 1 else ()
            return TupleValue(tuple(items), cls)
        if native_base(cls) is base and is_made_class(cls):
            return (yield from new_with_storage(machine, cls, args[1:], keywords))
        if cls is not base:
            raise unsupported(f"{base.__name__}.__new__", *args)
        given = ([], {}) if base in CHANGING else (args[1:], keywords)
        return (yield from machine.call(Known(base), *given))

    return make


for _base in NATIVE:
    SPECIAL[_base.__new__] = _native_new(_base)


# -- repr of dataclasses ---------------------------------------------------------------------------


def _recursive_repr(
    machine: Machine, wrapper: types.FunctionType, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """What `reprlib.recursive_repr` wraps around a `__repr__`: ends at objects being shown."""
    cells = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True))
    fill = cells["fillvalue"].cell_contents if "fillvalue" in cells else "..."
    if args[0].object_id in machine.being_shown:
        return Constant(fill)
    machine.being_shown.append(args[0].object_id)
    try:
        return (yield from machine.call(Known(cells["user_function"].cell_contents), args, {}))
    finally:
        machine.being_shown.pop()


for _wrap in (reprlib.recursive_repr(), getattr(dataclasses, "_recursive_repr", None)):
    if _wrap is not None:
        SPECIAL_CODE[_wrap(lambda self: "").__code__] = _recursive_repr
