"""Which classes have instances that capture can model: what they add, where they keep state.

Nothing of an instance is read here and no user code runs. Called by `capture.recording`, when it
meets an object, and by the operations that make one.
"""

import types
from typing import Any

from dynajit.capture.by_class import remembered
from dynajit.capture.values_storage import native_base
from dynajit.eager import Size, Tensor


@remembered
def is_plain_tensor(kind: type) -> bool:
    """True for Tensor and subclasses that change nothing but how they are made and shown."""
    allowed = {"__new__", "__init__", "__repr__", "__deepcopy__", "__reduce__", "__doc__",
               "__module__", "__dict__", "__weakref__", "__annotations__", "__qualname__",
               "__static_attributes__", "__firstlineno__", "__slots__"}  # fmt: skip
    added = kind.__mro__[: kind.__mro__.index(Tensor)]
    return all(set(vars(cls)) <= allowed for cls in added)


def is_plain_tuple(kind: type) -> bool:
    """True for named tuples and other tuple classes that only add names."""
    if kind is Size:
        return True
    return hasattr(kind, "_fields") and kind.__getitem__ is tuple.__getitem__


def is_modelled_class(kind: Any) -> bool:
    """True if instances keep their state in an instance dict and slots of Python classes only."""
    return kind is object or (is_made_class(kind) and _reads_plainly(kind))


def _reads_plainly(kind: Any) -> bool:
    base = native_base(kind) or object
    return kind.__getattribute__ is base.__getattribute__


def is_made_class(kind: Any) -> bool:
    """The same for instances that the captured code makes: reading them may run user code."""
    if issubclass(kind, (BaseException, type)) or not kind.__flags__ & _HEAP_TYPE:
        return False
    if not _reads_plainly(kind) and not isinstance(kind.__getattribute__, types.FunctionType):
        return False
    return _has_plain_layout(kind) or native_base(kind) is not None


@remembered
def _has_plain_layout(kind: type) -> bool:
    """True if an instance is no bigger than its header, slots, dict and weak references need."""
    words = 2
    for cls in kind.__mro__[:-1]:
        slots = vars(cls).values()
        words += sum(isinstance(member, types.MemberDescriptorType) for member in slots)
    words += (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ <= words * 8


_HEAP_TYPE = 1 << 9
