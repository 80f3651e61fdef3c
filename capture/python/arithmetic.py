"""Operators: arithmetic, comparison, unary operators, string formatting.

Functions of the machine (`capture.machine.machine`).
"""

import inspect
import operator
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeGuard

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import NotKnown, Raised
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    as_python,
    defines,
    is_known,
    is_not_implemented,
    is_same,
    plain_number,
    same_object,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.builtins.dicts import to_pairs
from dynajit.capture.python.containers import boolean, compute, fold, to_index
from dynajit.capture.python.contents import (
    dict_entries,
    dict_store,
    items_of,
    list_items,
    live_items,
    new_list,
    put,
)
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.iteration import extend_list
from dynajit.capture.python.keys import key_token
from dynajit.capture.python.numbers import (
    function_of_numbers,
    is_size,
    size_arithmetic,
    size_comparison,
)
from dynajit.capture.python.sets import (
    IN_PLACE,
    OPERATIONS,
    change,
    combine,
    is_operand,
    operand_of_iterable,
    set_operand,
)
from dynajit.capture.python.tensors.arrays import beside_tensors, refuse_complex
from dynajit.capture.python.tensors.counts import beside_other_loops, compared_in_turn
from dynajit.capture.python.tensors.mutation import tensor_in_place
from dynajit.capture.python.tensors.native_calls import native_call, overrides
from dynajit.capture.python.tensors.overriding import overridden_method
from dynajit.capture.python.text.text import percent
from dynajit.capture.python.truth import guard_other_text, scalar_predicate, truth
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    TupleValue,
    UserKey,
)
from dynajit.capture.values.functions import BoundMethod, FunctionValue, GeneratorValue
from dynajit.capture.values.objects import ObjectValue, TracebackValue
from dynajit.capture.values.storage import keeps, native_base, operand_of, storage_of
from dynajit.capture.values.symbolic import (
    FALSE,
    TRUE,
    Constant,
    Known,
    Opaque,
    Scalar,
    Value,
    constant,
)
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import class_with_methods, inherits, lookup, user_method
from dynajit.core import operators
from dynajit.eager import Size
from dynajit.ops.methods.methods import number_divided

BINARY: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    operators.SYMBOLS[name]: (getattr(operator, f"__{name}__"), name) for name in operators.BINARY
}

COMPARISONS: Final[dict[str, tuple[Callable[[Any, Any], Any], str, str]]] = {
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}

UNARY: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    symbol: (getattr(operator, name), f"__{name}__") for name, symbol in operators.SIGNS.items()
}


# -- binary --------------------------------------------------------------------------------------


def binary(machine: Machine, symbol: str, a: Value, b: Value) -> Steps[Value]:
    """`a symbol b`; `symbol` may be in-place, such as `+=`."""
    in_place = symbol.endswith("=")
    plain = symbol.removesuffix("=") if in_place else symbol
    function, name = BINARY[plain]
    refuse_complex(symbol, a, b)
    a, b = beside_tensors(machine, name, a, b)
    found = yield from _overridden(machine, name, in_place, a, b)
    if found is not None:
        return found
    if isinstance(a, TensorValue) and in_place:
        return tensor_in_place(machine, a, function, [b], {})
    tensors = isinstance(a, TensorValue) or isinstance(b, TensorValue)
    if tensors and _is_number_or_tensor(machine, a) and _is_number_or_tensor(machine, b):
        if plain == "**" and _is_short_power(b):
            b = constant(machine.recorder.specialise(b))
        if plain == "/" and not isinstance(a, TensorValue):
            function = number_divided
        return native_call(machine, function, [a, b], {}, lift_numbers=True)
    is_asked_first = isinstance(b, ObjectValue) and defines(b.cls, f"__r{name}__")
    if in_place and isinstance(a, ListValue) and is_asked_first:
        return (yield from _special_binary(machine, name, in_place, a, b))
    if in_place and isinstance(a, (ListValue, SetValue, DictValue)):
        return (yield from _in_place_container(machine, plain, a, b))
    a = beside_other_loops(machine, a, b)
    if isinstance(a, (Constant, Scalar)) and isinstance(b, (Constant, Scalar)):
        return _numbers(machine, plain, _IN_PLACE[plain] if in_place else function, a, b)
    if isinstance(a, (TupleValue, ListValue)) or isinstance(b, (TupleValue, ListValue)):
        found = yield from _sequences(machine, plain, a, b)
        if found is not None:
            return found
    if isinstance(a, DictValue) and isinstance(b, DictValue) and plain == "|":
        if defaultdict in (a.cls, b.cls):
            raise unsupported("|", a, b)
        merged = dict(dict_entries(machine, a))
        for key, item in dict_entries(machine, b).values():
            put(machine, merged, key, item)
        ordered = OrderedDict in (a.cls, b.cls)
        return DictValue(machine.heap.allocate(merged), OrderedDict if ordered else dict)
    if (
        is_operand(a)
        and is_operand(b)
        and plain in OPERATIONS
        and not (isinstance(a, Constant) and isinstance(b, Constant))
    ):
        return combine(machine, function, [set_operand(machine, a), set_operand(machine, b)])
    if (
        isinstance(a, Constant)
        and isinstance(a.value, (str, bytes))
        and plain == "%"
        and not (_is_derived(b, a) and _overloads(b, a, "__rmod__"))
    ):
        return (yield from _formatted(machine, a, b))
    ways = (f"__{name}__", f"__r{name}__", f"__i{name}__")
    if any(class_with_methods(value, *ways) is not None for value in (a, b)):
        return (yield from _special_binary(machine, name, in_place, a, b))
    if isinstance(a, DictViewValue) and plain in OPERATIONS:
        return combine(
            machine,
            function,
            [set_operand(machine, a), (yield from operand_of_iterable(machine, b))],
        )
    if is_known(a) and is_known(b):
        return _fold_known(machine, _IN_PLACE[plain] if in_place else function, a, b)
    refuse(machine, symbol, _IN_PLACE[plain] if in_place else function, [a, b])


def _overridden(
    machine: Machine, name: str, in_place: bool, a: Value, b: Value
) -> Steps[Value | None]:
    """What an operator gives by a class of its operands (`__torch_function__`); None: none."""
    tensors = isinstance(a, TensorValue), isinstance(b, TensorValue)
    if not any(tensors) or not (overrides(a) or overrides(b)):
        return None
    if isinstance(a, TensorValue):
        if _is_number_or_tensor(machine, b) or overrides(b):
            way = f"__i{name}__" if in_place else f"__{name}__"
            return (yield from overridden_method(machine, a, way, [b], {}))
        return None
    if _is_number_or_tensor(machine, a) or not defines(a.python_type, f"__{name}__"):
        return (yield from overridden_method(machine, b, f"__r{name}__", [a], {}))
    return None


_IN_PLACE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    symbol: getattr(operator, f"i{function.__name__.strip('_')}")
    for symbol, (function, _) in BINARY.items()
}


def _formatted(machine: Machine, template: Constant, values: Value) -> Steps[Value]:
    """`template % values`."""
    storage = storage_of(machine, values)
    if isinstance(storage, TupleValue):
        values = storage  # the items of any tuple
    if isinstance(template.value, str):
        return (yield from percent(machine, template, values))
    if not is_known(values):
        raise unsupported("%", template, values)
    return _fold_known(machine, operator.mod, template, values)


def _is_number_or_tensor(machine: Machine, value: Value) -> bool:
    if isinstance(value, (TensorValue, Scalar)):
        return True
    value = plain_number(machine, value)
    return isinstance(value, Constant) and isinstance(value.value, (bool, int, float, complex))


def _fold_known(machine: Machine, function: Callable[..., Any], a: Value, b: Value) -> Value:
    try:
        result: Value = fold(machine, function, a, b)
        return result
    except NotKnown:
        raise unsupported(function.__name__, a, b) from None


def _numbers(machine: Machine, symbol: str, function: Any, a: Value, b: Value) -> Value:
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        size = size_arithmetic(machine, symbol, a, b)
        if size is not None:
            return size
        result = function_of_numbers(machine, symbol, [a, b])
        if result is not None:
            return result
    return fold(machine, function, a, b)


def _sequences(machine: Machine, symbol: str, a: Value, b: Value) -> Steps[Value | None]:
    if symbol == "+" and isinstance(a, TupleValue) and isinstance(b, TupleValue):
        machine.recorder.use(a)
        machine.recorder.use(b)
        for operand, other in ((a, b), (b, a)):
            if not operand.items and other.cls is tuple and operand.cls is not Size:
                return other  # Python makes no copy
        return TupleValue(a.items + b.items, Size if Size in (a.cls, b.cls) else tuple)
    if symbol == "+" and isinstance(a, ListValue) and isinstance(b, ListValue):
        return new_list(machine, list_items(machine, a) + list_items(machine, b))
    if symbol == "*":
        sequence, count = (a, b) if isinstance(a, (TupleValue, ListValue)) else (b, a)
        if isinstance(count, (TupleValue, ListValue)) or not defines(
            type_of(machine, count), "__index__"
        ):
            return None
        times = yield from to_index(machine, count, lambda n: [] * n, [count])
        items = yield from machine.to_items(sequence)
        if times == 1 and isinstance(sequence, TupleValue) and sequence.cls is tuple:
            return sequence  # Python makes no copy
        repeated = tuple(items) * times
        if isinstance(sequence, ListValue):
            return new_list(machine, repeated)
        is_size = isinstance(sequence, TupleValue) and sequence.cls is Size
        return TupleValue(repeated, Size if is_size else tuple)
    return None


def _list_times(count: Any) -> Any:
    items: list[Any] = []
    items *= count
    return items


def _in_place_container(machine: Machine, symbol: str, a: Any, b: Value) -> Steps[Value]:
    if isinstance(a, ListValue) and symbol == "+":
        yield from extend_list(machine, a, b)
        return a
    if isinstance(a, ListValue) and symbol == "*":
        times = yield from to_index(machine, b, _list_times, [b])
        machine.heap.write(a.identity, list_items(machine, a) * times)
        return a
    if isinstance(a, DictValue) and symbol == "|":
        for key, item in (yield from to_pairs(machine, b)):
            dict_store(machine, a, key, item)
        return a
    if isinstance(a, SetValue) and is_operand(b) and symbol in IN_PLACE:
        change(machine, a, IN_PLACE[symbol], [set_operand(machine, b)])
        return a
    refuse(machine, f"{symbol}=", _IN_PLACE[symbol], [a, b])


def _special_binary(
    machine: Machine, name: str, in_place: bool, a: Value, b: Value
) -> Steps[Value]:
    type_of(machine, a)
    type_of(machine, b)
    attempts = [(a, f"__i{name}__", b)] if in_place else []
    forward, backward = (a, f"__{name}__", b), (b, f"__r{name}__", a)
    is_plain = isinstance(a, (Known, Constant, Scalar))
    is_asked_backward = is_plain and isinstance(b, ObjectValue)  # a form of numbers
    if a.python_type is b.python_type and not is_asked_backward:
        attempts.append(forward)
    elif _is_derived(b, a) and _overloads(b, a, f"__r{name}__"):
        attempts += [backward, forward]
    else:
        attempts += [forward, backward]
    asked = []
    for receiver, special, other in attempts:
        cls = class_with_methods(receiver, special)
        if cls is None or not defines(cls, special):
            continue
        if special in ("__mul__", "__rmul__") and _repeats(receiver, special):
            continue  # a method that is there by name only: operators repeat the storage
        asked.append(receiver)
        method = yield from machine.get_special(receiver, special)
        result = yield from machine.call(method, [other], {})
        if not is_not_implemented(machine, result):
            return result
    is_declined = _have_all_declined(asked, a, b)
    if not is_declined and (name != "mod" or a.python_type is not str):
        plain = operand_of(machine, a), operand_of(machine, b)
        if plain != (a, b):
            symbol = _SYMBOLS[name]
            try:
                return (yield from binary(machine, f"{symbol}=" if in_place else symbol, *plain))
            except Raised as raised:
                if raised.value.cls is not TypeError:
                    raise
                raise unsupported(symbol, a, b) from None  # the message names the classes
    elif isinstance(a, Constant) and not is_declined:
        return (yield from percent(machine, a, b))
    function = getattr(operator, f"i{name}" if in_place else f"__{name}__")
    _refuse_objects(machine, name, function, a, b)


_SYMBOLS: Final = {name: symbol for symbol, (_, name) in BINARY.items()}


def _repeats(value: Value, special: str) -> bool:
    """True for an instance of a derived sequence that keeps the built-in class's method."""
    base = native_base(value.python_type)
    return base in (str, bytes, list, tuple) and keeps(value, special)


def _have_all_declined(asked: list[Value], a: Value, b: Value) -> bool:
    """True if methods of the classes of both operands were asked: no built-in one is left."""
    is_asked = [any(value is receiver for receiver in asked) for value in (a, b)]
    return all(is_asked) or (any(is_asked) and a.python_type is b.python_type)


def _refuse_objects(machine: Machine, name: str, function: Any, a: Value, b: Value) -> NoReturn:
    """The TypeError where no special method of the operands takes the other one."""
    containers = (TupleValue, ListValue, SetValue, DictValue, DictViewValue)
    for value in (a, b):
        is_text = isinstance(value, Constant) and isinstance(value.value, (str, bytes))
        if isinstance(value, containers) or (is_text and name == "mul"):
            refuse(machine, name, function, [a, b])  # an index or an iterable may be welcome
        is_instance = isinstance(value, Known) and not isinstance(value.object, type)
        if is_instance and any(defines(value.python_type, f"__{s}{name}__") for s in ("", "r")):
            raise unsupported(name, a, b)
    operands = [
        Known(type(type_name(value.python_type), (), {})())
        if isinstance(value, (ObjectValue, Known))
        else value
        for value in (a, b)
    ]
    for value in (a, b):
        type_of(machine, value)
    refuse(machine, name, function, operands)


def _is_derived(value: Value, other: Value) -> bool:
    """True if the class of `value` inherits from that of `other`; `register` does not count."""
    cls, base = value.python_type, other.python_type
    return cls is not base and inherits(cls, base)


def _overloads(value: Value, other: Value, special: str) -> bool:
    """True if a derived class has another method than its base: then it is tried first."""
    missing = object()
    method = inspect.getattr_static(value.python_type, special, missing)
    return method is not inspect.getattr_static(other.python_type, special, missing)


# -- unary ---------------------------------------------------------------------------------------


def unary(machine: Machine, symbol: str, value: Value) -> Steps[Value]:
    """`-value`, `+value` or `~value`."""
    function, special = UNARY[symbol]
    if isinstance(value, TensorValue):
        found = yield from overridden_method(machine, value, special, [], {})
        return native_call(machine, function, [value], {}) if found is None else found
    if isinstance(value, Scalar) and symbol == "-":
        return (yield from binary(machine, "-", Constant(-0.0 if value.python_type is float else 0),
                                  value))  # fmt: skip
    if isinstance(value, Scalar):
        number = function_of_numbers(machine, special.strip("_"), [value])
        if number is not None:
            return number
    cls = class_with_methods(value, special)
    if cls is not None and defines(cls, special):
        method = yield from machine.get_special(value, special)
        return (yield from machine.call(method, [], {}))
    if is_known(value) and cls is None:
        return compute(machine, function, value)
    refuse(machine, special, function, [value])


# -- comparison ----------------------------------------------------------------------------------


def compare(machine: Machine, symbol: str, a: Value, b: Value) -> Steps[Value]:
    """`a symbol b` for one of the six comparisons."""
    function, forward, backward = COMPARISONS[symbol]
    refuse_complex(symbol, a, b)
    a, b = beside_tensors(machine, symbol, a, b)
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        receiver, way, other = (a, forward, b) if isinstance(a, TensorValue) else (b, backward, a)
        if _is_number_or_tensor(machine, other) or overrides(other):
            found = yield from overridden_method(machine, receiver, way, [other], {})
            if found is not None:
                return found
        return _compare_tensors(machine, symbol, function, a, b)
    a = beside_other_loops(machine, a, b)
    decision = compared_in_turn(machine, symbol, a, b)
    if decision is not None:
        return decision
    ways = (forward, backward, "__eq__") if forward == "__ne__" else (forward, backward)
    if any(class_with_methods(value, *ways) is not None for value in (a, b)):
        return (yield from _special_compare(machine, symbol, forward, backward, a, b))
    if is_size(a) or is_size(b) or (isinstance(a, Scalar) and isinstance(b, Scalar)):
        outcome = size_comparison(machine, symbol, a, b)
        if outcome is not None:
            return boolean(outcome)
    if isinstance(a, Scalar) and isinstance(b, Constant) and _is_real(b.value):
        return boolean(scalar_predicate(machine, a, symbol, _used(machine, b)))
    if isinstance(b, Scalar) and isinstance(a, Constant) and _is_real(a.value):
        return boolean(scalar_predicate(machine, b, _MIRROR[symbol], _used(machine, a)))
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        condition = function_of_numbers(machine, symbol, [a, b])
        if condition is not None:
            return condition
    if symbol in ("==", "!=") and guard_other_text(machine, a, b):
        return boolean(symbol == "!=")
    if isinstance(a, (TupleValue, ListValue)) and isinstance(b, (TupleValue, ListValue)):
        return (yield from _compare_sequences(machine, symbol, a, b))
    if isinstance(a, DictValue) and isinstance(b, DictValue) and symbol in ("==", "!="):
        return (yield from _compare_dicts(machine, symbol, a, b))
    if is_operand(a) and is_operand(b):
        return boolean(
            function(set(set_operand(machine, a).members), set(set_operand(machine, b).members))
        )
    if user_method(a, forward, "__eq__") or user_method(b, backward, "__eq__"):
        raise unsupported(symbol, a, b)
    if symbol in ("==", "!=") and isinstance(a, Known) and isinstance(b, Known):
        wrappers = (type(a.object), type(b.object)) == (types.MethodWrapperType,) * 2
        if wrappers and all(_is_descriptor(value.object.__self__) for value in (a, b)):
            return boolean(function(as_python(machine, a), as_python(machine, b)))
    if is_known(a) and is_known(b):
        return compute(machine, function, a, b)
    if symbol in ("==", "!=") and isinstance(a, BoundMethod) and isinstance(b, BoundMethod):
        type_of(machine, a)
        type_of(machine, b)
        same = is_same(machine, a.self, b.self) and is_same(machine, a.function, b.function)
        return boolean(same == (symbol == "=="))
    if symbol in ("==", "!=") and _equal_by_identity(a) and _equal_by_identity(b):
        type_of(machine, a)
        type_of(machine, b)
        return boolean(is_same(machine, a, b) == (symbol == "=="))
    refuse(machine, symbol, function, [a, b])


def _is_descriptor(owner: Any) -> bool:
    """True for what a class in C stores: comparing what is bound to it runs no user's code."""
    return isinstance(owner, (types.GetSetDescriptorType, types.MemberDescriptorType, property))


def _equal_by_identity(value: Value) -> bool:
    """True for values that can only equal values of their own family, or themselves."""
    families = (
        Known, Constant, Scalar, FunctionValue, ListValue, DictValue, SetValue, TupleValue,
        GeneratorValue, IteratorValue, TracebackValue,
    )  # fmt: skip
    return isinstance(value, families)


_MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1 << 53


def _used(machine: Machine, value: Constant) -> Any:
    machine.recorder.use(value)
    return value.value


SHORT_POWERS: Final = frozenset((-2, -1, -0.5, 0.5, 1, 2, 3))
"""Exponents for which `ops.pow` is a product or a root, of other bits than a power. Whole powers
have bits of their own, too, which code generation sees by the type of an integer only."""


def _is_short_power(exponent: Value) -> TypeGuard[Scalar]:
    """True for a run-time number that is worth a guard as an exponent."""
    if not isinstance(exponent, Scalar) or exponent.symbolic is not None:
        return False
    value = exponent.value
    return value in SHORT_POWERS or (isinstance(value, float) and value.is_integer())


def _compare_tensors(machine: Machine, symbol: str, function: Any, a: Value, b: Value) -> Value:
    if _is_number_or_tensor(machine, a) and _is_number_or_tensor(machine, b):
        result: Value = native_call(machine, function, [a, b], {}, lift_numbers=True)
        return result
    if symbol in ("==", "!=") and isinstance(a, (Constant, Known)) != isinstance(
        b, (Constant, Known)
    ):
        type_of(machine, a)
        type_of(machine, b)
        return FALSE if symbol == "==" else TRUE
    raise unsupported(symbol, a, b)


def _special_compare(
    machine: Machine, symbol: str, forward: str, backward: str, a: Value, b: Value
) -> Steps[Value]:
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        raise unsupported(symbol, a, b)
    type_of(machine, a)
    type_of(machine, b)
    attempts = [(a, forward, b), (b, backward, a)]
    if _is_derived(b, a):
        attempts.reverse()
    for receiver, special, other in attempts:
        storage = storage_of(machine, other)
        if storage is not None and _is_of_family(receiver, storage):
            direct = symbol if receiver is a else _MIRROR[symbol]
            return (yield from compare(machine, direct, receiver, storage))
        cls = class_with_methods(receiver, special, "__eq__")
        if cls is None or not _compares(cls, special):
            continue
        is_inverted = special == "__ne__" and not _compares(cls, special, inherited=False)
        bound = yield from machine.get_special(receiver, "__eq__" if is_inverted else special)
        result = yield from machine.call(bound, [other], {})
        if is_not_implemented(machine, result):
            continue
        return boolean(not (yield from truth(machine, result))) if is_inverted else result
    if symbol in ("==", "!="):
        return boolean(is_same(machine, a, b) == (symbol == "=="))
    refuse(machine, symbol, COMPARISONS[symbol][0], [a, b])


def _is_of_family(value: Value, storage: Value) -> bool:
    """True if a value of a built-in class compares itself with what a derived class keeps."""
    if isinstance(value, ObjectValue):
        return False
    kind, kept = value.python_type, storage.python_type
    related = kept in kind.__mro__ or kind in kept.__mro__
    return related or any(kind in family and kept in family for family in _FAMILIES)


#: Classes that compare themselves with each other, and do not derive from each other.
_FAMILIES: Final = ((bool, int, float, complex), (set, frozenset))


def _compares(cls: type, special: str, inherited: bool = True) -> bool:
    """True if a class has a comparison of its own.

    Args:
        special: the method.
        inherited: `!=` counts as well where only `==` is defined: object.__ne__ inverts it.
    """
    if not defines(cls, special):
        return False
    if lookup(cls, special) is not vars(object)[special]:
        return True
    return inherited and special == "__ne__" and _compares(cls, "__eq__")


#: Pairs of items of existing lists: each is guarded, which takes longer than comparing them.
LONGEST_COMPARED: Final = 1000


def _existed(machine: Machine, value: Any) -> bool:
    source = value.source if isinstance(value, TupleValue) else machine.recorder.existing(value)
    return source is not None


def _compare_sequences(machine: Machine, symbol: str, a: Any, b: Any) -> Steps[Value]:
    if isinstance(a, ListValue) != isinstance(b, ListValue):
        type_of(machine, a)
        type_of(machine, b)
        if symbol in ("==", "!="):
            return boolean(symbol == "!=")
        operands = [new_list(machine, []), TupleValue(())]
        is_list = isinstance(a, ListValue)
        refuse(machine, symbol, COMPARISONS[symbol][0], operands if is_list else operands[::-1])
    if symbol in ("==", "!=") and len(items_of(machine, a)) != len(items_of(machine, b)):
        return boolean(symbol == "!=")
    count = min(len(items_of(machine, a)), len(items_of(machine, b)))
    if count > LONGEST_COMPARED and (_existed(machine, a) or _existed(machine, b)):
        raise GraphBreak(breaks.LIMIT, f"comparing {count} items")
    pairs = zip(live_items(machine, a), live_items(machine, b), strict=False)
    for position, ((_, item), (_, other)) in enumerate(pairs):
        if same_object(machine, item, other):
            continue
        equal = yield from compare(machine, "==", item, other)
        if (yield from truth(machine, equal)):
            continue
        left, right = items_of(machine, a), items_of(machine, b)
        if position >= min(len(left), len(right)):
            break  # the comparison has shortened a list: the lengths decide
        if symbol in ("==", "!="):
            return boolean(symbol == "!=")
        return (yield from compare(machine, symbol, left[position], right[position]))
    return boolean(COMPARISONS[symbol][0](len(items_of(machine, a)), len(items_of(machine, b))))


def _compare_dicts(machine: Machine, symbol: str, a: DictValue, b: DictValue) -> Steps[Value]:
    left, right = dict_entries(machine, a), dict_entries(machine, b)
    same = len(left) == len(right)
    if a.cls is OrderedDict and b.cls is OrderedDict:
        if any(isinstance(token, UserKey) for token in (*left, *right)):
            raise unsupported(symbol, a, b)
        same = list(left) == list(right)
    if same:
        for token, (key, item) in left.items():
            found = token if token in right else (yield from key_token(machine, right, key))
            if found not in right:
                same = False
                break
            if same_object(machine, item, right[found][1]):
                continue
            equal = yield from compare(machine, "==", item, right[found][1])
            if not (yield from truth(machine, equal)):
                same = False
                break
    return boolean(same == (symbol == "=="))
