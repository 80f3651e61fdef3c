"""The exact TypeError of an operation that Python refuses because of its operands' types.

The message is asked of Python itself: the operation runs on stand-ins, empty objects of the same
types, which can only fail for reasons that lie in the types. So every version has its own words.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, Final, NoReturn

from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    as_python,
    defines,
    is_known,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.values.containers import DictValue, ListValue, SetValue, TupleValue
from dynajit.capture.values.functions import (
    BoundMethod,
    CellValue,
    FunctionValue,
    GeneratorValue,
    NativeMethod,
)
from dynajit.capture.values.symbolic import Opaque, Value
from dynajit.capture.values.tensors import TensorValue

#: What a C function may ask of an argument; operators are asked before.
_PROTOCOLS: Final = (
    "__index__", "__int__", "__float__", "__complex__", "__iter__", "__len__", "__getitem__",
    "__bytes__", "__fspath__", "__buffer__",
)  # fmt: skip


#: Views and iterators without items, by class.
_MAKERS: Final[tuple[Callable[[], Any], ...]] = (
    {}.keys, {}.values, {}.items, [].__iter__, ().__iter__, {}.__iter__, set().__iter__,
    "".__iter__, b"".__iter__, range(0).__iter__, {}.values().__iter__, {}.items().__iter__,
    zip, functools.partial(enumerate, ()), functools.partial(map, str, ()),
    functools.partial(filter, None, ()),
)  # fmt: skip
_EMPTY: Final = {type(make()): make for make in _MAKERS}


def stand_in(machine: Machine, value: Value) -> Any:
    """An object of the same type without contents; the object itself where it is known."""
    if is_known(value):
        return as_python(machine, value)
    kind = type_of(machine, value)
    if isinstance(value, (ListValue, DictValue, SetValue)):
        return kind()
    if isinstance(value, TupleValue) and kind is tuple:
        return ()
    if isinstance(value, FunctionValue):
        return lambda: None
    if isinstance(value, BoundMethod) and value.python_type is types.MethodType:
        return types.MethodType(lambda self: None, object())
    if isinstance(value, (BoundMethod, NativeMethod)):
        return [].append if value.python_type is types.BuiltinMethodType else [].__len__
    if isinstance(value, GeneratorValue):
        return (None for _ in ())
    if kind in _EMPTY:
        return _EMPTY[kind]()
    if kind is object or kind is types.SimpleNamespace:
        return kind()  # lacks what a class of the same name, made in Python, has
    if isinstance(value, (Opaque, TensorValue, CellValue)) or any(
        defines(kind, n) for n in _PROTOCOLS
    ):
        raise unsupported("types", value)
    return type(type_name(kind), (), {"__module__": kind.__module__})()


def refuse(
    machine: Machine,
    what: str,
    function: Callable[..., Any],
    values: list[Value],
    keywords: dict[str, Value] | None = None,
) -> NoReturn:
    """Raise what `function` raises on operands of these types, in the captured program.

    Raises:
        Raised: the TypeError.
        GraphBreak: Python accepts the types, or a tensor is among the operands.
    """
    if not any(isinstance(value, TensorValue) for value in values):
        arguments = [stand_in(machine, value) for value in values]
        named = {name: stand_in(machine, value) for name, value in (keywords or {}).items()}
        try:
            function(*arguments, **named)
        except TypeError as error:
            raise_python(machine, TypeError, *error.args)
        except Exception as error:
            # a matter of contents, which the stand-ins lack
            raise unsupported(what, *values) from error
    raise unsupported(what, *values)


def check_count(
    machine: Machine,
    function: Callable[..., Any],
    args: list[Value],
    keywords: dict[str, Value],
    low: int,
    high: int | None,
    names: tuple[str, ...] = (),
) -> None:
    """Refuse a call of a built-in function with a wrong number or wrong names of arguments.

    Raises:
        Raised: Python's own TypeError.
        GraphBreak: Python accepts the call all the same.
    """
    wrong_names = any(name not in names for name in keywords)
    count = len(args) + len(keywords)
    if wrong_names or count < low or (high is not None and count > high):
        refuse(machine, getattr(function, "__name__", "call"), function, args, keywords)
