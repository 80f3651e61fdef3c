"""Which classes have instances that capture can model: what they add, where they keep state.

Nothing of an instance is read here and no user code runs.
"""

import types
from typing import Any, Final

from dynajit.capture.values.by_class import remembered
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.storage import native_base
from dynajit.eager import Size, Tensor
from dynajit.eager.operations.subclasses import is_class_asked

#: Special names that class statements of all kinds leave in the dict of a class.
_OF_STATEMENTS: Final = frozenset(
    {"__new__", "__repr__", "__slots__", "__doc__", "__module__", "__annotations__", "__dict__",
     "__weakref__", "__qualname__", "__orig_bases__", "__firstlineno__", "__static_attributes__",
     "__parameters__", "__init_subclass__", "__annotate__", "__annotate_func__",
     "__annotations_cache__", "__classdictcell__"}
)  # fmt: skip


@remembered
def is_plain_tensor(kind: type) -> bool:
    """True for Tensor and subclasses that change nothing but how they are made and shown.

    Those that override functions, or keep their class, have a `__dynajit_handler__`.
    """
    allowed = _OF_STATEMENTS | {"__init__", "__deepcopy__", "__reduce__", "__torch_function__"}
    added = kind.__mro__[: kind.__mro__.index(Tensor)]
    return all(set(vars(cls)) <= allowed for cls in added)


#: Special names that say nothing about what operators and reads of attributes do.
_QUIET: Final = _OF_STATEMENTS | {
    "__init__", "__str__", "__format__", "__deepcopy__", "__copy__", "__reduce__",
    "__reduce_ex__", "__setstate__", "__torch_function__", "__dynajit_handler__",
    "__dynajit_priority__",
}  # fmt: skip


@remembered
def is_modelled_tensor(kind: type) -> bool:
    """True for plain tensors, and for those of classes that override functions, which may add
    methods and attributes: operators and `__getattr__` of their own are not modelled.
    """
    if is_plain_tensor(kind):
        return True
    added = kind.__mro__[: kind.__mro__.index(Tensor)]
    names = {name for cls in added for name in vars(cls)}
    special = {name for name in names if name.startswith("__") and name.endswith("__")}
    is_plain = type(kind) is type and special <= _QUIET
    return is_class_asked(kind) and is_plain and "__torch_dispatch__" not in names


#: Special names in the dict of a named tuple that change nothing about what operators do.
_NAMING: Final = _OF_STATEMENTS | {
    "__getnewargs__", "__match_args__", "__replace__", "__class_getitem__", "__type_params__",
    "__abstractmethods__",
}  # fmt: skip


@remembered
def is_plain_tuple(kind: type) -> bool:
    """True for named tuples that only add names; one with operators of its own is an object."""
    if kind is Size:
        return True
    if not issubclass(kind, tuple) or not any("_fields" in vars(cls) for cls in kind.__mro__):
        return False
    added = kind.__mro__[: kind.__mro__.index(tuple)]
    special = {name for cls in added for name in vars(cls) if name.startswith("__")}
    return special <= _NAMING


def is_modelled_class(kind: Any) -> bool:
    """True if instances keep their state in an instance dict and slots of Python classes only.

    Of those written in C: plain objects, and namespaces, whose own operators are not modelled. A
    `__getattribute__` in Python is code like any other.
    """
    return kind is object or kind is types.SimpleNamespace or is_made_class(kind)


def _reads_plainly(kind: Any) -> bool:
    base = native_base(kind) or object
    return kind.__getattribute__ is base.__getattribute__


def is_made_class(kind: Any) -> bool:
    """The same for instances that the captured code makes."""
    if issubclass(kind, (BaseException, type)) or not is_heap_type(kind):
        return False
    name = "__getattribute__"
    reader = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
    if not _reads_plainly(kind) and not isinstance(reader, types.FunctionType):
        return False
    return _has_plain_layout(kind) or native_base(kind) is not None


@remembered
def _has_plain_layout(kind: type) -> bool:
    """True if an instance is no bigger than its header, slots, dict and weak references need.

    Classes written in C may have a dict that nothing shows, such as `typing.ParamSpec` on 3.12.
    """
    if kind.__dictoffset__ and not any("__dict__" in vars(cls) for cls in kind.__mro__):
        return False
    words = 2
    for cls in kind.__mro__[:-1]:
        slots = vars(cls).values()
        words += sum(isinstance(member, types.MemberDescriptorType) for member in slots)
    words += (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ <= words * 8
