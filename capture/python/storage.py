"""Instances of classes derived from built-in ones: methods of the built-in class on their storage.

`super().__setitem__(key, item)`, `counter.items()` or `text + "!"` reach the built-in class's own
method with an instance as receiver; here it works on the storage (`capture.values.storage`), and
what it returns is what Python returns. Methods of the derived class are inlined as for every other
class.
"""

import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, defines, unsupported
from dynajit.capture.python.builtins.folded import call_folded, is_deeply_known
from dynajit.capture.python.builtins.table import special_call
from dynajit.capture.python.containers import store_subscript
from dynajit.capture.python.contents import dict_entries, dict_lookup, new_dict, new_list
from dynajit.capture.python.errors import check_count
from dynajit.capture.python.keys import token_in
from dynajit.capture.python.objects.fields import allocate
from dynajit.capture.python.sets import set_in_order
from dynajit.capture.values.containers import DictValue, ListValue, SetEntries, SetValue, TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.storage import (
    CHANGING,
    STORAGE,
    is_not_equal_to_itself,
    keeps,
    native_base,
    operand_of,
    storage_of,
)
from dynajit.capture.values.symbolic import NONE, NOT_IMPLEMENTED, Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.operators import BINARY, COMPARISONS

Arguments = list[Value]
Keywords = dict[str, Value]

#: Methods that take another operand: an instance of a derived class stands for its storage.
_OPERATORS: Final = frozenset(
    f"__{prefix}{name}__" for name in (*BINARY, "divmod") for prefix in ("", "r", "i")
) | frozenset(f"__{name}__" for name in COMPARISONS)

_NUMBERS: Final = (int, float, complex)

#: Methods that look at the instance, not at its storage.
_OF_OBJECT: Final = ("__getattribute__", "__setattr__", "__delattr__", "__init_subclass__")


# -- making --------------------------------------------------------------------------------------


def new_with_storage(
    machine: Machine, cls: type, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """`base.__new__(cls, *args, **keywords)` for a class derived from a built-in one."""
    base = native_base(cls)
    assert base is not None
    if base in CHANGING:
        contents: Any = SetEntries({}, is_plain=True) if base is set else {}
        made = allocate(machine, cls)
        inner = machine.heap.allocate(() if base is list else contents)
        storage = CHANGING[base](inner, base, None, made)
    else:
        is_own = cls.__init__ is not object.__init__  # type: ignore[misc]
        if base is tuple and is_own:
            keywords = {}  # those of the class's own `__init__`
        storage = yield from _unchanging(machine, base, args, keywords)
        made = allocate(machine, cls)
    machine.heap.write(made.identity, replace(machine.heap[made.identity], storage=storage))
    return made


def _unchanging(machine: Machine, base: type, args: Arguments, keywords: Keywords) -> Steps[Value]:
    if base is tuple:
        check_count(machine, tuple, args, keywords, 0, 1)
        return TupleValue(tuple((yield from machine.to_items(args[0])) if args else ()))
    if base is str and len(args) == 1 and not keywords:
        return constant((yield from machine.to_text(args[0], "str")))
    plain = [operand_of(machine, value) for value in args]
    if base is bytes:
        derived = [value for value in args if storage_of(machine, value) is not None]
        if not all(keeps(value, "__bytes__", "__index__") for value in derived):
            raise unsupported("bytes.__new__", *args)
        return _bytes(machine, plain, keywords)
    maker = special_call(machine, base)
    if maker is None:
        raise unsupported(f"{base.__name__}.__new__", *args)
    made = yield from maker(machine, plain, keywords)
    if not isinstance(made, (Constant, Scalar)):
        raise unsupported(f"{base.__name__}.__new__", *args)
    return made


def _bytes(machine: Machine, args: Arguments, keywords: Keywords) -> Value:
    if not all(is_deeply_known(machine, value) for value in (*args, *keywords.values())):
        raise unsupported("bytes.__new__", *args)
    return call_folded(machine, bytes, args, keywords)


# -- methods -------------------------------------------------------------------------------------


def storage_method(
    machine: Machine, receiver: ObjectValue, name: str, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """`base.name(receiver, *args, **keywords)` for a method of the built-in class."""
    storage = storage_of(machine, receiver)
    if storage is None:
        raise unsupported(name, receiver, *args)
    if name in _OF_OBJECT:
        return (yield from machine.call_object_method(name, receiver, args))
    if name == "__init__":
        return (yield from _initialise(machine, receiver, storage, args, keywords))
    if name == "__hash__" and is_not_equal_to_itself(storage):
        raise unsupported(name, receiver)  # that of a nan follows from the instance's address
    special = _SPECIAL.get((type(storage), name))
    if special is not None:
        return (yield from special(machine, receiver, storage, args))
    base = native_base(receiver.cls)
    if (base in (OrderedDict, defaultdict) and name in _OF_CLASS) or (
        base is OrderedDict and name in _BY_ITEM and not keeps(receiver, *_ITEM)
    ):
        raise unsupported(name, receiver, *args)
    if name in _BY_ITERATION and isinstance(storage, DictValue):
        mappings = [value for value in (receiver, *args) if _is_mapping(machine, value)]
        if not all(keeps(value, "__iter__") for value in mappings):
            raise unsupported(name, receiver, *args)  # asks `keys` and `__getitem__` instead
    if name == "__repr__" and isinstance(storage, SetValue):
        text = yield from machine.to_text(new_list(machine, set_in_order(machine, storage)), "repr")
        shown = text if text == "[]" else f"{{{text[1:-1]}}}"
        return constant(f"{receiver.cls.__name__}({shown if text != '[]' else ''})")
    if name in ("__repr__", "__str__") and not args:
        return constant((yield from machine.to_text(storage, name.strip("_"))))
    plain = _operands(machine, storage, name, args)
    if name in _OPERATORS and _declines(storage, plain):
        return NOT_IMPLEMENTED
    try:
        result = yield from machine.call_method(storage, name, plain, keywords)
    except Raised as raised:
        if raised.value.cls is not TypeError or plain == args:
            raise
        raise unsupported(name, receiver, *args) from None  # the message names the classes
    return receiver if result is storage and isinstance(storage, STORAGE) else result


#: Methods of OrderedDict and defaultdict that make or name an object of the instance's class.
_OF_CLASS: Final = ("copy", "__or__", "__ror__", "__repr__", "__copy__")


#: Methods of a dict that look at the storage of a mapping only where `__iter__` is dict's.
_BY_ITERATION: Final = ("copy", "__or__", "__ror__", "__ior__")


def _is_mapping(machine: Machine, value: Value) -> bool:
    return isinstance(storage_of(machine, value), DictValue)


#: Methods of OrderedDict that go through the item methods of a derived class.
_BY_ITEM: Final = ("setdefault", "pop", "popitem", "move_to_end", "clear")
_ITEM: Final = ("__getitem__", "__setitem__", "__delitem__", "__contains__")


def _operands(machine: Machine, storage: Value, name: str, args: Arguments) -> Arguments:
    """Arguments as a method in C takes them: derived numbers, texts and operands by storage."""
    if isinstance(storage, (Constant, Scalar)) or name in _OPERATORS:
        plain = [storage_of(machine, value) for value in args]
        changing = name in _OPERATORS
        return [
            value if found is None or (not changing and not isinstance(found, Constant)) else found
            for value, found in zip(args, plain, strict=True)
        ]
    return args


def _declines(storage: Value, args: Arguments) -> bool:
    """True if a number's operator returns NotImplemented for the other operand."""
    if not isinstance(storage, (Constant, Scalar)) or storage.python_type not in _NUMBERS:
        return False
    if isinstance(args[0], TensorValue) if args else False:
        return True
    return bool(args) and not issubclass(args[0].python_type, _NUMBERS)


def _initialise(
    machine: Machine, receiver: ObjectValue, storage: Value, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """`__init__` of the built-in class."""
    if native_base(receiver.cls) is defaultdict:
        factory, args = (args[0], args[1:]) if args else (NONE, [])
        if isinstance(factory, Constant) and factory.value is not None:
            raise_python(machine, TypeError, "first argument must be callable or None")
        contents: ObjectContents = machine.heap[receiver.identity]
        state = {**contents.state, "default_factory": factory}
        machine.heap.write(receiver.identity, replace(contents, state=state))
    if isinstance(storage, DictValue):
        check_count(machine, dict, args, {}, 0, 1)
        yield from _update(machine, receiver, storage, args, keywords)
    elif isinstance(storage, (ListValue, SetValue)):
        maker: Any = receiver.cls.__new__
        if storage.cls is list and maker is not list.__new__:
            keywords = {}  # those of the class's own `__new__`
        check_count(machine, storage.cls, args, keywords, 0, 1)
        if machine.heap[storage.identity] is None or machine.heap[storage.identity]:
            yield from machine.call_method(storage, "clear", [], {})
        if args:
            name = "extend" if isinstance(storage, ListValue) else "update"
            yield from machine.call_method(storage, name, args, {})
    return NONE


def _update(
    machine: Machine, receiver: ObjectValue, storage: Any, args: Arguments, keywords: Keywords
) -> Steps[None]:
    """`dict.update`; that of an OrderedDict stores through the instance's `__setitem__`."""
    if storage.cls is not OrderedDict or keeps(receiver, "__setitem__"):
        yield from machine.call_method(storage, "update", args, keywords)
        return
    made = new_dict(machine, [])
    yield from machine.call_method(made, "update", args, keywords)
    for key, item in dict_entries(machine, made).values():
        yield from store_subscript(machine, receiver, key, item)


def _dict_item(
    machine: Machine, receiver: ObjectValue, storage: Any, args: Arguments
) -> Steps[Value]:
    """`dict.__getitem__`: asks `__missing__` of the derived class."""
    check_count(machine, {}.__getitem__, args, {}, 1, 1)
    token = yield from token_in(machine, storage, args[0])
    found = dict_lookup(machine, storage, args[0], token)
    if found is not None:
        return found
    if defines(receiver.cls, "__missing__"):
        method = yield from machine.get_special(receiver, "__missing__")
        return (yield from machine.call(method, [args[0]], {}))
    raise_python(machine, KeyError, args[0])


def _default_item(
    machine: Machine, receiver: ObjectValue, storage: Any, args: Arguments
) -> Steps[Value]:
    """`defaultdict.__missing__`."""
    factory = default_factory(machine, receiver)
    if isinstance(factory, Constant) and factory.value is None:
        raise_python(machine, KeyError, args[0])
    made = yield from machine.call(factory, [], {})
    yield from store_subscript(machine, receiver, args[0], made)
    return made


def default_factory(machine: Machine, receiver: ObjectValue) -> Value:
    """The factory of an instance of a class derived from defaultdict."""
    contents: ObjectContents = machine.heap[receiver.identity]
    if "default_factory" in contents.written:
        return contents.written["default_factory"]
    if "default_factory" in contents.state:
        return contents.state["default_factory"]
    if contents.existing is None:
        return NONE
    place = sources.Attribute(machine.recorder.first_source(receiver), "default_factory")
    reader = vars(defaultdict)["default_factory"]
    factory: Value = machine.recorder.wrap(reader.__get__(contents.existing), place)
    machine.recorder.use(factory)
    return factory


def storage_attribute(machine: Machine, receiver: ObjectValue, name: str) -> Value | None:
    """A field of the built-in class, such as `real` of an int; None: it has no such field."""
    base = native_base(receiver.cls)
    raw = None if base is None else next(
        (vars(cls)[name] for cls in base.__mro__ if name in vars(cls)), None
    )  # fmt: skip
    if not isinstance(raw, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        return None
    if base is defaultdict and name == "default_factory":
        return default_factory(machine, receiver)
    storage = storage_of(machine, receiver)
    if not isinstance(storage, (Constant, Scalar)):
        return None
    return constant(getattr(as_python(machine, storage), name))


_Special = Callable[[Machine, ObjectValue, Any, Arguments], Steps[Value]]
_SPECIAL: Final[dict[tuple[type, str], _Special]] = {
    (CHANGING[dict], "__getitem__"): _dict_item,
    (CHANGING[dict], "__missing__"): _default_item,
}
