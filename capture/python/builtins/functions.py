"""Built-in functions about attributes, types, numbers and text: `len`, `isinstance`, `sum`, ...

Handlers of `capture.python.builtins.table`; see there.
"""

import sys
from typing import Any

from dynajit.capture import _capture, breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_311
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.immutables import is_immutable
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.arithmetic import binary
from dynajit.capture.python.basic import (
    as_python,
    at_once,
    defines,
    is_known,
    is_none,
    type_of,
    unsupported,
)
from dynajit.capture.python.builtins.table import SPECIAL, Handler, special
from dynajit.capture.python.containers import boolean, fold
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.iteration import iterate, refuse_many
from dynajit.capture.python.objects.instances import super_value
from dynajit.capture.python.results import call_special, has_attribute, hash_by_method
from dynajit.capture.python.tensors.arrays import selected_number
from dynajit.capture.python.tensors.counts import (
    asked_in_turns,
    converted_count,
    held_number,
    is_count,
    is_number,
    selected_count,
)
from dynajit.capture.python.tensors.facts import number_in
from dynajit.capture.python.tensors.native_calls import native_method
from dynajit.capture.python.tensors.overriding import overridden_method
from dynajit.capture.python.text.text import converted, format_template, format_value
from dynajit.capture.python.truth import length, truth
from dynajit.capture.python.writing import delete_attribute
from dynajit.capture.values.containers import DictValue, ListValue, SetValue, TupleValue
from dynajit.capture.values.functions import BoundMethod, FunctionValue, NativeMethod, PartialValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.storage import is_not_equal_to_itself, keeps, storage_of
from dynajit.capture.values.symbolic import NONE, UNBOUND, Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import own_method

# -- size, type, attributes ----------------------------------------------------------------------


@special(len)
def _len(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return machine.size_value((yield from length(machine, args[0])))


@special(type)
@at_once
def _type(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) == 2 and not keywords:
        refuse(machine, "type", type, args)
    if len(args) != 1:
        raise GraphBreak(breaks.CLASS_DEFINITION, "type(name, bases, dict)")
    return Known(type_of(machine, args[0]))


def _name(machine: Machine, function: Any, args: list[Value]) -> Any:
    """The name that `function(object, name, ...)` is called with; a str."""
    name = as_python(machine, args[1])
    if type(name) is not str:
        rest = [NONE, *args[1:]]
        refuse(machine, function.__name__, function, rest)
    return name


@special(getattr)
def _getattr(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    name = _name(machine, getattr, args)
    try:
        return (yield from machine.get_attribute(args[0], name))
    except Raised as raised:
        if len(args) == 3 and issubclass(raised.value.cls, AttributeError):
            return args[2]
        raise


@special(hasattr)
def _hasattr(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return boolean((yield from has_attribute(machine, args[0], _name(machine, hasattr, args))))


@special(setattr)
def _setattr(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    yield from machine.set_attribute(args[0], _name(machine, setattr, args), args[2])
    return NONE


@special(delattr)
def _delattr(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    yield from delete_attribute(machine, args[0], _name(machine, delattr, args))
    return NONE


@special(callable)
@at_once
def _callable(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    value = args[0]
    if isinstance(value, (FunctionValue, BoundMethod, NativeMethod, PartialValue)):
        return boolean(True)
    if isinstance(value, Known):
        return boolean(callable(as_python(machine, value)))
    return boolean(defines(type_of(machine, value), "__call__"))


@special(vars)
def _vars(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if not args:
        raise GraphBreak(breaks.UNKNOWN_CALL, "vars()")
    try:
        return (yield from machine.get_attribute(args[0], "__dict__"))
    except Raised as raised:
        if not issubclass(raised.value.cls, AttributeError):
            raise
    raise_python(machine, TypeError, "vars() argument must have __dict__ attribute")


@special(id)
@at_once
def _id(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    check_count(machine, id, args, keywords, 1, 1)
    (value,) = args
    existing = machine.recorder.existing_of(value)
    source = getattr(value, "source", None)
    is_kept = isinstance(value, Known) or _capture.is_held_weakly(existing)
    if existing is None or not is_kept:  # guards would keep it alive
        raise unsupported("id", value)
    machine.recorder.use(value)
    if source is not None and not isinstance(source, sources.Constant):
        machine.recorder.guard(source, Kind.IDENTITY, existing, "id")
    return constant(id(existing))


@special(hash)
def _hash(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, hash, args, keywords, 1, 1)
    value = args[0]
    if is_known(value) and _has_lasting_hash(value):
        return fold(machine, hash, value)
    if isinstance(value, Known) and is_immutable(value.object):
        return fold(machine, hash, value)
    if isinstance(value, (ListValue, DictValue, SetValue)):
        refuse(machine, "hash", hash, args)
    if own_method(value, "__hash__") is not None:
        return constant((yield from hash_by_method(machine, value)))
    storage = storage_of(machine, value)
    if (
        storage is not None
        and is_known(storage)
        and keeps(value, "__hash__")
        and not is_not_equal_to_itself(storage)
    ):
        return fold(machine, hash, storage)
    raise unsupported("hash", *args)


def _has_lasting_hash(value: Value) -> bool:
    """True if the hash is a matter of the value, not of an address."""
    if isinstance(value, TupleValue):
        return all(_has_lasting_hash(item) for item in value.items)
    return isinstance(value, (Constant, Scalar))


@special(str.format)
def _str_format(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from format_template(machine, args[0], args[1:], keywords))


@special(super)
@at_once
def _super(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if not args:
        frame = machine.frames[-1]
        cell = frame.cells.get("__class__")
        if not frame.code.co_argcount:
            raise_python(machine, RuntimeError, "super(): no arguments")
        first = frame.code.co_varnames[0]
        receiver = frame.locals.get(first)
        if receiver is None and first in frame.cells:
            receiver = machine.cell_contents(frame.cells[first])
        if receiver is UNBOUND:
            raise_python(machine, RuntimeError, "super(): arg[0] deleted")
        if cell is None or receiver is None:
            raise unsupported("super", *args)
        args = [machine.cell_contents(cell), receiver]
    if len(args) != 2:
        raise unsupported("super", *args)  # one that is not bound, or an error
    return super_value(machine, args[0], args[1])


# -- numbers and text ----------------------------------------------------------------------------


def _number(cls: type) -> Handler:
    def convert(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        if len(args) == 1 and isinstance(args[0], TensorValue) and cls is not complex:
            number = number_in(machine, args[0])
            if number is not None:
                return (yield from convert(machine, [number], {}))
            count = asked_in_turns(machine, args[0], cls) if cls is not bool else None
            if count is not None:
                return count
        if len(args) == 1 and is_count(args[0]) and cls in (int, float):
            converted = converted_count(machine, args[0], cls)
            if converted is not None:
                return converted
        if args and isinstance(args[0], TensorValue):
            row = breaks.DATA_DEPENDENT_BRANCH if cls is bool else breaks.DATA_DEPENDENT_VALUE
            raise GraphBreak(row, f"{cls.__name__}(tensor)")
        if cls is bool and len(args) == 1:
            return boolean((yield from truth(machine, args[0])))
        if len(args) == 1 and isinstance(args[0], Scalar) and type_of(machine, args[0]) is cls:
            return args[0]
        if len(args) == 1 and isinstance(args[0], ObjectValue):
            return (yield from call_special(machine, args[0], f"__{cls.__name__}__"))
        if keywords or not all(is_known(value) for value in args):
            raise unsupported(cls.__name__, *args)
        text = args[0].value if args and isinstance(args[0], Constant) else None
        threshold = sys.int_info.str_digits_check_threshold
        if cls is int and isinstance(text, (str, bytes)) and len(text) > threshold:
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a number of many digits")
        return fold(machine, cls, *args)

    return convert


for _cls in (int, float, bool, complex):
    SPECIAL[_cls] = _number(_cls)


@special(str)
def _str(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if not args and not keywords:
        return constant("")
    if len(args) != 1 or keywords:
        raise unsupported("str", *args)
    return (yield from converted(machine, args[0], "str"))


@special(repr)
def _repr(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from converted(machine, args[0], "repr"))


@special(format)
def _format(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from format_value(machine, args[0], args[1] if len(args) > 1 else None))


@special(abs)
def _abs(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    value = args[0]
    if isinstance(value, TensorValue):
        found = yield from overridden_method(machine, value, "__abs__", [], {})
        return native_method(machine, value, "abs", [], {}) if found is None else found
    if isinstance(value, ObjectValue):
        method = yield from machine.get_special(value, "__abs__")
        return (yield from machine.call(method, [], {}))
    if not is_known(value):
        raise unsupported("abs", value)
    return fold(machine, abs, value)


@special(sum)
def _sum(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, sum, args, keywords, 1, 2, ("start",))
    total = args[1] if len(args) > 1 else keywords.get("start", constant(0))
    refuse_many(machine, args[0])
    iterator = yield from iterate(machine, args[0])
    if type_of(machine, total) in (str, bytes, bytearray):
        refuse(machine, "sum", lambda start: sum([], start), [total])
    numbers: list[Value] | None = [total] if type_of(machine, total) in (int, float) else None
    while (item := (yield from machine.advance(iterator))) is not None:
        if numbers is not None and _is_plain_number(item):
            numbers.append(item)
            continue
        if not IS_311 and is_count(item) and item.python_type is float:
            raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "a sum that makes up for rounding")
        if numbers is not None:
            total, numbers = (yield from _sum_of_numbers(machine, numbers)), None
        total = yield from binary(machine, "+", total, item)
    return total if numbers is None else (yield from _sum_of_numbers(machine, numbers))


def _is_plain_number(value: Value) -> bool:
    return isinstance(value, (Constant, Scalar)) and value.python_type in (int, float, bool)


def _sum_of_numbers(machine: Machine, numbers: list[Value]) -> Steps[Value]:
    """The sum from the left; from 3.12 on `sum` makes up for the rounding of three floats or more.

    Source: https://docs.python.org/3/whatsnew/3.12.html#other-language-changes
    """
    if not IS_311 and sum(number.python_type is float for number in numbers) > 2:
        return fold(machine, lambda start, *items: sum(items, start), *numbers)
    total = numbers[0]
    for number in numbers[1:]:
        total = yield from binary(machine, "+", total, number)
    return total


def refuse_empty(machine: Machine, function: Any) -> None:
    """Raise what `min` or `max` of nothing raises."""
    try:
        function([])
    except ValueError as error:
        raise_python(machine, ValueError, *error.args)


def _selected(machine: Machine, verdict: Value, a: Value, b: Value) -> Value | None:
    """`a` where a truth of the graph holds, else `b`; None: it is known, or they are no numbers."""
    if not is_count(verdict):
        return selected_number(machine, verdict, a, b)
    if not is_number(a) or not is_number(b):
        return None
    held = held_number(machine, verdict)
    return None if held is None else selected_count(machine, held, a, b)


def _extremum(symbol: str, function: Any) -> Handler:
    name = function.__name__

    def choose(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        check_count(machine, function, args, keywords, 1, None, ("key", "default"))
        if not args or (len(args) > 1 and "default" in keywords):
            refuse(machine, name, function, args, keywords)
        items = args if len(args) > 1 else (yield from machine.to_items(args[0]))
        if not items:
            if "default" in keywords:
                return keywords["default"]
            refuse_empty(machine, function)
        key = keywords.get("key", NONE)
        best, best_key = None, None
        has_key = not is_none(machine, key)
        for item in items:
            measure = item
            if has_key:
                measure = yield from machine.call(key, [item], {})
            if best_key is None:
                best, best_key = item, measure
                continue
            verdict = yield from machine.compare(symbol, measure, best_key)
            either = None if has_key or best is None else _selected(machine, verdict, item, best)
            if either is not None:
                best = best_key = either
            elif (yield from truth(machine, verdict)):
                best, best_key = item, measure
        assert best is not None
        return best

    return choose


SPECIAL[min] = _extremum("<", min)
SPECIAL[max] = _extremum(">", max)


def _quantifier(stop_at: bool) -> Handler:
    def decide(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        iterator = yield from iterate(machine, args[0])
        while (item := (yield from machine.advance(iterator))) is not None:
            if (yield from truth(machine, item)) == stop_at:
                return boolean(stop_at)
        return boolean(not stop_at)

    return decide


SPECIAL[any] = _quantifier(True)
SPECIAL[all] = _quantifier(False)
