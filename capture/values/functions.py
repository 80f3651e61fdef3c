"""Callables: functions made by the captured code, bound methods, cells, generators, super().

Functions that existed before are `Known`; their defaults and cells are read through sources.
"""

import functools
from dataclasses import field, replace
from types import (
    BuiltinMethodType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

from dynajit.capture.values.containers import HeapValue
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record


class FunctionValue(HeapValue):
    """A function made by the captured code; contents: FunctionContents."""

    __slots__ = ()


@record
class FunctionContents:
    """What MAKE_FUNCTION put together, and attributes written since."""

    code: CodeType
    namespace: Any
    defaults: Value | None = None
    keyword_defaults: Value | None = None
    closure: tuple["CellValue", ...] = ()
    annotations: Value | None = None  # up to 3.13: a tuple of names and annotations in turn
    annotate: Value | None = None  # from 3.14: a function that makes the annotations
    attributes: dict[str, Value] = field(default_factory=dict)
    updated_from: Value | None = None  # by `functools.update_wrapper`

    def replacing(self, name: str, value: Any) -> "FunctionContents":
        """A copy with one of the attributes that SET_FUNCTION_ATTRIBUTE sets."""
        if name == "closure":
            value = tuple(value.items)
        return replace(self, **{name: value})

    def with_attribute(self, name: str, value: Value) -> "FunctionContents":
        """A copy with an attribute written."""
        return replace(self, attributes={**self.attributes, name: value})


@record(eq=False)
class BoundMethod(Value):
    """`self.function`, bound."""

    function: Value
    self: Value
    source: Any = None
    is_method_object: bool = False  # made by `types.MethodType`, whatever the function is

    @property
    def python_type(self) -> type:
        if self.is_method_object:
            return MethodType
        return _type_when_bound(getattr(self.function, "object", None))


def _type_when_bound(raw: Any) -> type:
    """The class of what binding a function or a descriptor of a class gives."""
    if isinstance(raw, WrapperDescriptorType):
        return MethodWrapperType
    built_in = isinstance(raw, (MethodDescriptorType, ClassMethodDescriptorType))
    return BuiltinMethodType if built_in else MethodType


@record(eq=False)
class NativeMethod(Value):
    """A method of a modelled built-in object (list.append, str.join, Tensor.sum), bound."""

    receiver: Value
    name: str

    @property
    def python_type(self) -> type:
        for base in self.receiver.python_type.__mro__:
            if self.name in vars(base):
                raw = vars(base)[self.name]
                binds = isinstance(raw, (FunctionType, WrapperDescriptorType))
                return _type_when_bound(raw) if binds else BuiltinMethodType
        return BuiltinMethodType


class CellValue(HeapValue):
    """A closure cell; contents: its value, or UNBOUND. `name` is None for an existing cell."""

    __slots__ = ()


@record(eq=False)
class GeneratorValue(HeapValue):
    """A generator made by the captured code; contents: GeneratorState, or None when it ended.

    Args:
        names: `__name__` and `__qualname__`, those of its function at the time.
    """

    names: tuple[Value, ...] = ()


@record
class GeneratorState:
    """A suspended generator: what a frame is made of, its saved state, and the heap id of the
    exception that it is handling.
    """

    body: Any
    code: CodeType
    namespace: Any
    closure: tuple[CellValue, ...]
    frame: Any
    handled: int = 0


@record(eq=False)
class SuperValue(Value):
    """`super(cls, self)`."""

    cls: type
    receiver: Value

    @property
    def python_type(self) -> type:
        return super


@record(eq=False)
class PartialValue(Value):
    """`functools.partial(function, *args, **keywords)`.

    Args:
        is_method: a `partialmethod` of an instance: the bound function's instance is `__self__`.
    """

    function: Value
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    source: Any = None
    is_method: bool = False

    @property
    def python_type(self) -> type:
        return functools.partial
