"""Instances of classes derived from built-in ones: what the built-in class keeps in them.

A `class Registry(dict)` is an object with attributes, and a dict inside: its storage. The storage
is a value of the built-in class's family with the owner's identity: it never shows up by itself,
only what the built-in class's own methods do with it does. See `capture.python.storage`.
"""

import types
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.values.by_class import remembered
from dynajit.capture.values.containers import DictValue, ListValue, SetValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.capture.machine.machine import Machine

#: Built-in classes whose instances' storage is modelled; a derived one before its base.
NATIVE: Final = (
    OrderedDict, defaultdict, dict, list, set, tuple, str, int, float, complex, bytes,
)  # fmt: skip

_IN_C: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


@record(eq=False)
class DictStorage(DictValue):
    """The dict inside an instance; `cls` is the built-in class."""

    owner: Any = None


@record(eq=False)
class ListStorage(ListValue):
    """The list inside an instance."""

    owner: Any = None


@record(eq=False)
class DequeItems(ListStorage):
    """The items of a deque that existed before."""


@record(eq=False)
class SetStorage(SetValue):
    """The set inside an instance."""

    owner: Any = None


#: Storage that changes, by the class that keeps it.
CHANGING: Final[dict[type, type[Any]]] = {
    dict: DictStorage, OrderedDict: DictStorage, defaultdict: DictStorage, list: ListStorage,
    set: SetStorage,
}  # fmt: skip

#: Handles of storage that changes.
STORAGE: Final = (DictStorage, ListStorage, SetStorage, DequeItems)


@remembered
def native_base(kind: type) -> type | None:
    """The built-in class that a class made in Python derives its instances' storage from."""
    base = next((cls for cls in kind.__mro__ if any(cls is known for known in NATIVE)), None)
    if base is None or base is kind:
        return None
    derived = [cls for cls in kind.__mro__ if cls not in base.__mro__]
    if not all(_is_made_in_python(cls, base) for cls in derived):
        return None
    words = (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0)
    for cls in derived:
        slots = vars(cls).values()
        words += sum(isinstance(member, types.MemberDescriptorType) for member in slots)
    return base if kind.__basicsize__ <= base.__basicsize__ + words * 8 else None


def _is_made_in_python(cls: type, base: type) -> bool:
    """True for a class without methods in C but those it took over from `base`."""
    if not is_heap_type(cls):
        return False
    members = vars(cls).values()
    foreign = (m for m in members if isinstance(m, _IN_C) and m.__objclass__ not in base.__mro__)
    maker = vars(cls).get("__new__")
    return not any(foreign) and not isinstance(maker, types.BuiltinFunctionType)


def plain(instance: Any) -> Any:
    """An instance's storage as an object: itself where it can change, else a plain copy."""
    base = native_base(type(instance))
    if base is None or base in CHANGING:  # None: of a deque
        return instance
    native: Any = base
    if native in (tuple, bytes):
        return native.__getitem__(instance, slice(None))
    if native is str:
        return str.__str__(instance)
    return native.__pos__(instance)


def storage_of(machine: "Machine", value: Value) -> Value | None:
    """What a built-in base class keeps in an instance; None for every other value.

    Args:
        machine: the symbolic machine.
    """
    if type(value) is not ObjectValue:
        return None
    storage: Value | None = machine.heap[value.identity].storage
    if storage is not None:
        machine.recorder.use(value)
    return storage


def is_not_equal_to_itself(storage: Value | None) -> bool:
    """True for a nan, which hashes by identity."""
    plain = getattr(storage, "value", None)
    return type(plain) in (float, complex) and plain != plain


def operand_of(machine: "Machine", value: Value) -> Value:
    """The storage of an instance of a derived class; every other value as it is."""
    storage = storage_of(machine, value)
    return value if storage is None else storage


def keeps(value: Value, *names: str) -> bool:
    """True if a derived class leaves methods of its built-in class alone."""
    kind = value.python_type
    base = native_base(kind)
    return base is not None and all(
        getattr(kind, name, None) is getattr(base, name, None) for name in names
    )
