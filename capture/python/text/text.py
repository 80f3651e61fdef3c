"""`str`, `repr`, `ascii`, `format`, `%`: text of values, containers and exceptions included.

Functions of the machine (`capture.machine.machine`).
"""

import _string
import functools
import itertools
import operator
import re
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.parts import part, rely_on_names
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.immutables import is_pure_method
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    as_python,
    defines,
    is_known,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.containers import check_digits, fold, subscript
from dynajit.capture.python.contents import dict_entries, list_items, new_list, view_items
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.exceptions import exception_text
from dynajit.capture.python.results import call_special
from dynajit.capture.python.sets import set_in_order
from dynajit.capture.python.text.later import shown_number, text_of
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.objects import ExceptionValue, InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import storage_of
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import class_with_methods, is_quiet, lookup, own_method

_FORMAT: Final = vars(object)["__format__"]

_PERCENT_LETTERS: Final = "diouxXeEfFgGcrsa"

_CONVERSIONS: Final[dict[str, Callable[[Any], str]]] = {"str": str, "repr": repr, "ascii": ascii}

#: One conversion of a `%` template: key, flags, width, precision, letter.
_PERCENT: Final = re.compile(r"%(?:\((.*?)\))?([-#0 +]*)(\*|\d+)?(?:\.(\*|\d+))?[hlL]?(.)")


def _shows_itself(value: Known, conversion: str) -> bool:
    """True if the text of an object known by identity is made by the user's own code."""
    if conversion == "str" and class_with_methods(value, "__str__") is not None:
        return True
    is_plain = lookup(type(value.object), "__str__") is vars(object)["__str__"]
    asks_repr = conversion != "str" or is_plain
    return asks_repr and class_with_methods(value, "__repr__") is not None


def to_text(machine: Machine, value: Value, conversion: str = "str") -> Steps[str]:
    """`str(value)`, `repr(value)` or `ascii(value)` as a Python str."""
    if isinstance(value, Known) and _shows_itself(value, conversion):
        return (yield from _object_text(machine, value, conversion))
    if is_known(value) and (is_quiet(value) or isinstance(value, Known)):
        rely_on_names(machine, value)
        known = as_python(machine, value)
        check_digits([known])
        return _CONVERSIONS[conversion](known)
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "the text of a tensor")
    if isinstance(value, ObjectValue):
        return (yield from _object_text(machine, value, conversion))
    text = yield from _container_text(machine, value, ())
    return _escaped(text, conversion)


def _escaped(text: str, conversion: str) -> str:
    if conversion == "ascii" and not text.isascii():
        return text.encode("ascii", "backslashreplace").decode("ascii")
    return text


def _object_text(machine: Machine, value: Value, conversion: str) -> Steps[str]:
    if isinstance(value, ExceptionValue):
        return (yield from exception_text(machine, value, conversion))
    method = own_method(value, "__str__" if conversion == "str" else "__repr__")
    storage = storage_of(machine, value)
    if method is None and conversion == "str" and storage is not None and keeps_text(storage):
        return (yield from to_text(machine, storage, "str"))
    if method is None:
        method = own_method(value, "__repr__")
    if method is not None:
        bound = yield from machine.get_special(value, method.__name__)
        result = yield from machine.call(bound, [], {})
        if type_of(machine, result) is not str:
            name = "__str__" if conversion == "str" else "__repr__"
            kind = type_name(result.python_type)
            if issubclass(result.python_type, str):
                raise unsupported(conversion, value)  # the result is that object
            raise_python(machine, TypeError, f"{name} returned non-string (type {kind})")
        return _escaped(as_python(machine, result), conversion)
    if storage is None:
        raise unsupported(conversion, value)
    bound = yield from machine.get_special(value, "__repr__")
    return _escaped(as_python(machine, (yield from machine.call(bound, [], {}))), conversion)


def keeps_text(storage: Value | None) -> bool:
    """True for what `str` of an instance of a derived class takes as it is."""
    return storage is not None and storage.python_type is str


def _container_text(machine: Machine, value: Value, above: tuple[Any, ...]) -> Steps[str]:
    """`repr` of a container; `above` are the heap ids of the containers around it."""
    if isinstance(value, (ListValue, TupleValue, DictValue, SetValue)) and not isinstance(
        value, InstanceDictValue
    ):
        if value.object_id in above and value.object_id is not None:
            shown: dict[type, str] = {list: "[...]", set: "set(...)", OrderedDict: "..."}
            return shown.get(value.python_type, "{...}")
        if value.object_id is not None:
            above = (*above, value.object_id)
    if isinstance(value, ListValue):
        return f"[{', '.join((yield from _texts(machine, list_items(machine, value), above)))}]"
    if isinstance(value, TupleValue):
        return (yield from _tuple_text(machine, value, above))
    if isinstance(value, DictValue):
        return (yield from _dict_text(machine, value, above))
    if isinstance(value, SetValue):
        items = yield from _texts(machine, set_in_order(machine, value), above)
        return f"{{{', '.join(items)}}}" if items else "set()"
    if isinstance(value, DictViewValue):
        place = (value.kind, value.dictionary.object_id)
        if place in above:
            raise unsupported("repr", value)  # the same view, or another of the same dict
        above = (*above, place)
        inner = yield from _container_text(
            machine, new_list(machine, view_items(machine, value)), above
        )
        return f"dict_{value.kind}({inner})"
    if isinstance(value, SliceValue):
        parts = yield from _texts(machine, (value.start, value.stop, value.step), above)
        return f"slice({', '.join(parts)})"
    return (yield from to_text(machine, value, "repr")) if _has_text(value) else _no_text(value)


def _has_text(value: Value) -> bool:
    return is_known(value) or isinstance(value, (ObjectValue, TensorValue))


def _no_text(value: Value) -> str:
    raise unsupported("repr", value)


def _texts(machine: Machine, values: Any, above: tuple[Any, ...]) -> Steps[list[str]]:
    texts = []
    for value in values:
        texts.append((yield from _container_text(machine, value, above)))
    return texts


def _tuple_text(machine: Machine, value: TupleValue, above: tuple[Any, ...]) -> Steps[str]:
    texts = yield from _texts(machine, value.items, above)
    machine.recorder.use(value)
    fields = getattr(value.cls, "_fields", None)
    if fields is not None and len(fields) == len(texts):
        own = value.cls.__repr__
        if not isinstance(own, types.FunctionType) or own.__module__ not in (
            "collections", f"namedtuple_{value.cls.__name__}",
        ):  # fmt: skip
            raise unsupported("repr", value)
        machine.recorder.use(part(machine, Known(value.cls), "__name__"))
        shown = ", ".join(f"{name}={text}" for name, text in zip(fields, texts, strict=True))
        return f"{value.cls.__name__}({shown})"
    if value.cls is not tuple:
        raise unsupported("repr", value)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _dict_text(machine: Machine, value: DictValue, above: tuple[Any, ...]) -> Steps[str]:
    pairs = []
    for key, item in dict_entries(machine, value).values():
        left = yield from _container_text(machine, key, above)
        right = yield from _container_text(machine, item, above)
        pairs.append((left, right))
    shown = "{" + ", ".join(f"{left}: {right}" for left, right in pairs) + "}"
    if value.cls is OrderedDict:
        if not pairs:
            return "OrderedDict()"
        if list(OrderedDict(a=1).__repr__())[12] == "[":
            inner = ", ".join(f"({left}, {right})" for left, right in pairs)
            return f"OrderedDict([{inner}])"
        return f"OrderedDict({shown})"
    if value.cls is not dict:
        raise unsupported("repr", value)
    return shown


# -- format --------------------------------------------------------------------------------------


def format_value(machine: Machine, value: Value, specification: Value | None) -> Steps[Value]:
    """`format(value, specification)` as a value."""
    value = shown_number(machine, value)
    later = text_of(machine, format, [value, *([specification] if specification else ())])
    if later is not None:
        return later
    if specification is not None and type_of(machine, specification) is not str:
        refuse(machine, "format", format, [value, specification])
    text = "" if specification is None else as_python(machine, specification)
    if isinstance(value, Known) and class_with_methods(value, "__format__") is not None:
        method = yield from machine.get_special(value, "__format__")
        made = yield from machine.call(method, [constant(text)], {})
        if type_of(machine, made) is not str:
            raise unsupported("format", value)
        return made
    if isinstance(value, Known) and not is_quiet(value):
        if text:
            raise unsupported("format", value)
        return constant((yield from to_text(machine, value)))
    if text and isinstance(value, Known) and not is_pure_method(value.object, "__format__"):
        raise unsupported("format", value)  # asks the locale, or the decimal context
    if is_known(value) and is_quiet(value):
        rely_on_names(machine, value)
        return fold(machine, lambda known: format(known, text), value)
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "the text of a tensor")
    if own_method(value, "__format__") is not None:
        return (yield from call_special(machine, value, "__format__", constant(text)))
    storage = storage_of(machine, value)
    if text and isinstance(storage, (Constant, Scalar)):
        return (yield from format_value(machine, storage, specification))
    if text and lookup(type_of(machine, value), "__format__") is not _FORMAT:
        raise unsupported("format", value)
    if text:
        kind = type_name(type_of(machine, value))
        raise_python(machine, TypeError, f"unsupported format string passed to {kind}.__format__")
    return constant((yield from to_text(machine, value)))


class Shown:
    """Stands for a value whose text was computed before: any conversion gives that text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def percent(machine: Machine, template: Constant, values: Value) -> Steps[Value]:
    """`template % values` for a str."""
    later = text_of(machine, operator.mod, [template, values])
    if later is not None:
        return later
    inner = storage_of(machine, values)
    values = inner if isinstance(inner, TupleValue) else values
    if is_known(values) and is_quiet(values):
        rely_on_names(machine, values)
        return fold(machine, lambda a, b: a % b, template, values)
    pattern = as_python(machine, template)
    letters = [found for found in _PERCENT.findall(pattern) if found[4] != "%"]
    if any("*" in (width, precision) for _, _, width, precision, _ in letters):
        raise unsupported("%", template, values)
    is_table = isinstance(values, (DictValue, ObjectValue))
    if is_table and any(letter == "(" for *_, letter in letters):  # a key without its end
        if len(letters) > 1:
            raise unsupported("%", template, values)
        return fold(machine, lambda a: a % {}, template)
    if any(key for key, *_ in letters):
        return (yield from _percent_of_mapping(machine, template, values, letters))
    if "%" in _PERCENT.sub("", pattern) or any(row[4] not in _PERCENT_LETTERS for row in letters):
        raise unsupported("%", template, values)
    is_mapping = not isinstance(values, TupleValue) and defines(values.python_type, "__getitem__")
    if is_mapping and not letters:
        type_of(machine, values)
        return fold(machine, lambda a: a % {}, template)  # a mapping need not be used
    items = values.items if isinstance(values, TupleValue) else (values,)
    conversions = [letter for *_, letter in letters]
    parts = []
    for position, item in enumerate(items):
        letter = conversions[position] if position < len(conversions) else ""
        parts.append((yield from _percent_part(machine, item, letter)))
    return fold(machine, lambda a: a % tuple(parts), template)


def _percent_of_mapping(
    machine: Machine, template: Constant, values: Value, letters: Any
) -> Steps[Value]:
    if not isinstance(values, (DictValue, ObjectValue)) or not all(
        key and "(" not in key for key, *_ in letters
    ):
        raise unsupported("%", template, values)
    found: dict[str, Any] = {}
    for key, *_, letter in letters:
        item = yield from subscript(machine, values, constant(key))
        part = yield from _percent_part(machine, item, letter)
        if key in found and isinstance(part, Shown):
            raise unsupported("%", template, values)
        found[key] = part
    return fold(machine, lambda a: a % found, template)


def _percent_part(machine: Machine, item: Value, letter: str) -> Steps[Any]:
    if is_known(item) and is_quiet(item):
        rely_on_names(machine, item)
        return as_python(machine, item)
    if not letter:
        return None  # one too many, which is an error once the others are shown
    conversion = {"s": "str", "r": "repr", "a": "ascii"}.get(letter)
    if conversion is None:
        refuse(machine, "%", lambda value: f"%{letter}" % (value,), [item])
    return Shown((yield from to_text(machine, item, conversion)))


# -- str.format ----------------------------------------------------------------------------------


def format_template(
    machine: Machine, template: Value, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`template.format(*args, **keywords)`."""
    names = tuple(keywords)
    function = functools.partial(_formatted, names)
    later = text_of(machine, function, [template, *keywords.values(), *args], str.format)
    if later is not None:
        return later
    pattern = as_python(machine, template)
    if all(is_known(value) and is_quiet(value) for value in (*args, *keywords.values())):
        for value in (*args, *keywords.values()):
            rely_on_names(machine, value)
        known = [as_python(machine, value) for value in args]
        named = {name: as_python(machine, value) for name, value in keywords.items()}
        return fold(machine, lambda text: text.format(*known, **named), template)
    try:
        fields = list(_string.formatter_parser(pattern))
    except ValueError as error:
        raise_python(machine, ValueError, *error.args)
    numbers = itertools.count()
    parts = []
    for literal, name, specification, conversion in fields:
        parts.append(literal)
        if name is None:
            continue
        value = yield from _field(machine, name, args, keywords, numbers)
        if conversion:
            if conversion not in _LETTERS:
                raise unsupported("str.format", template)
            value = constant((yield from to_text(machine, value, _LETTERS[conversion])))
        nested = specification
        if specification and "{" in specification:
            inner = constant(specification)
            nested = as_python(
                machine, (yield from _nested(machine, inner, args, keywords, numbers))
            )
        shown = yield from format_value(machine, value, constant(nested or ""))
        parts.append(as_python(machine, shown))
    return constant("".join(parts))


def _formatted(names: tuple[str, ...], template: str, *values: Any) -> str:
    """`template.format` of values, the first of which have names."""
    return template.format(*values[len(names) :], **dict(zip(names, values, strict=False)))


def converted(machine: Machine, value: Value, conversion: str) -> Steps[Value]:
    """`str(value)`, `repr(value)` or `ascii(value)` as a value."""
    later = text_of(machine, _CONVERSIONS[conversion], [value])
    if later is not None:
        return later
    return constant((yield from to_text(machine, value, conversion)))


_LETTERS: Final = {"s": "str", "r": "repr", "a": "ascii"}


def _nested(machine: Machine, inner: Value, args: Any, keywords: Any, numbers: Any) -> Steps[Value]:
    parts = []
    for literal, name, _, _ in _string.formatter_parser(as_python(machine, inner)):
        parts.append(literal)
        if name is not None:
            value = yield from _field(machine, name, args, keywords, numbers)
            parts.append((yield from to_text(machine, value)))
    return constant("".join(parts))


def _field(machine: Machine, name: str, args: Any, keywords: Any, numbers: Any) -> Steps[Value]:
    """The value of a replacement field: `0`, `name`, `0.attribute`, `name[key]`."""
    first, rest = _string.formatter_field_name_split(name)
    if first == "":
        first = next(numbers)
    if isinstance(first, int):
        if first >= len(args):
            message = f"Replacement index {first} out of range for positional args tuple"
            raise_python(machine, IndexError, message)
        value: Value = args[first]
    elif first in keywords:
        value = keywords[first]
    else:
        raise_python(machine, KeyError, first)
    for is_attribute, key in rest:
        if is_attribute:
            value = yield from machine.get_attribute(value, key)
        else:
            value = yield from subscript(machine, value, constant(key))
    return value
