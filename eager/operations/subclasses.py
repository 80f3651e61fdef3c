"""Classes that programs derive from `Tensor`: operations keep the class, or ask it.

Contract: as in PyTorch, results of operations on a tensor of a derived class are of that class,
which is what `Tensor.__torch_function__` does (`wrapped_call`); a class with a method of that name
decides by itself. Parameters, buffers and sparse tensors override nothing. `ops.table.overriding`
says how calls come here. Such a class has a handler of its own, which is asked where a row gets one
of its tensors from code that the program did not call, such as a layer's.

What the C base of tensors keeps (`shape`, `dtype`, `grad` and their kin) is asked about by
properties of classes with a method of their own (`_ask_about_fields`). Gradients are computed
without asking.
"""

from collections.abc import Iterable
from types import FunctionType
from typing import Any, Final, TypeVar

from dynajit.core.errors import UnsupportedError
from dynajit.eager import _rows, _tensor
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.operations.execute import handle
from dynajit.ops.calls import autocast_words
from dynajit.ops.calls.arguments import is_operand
from dynajit.ops.methods.methods import OF_OPERATORS
from dynajit.ops.native._library_call import ask_no_class
from dynajit.ops.table import overriding

_T = TypeVar("_T")

#: Methods that make tensors of a class, or say what it is.
_NOT_ASKED: Final = frozenset((
    "__new__", "__init__", "__init_subclass__", "__torch_function__", "__dynajit_handler__",
    "__hash__", "__iter__", "__dir__", "__copy__", "__reduce_ex__", "_from_array",
    "_make_subclass", "as_subclass", "_filled",
))  # fmt: skip


def wrapped_call(
    cls: type, func: Any, types: Iterable[type], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """`func(*args, **kwargs)` with its tensors as tensors of class `cls`.

    Returns:
        NotImplemented where `cls` derives from one of `types` not: their own are asked.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    ask_no_class(1)  # as `overriding.classes_unasked`, which takes a microsecond more
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        ask_no_class(-1)
    return result if func in _KEPT_AS_THEY_ARE else _of_class(result, cls)


#: Getters whose tensors stay of the class that they have.
_KEPT_AS_THEY_ARE: Final = (_tensor.TensorBase.grad.__get__, _tensor.TensorBase._base.__get__)


def _of_class(result: Any, cls: type) -> Any:
    if isinstance(result, _tensor.TensorBase):
        return result if isinstance(result, cls) else result.as_subclass(cls)  # type: ignore[attr-defined]
    if type(result) in (list, tuple):
        return type(result)(_of_class(item, cls) for item in result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_of_class(item, cls) for item in result))
    return result


def _handle(op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run a row that got a tensor of a class that overrides functions."""
    if not overriding.are_classes_asked():
        return handle(op, inputs, attributes)
    return overriding.override_row(op, inputs, attributes)


def _refuse(op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Runs a row that got a tensor of a class that asks for more than there is."""
    names = {
        type(x).__qualname__ for x in inputs if getattr(x, "__dynajit_handler__", None) is _refuse
    }
    raise UnsupportedError(
        f"{op.name}: {', '.join(sorted(names))} defines __torch_dispatch__, which is not asked "
        "here.  Define __torch_function__ instead."
    )


def note_class(cls: Any) -> None:
    """Let a new class derived from `Tensor` be asked, unless it overrides nothing or has a handler
    of its own; operations on tensors of one with `__torch_dispatch__` are refused."""
    if hasattr(cls, "__torch_dispatch__") and cls.__dynajit_handler__ is handle:
        cls.__dynajit_handler__ = staticmethod(_refuse)
        cls.__dynajit_priority__ = overriding.PRIORITY
        return
    if cls.__torch_function__ is overriding.disabled_torch_function:
        return
    if cls.__dynajit_handler__ is handle:
        cls.__dynajit_handler__ = staticmethod(_handle)
        cls.__dynajit_priority__ = overriding.PRIORITY
    own = cls.__torch_function__
    if getattr(own, "__func__", own) is not _methods_of_plain[0]:
        _ask_about_fields(cls)


#: `Tensor.__torch_function__`, the function.
_methods_of_plain: list[Any] = []

_FIELDS: Final = (
    "_base", "_version", "device", "dtype", "grad", "grad_fn", "is_leaf", "ndim", "requires_grad",
    "retains_grad", "shape",
)  # fmt: skip
_WRITTEN: Final = frozenset(("grad", "requires_grad"))


def _ask_about_fields(cls: Any) -> None:
    """Let a class be asked when what the C base keeps is read, or written by programs."""
    for name in _FIELDS:
        field = vars(_tensor.TensorBase)[name]
        if getattr(cls, name) is field:
            getter = overriding.looking(field.__get__, name, cls)
            setter = overriding.looking(field.__set__, name, cls) if name in _WRITTEN else None
            setattr(cls, name, property(getter, setter, doc=field.__doc__))


def install_methods(tensor: type) -> None:
    """Let the methods and properties of `Tensor` be asked about once somebody overrides."""
    _methods_of_plain.append(tensor.__torch_function__.__func__)  # type: ignore[attr-defined]
    overriding.install(overriding.Eager(tensor, is_operand, _note_modes))
    _rows.register_overriding(_handle)
    for owner in tensor.__mro__[:-1]:
        for name, member in vars(owner).items():
            if name not in _NOT_ASKED and getattr(tensor, name) is _shown(member):
                _collect(tensor, name, member)


def _shown(member: Any) -> Any:
    """What the class gives for a member of it."""
    return member.__func__ if isinstance(member, staticmethod) else member


def _collect(tensor: type, name: str, member: Any) -> None:
    if isinstance(member, FunctionType):
        if getattr(tensor, member.__name__, None) is not member:
            member.__name__ = name  # what programs read of `func`
        called = getattr(tensor, OF_OPERATORS.get(name, name))
        overriding.collect(member, called, tensor)
    elif isinstance(member, property):
        for function, called in ((member.fget, member.__get__), (member.fset, member.__set__)):
            if isinstance(function, FunctionType):
                overriding.collect(function, called, tensor)


def is_asked(tensor: Any) -> bool:
    """Whether the class of a tensor overrides functions, or keeps itself in results."""
    return is_class_asked(type(tensor))


def is_class_asked(kind: Any) -> bool:
    """The same of a class."""
    return getattr(kind, "__dynajit_handler__", None) is _handle


def met(tensor: _T) -> _T:
    """A tensor of a derived class, the first perhaps: overriding begins."""
    if is_asked(tensor):
        overriding.begin()
    return tensor


def _note_modes(active: bool) -> None:
    _set_autocast_word(autocast_words.with_modes(_autocast_word(), active))


# Functions of this layer run for real where they are captured: code after them is captured anew.


def enter_mode(mode: Any) -> None:
    """`mode` sees the calls of this thread until `leave_mode`."""
    overriding.enter_mode(mode)


def leave_mode() -> None:
    """The end of `enter_mode`."""
    overriding.leave_mode()


def change_unasked(classes: int, is_off: bool | None = None) -> bool:
    """Let this thread be in so many more blocks that ask no class.

    Args:
        classes: how many more.
        is_off: whether modes are not asked either, from now on; None leaves that as it is.

    Returns:
        Whether modes were not asked before.
    """
    return overriding.change_unasked(classes, is_off)


__all__ = [
    "change_unasked",
    "enter_mode",
    "install_methods",
    "is_asked",
    "is_class_asked",
    "leave_mode",
    "met",
    "note_class",
    "wrapped_call",
]
