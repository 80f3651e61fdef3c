"""Operators: arithmetic, comparison, unary operators, string formatting.

Methods of the executor (`x`), written as functions; see `capture.executor`.
"""

import operator
import types
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.exceptions import NotKnown, raise_python
from dynajit.capture.operations_basic import (
    Steps,
    as_python,
    defines,
    from_python,
    is_known,
    is_same,
    scalar_predicate,
    unsupported,
)
from dynajit.capture.operations_containers import boolean, fold, tokens
from dynajit.capture.values import FALSE, TRUE, Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values_containers import (
    DictValue,
    DictViewValue,
    ListValue,
    SetValue,
    TupleValue,
)
from dynajit.capture.values_functions import FunctionValue
from dynajit.capture.values_objects import ObjectValue
from dynajit.capture.values_tensors import TensorValue
from dynajit.eager import Size

BINARY: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "+": (operator.add, "add"),
    "-": (operator.sub, "sub"),
    "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"),
    "@": (operator.matmul, "matmul"),
    "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
    "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
}

COMPARISONS: Final[dict[str, tuple[Callable[[Any, Any], Any], str, str]]] = {
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}

#: Longer expressions of run-time numbers are specialised: they are written out as a tree.
MAX_SCALAR_OPERATIONS: Final = 16

UNARY: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


# -- binary --------------------------------------------------------------------------------------


def binary(x: Any, symbol: str, a: Value, b: Value) -> Steps:
    """`a symbol b`; `symbol` may be in-place, such as `+=`."""
    in_place = symbol.endswith("=")
    plain = symbol.removesuffix("=") if in_place else symbol
    function, name = BINARY[plain]
    if isinstance(a, TensorValue) and in_place:
        return x.tensor_in_place(a, function, [b], {})
    tensors = isinstance(a, TensorValue) or isinstance(b, TensorValue)
    if tensors and _is_number_or_tensor(a) and _is_number_or_tensor(b):
        return x.native_call(function, [a, b], {}, lift_numbers=True)
    if in_place and isinstance(a, (ListValue, SetValue, DictValue)):
        return (yield from _in_place_container(x, plain, a, b))
    if isinstance(a, (Constant, Scalar)) and isinstance(b, (Constant, Scalar)):
        return _numbers(x, plain, function, a, b)
    if isinstance(a, (TupleValue, ListValue)) or isinstance(b, (TupleValue, ListValue)):
        found = yield from _sequences(x, plain, a, b)
        if found is not None:
            return found
    if isinstance(a, DictValue) and isinstance(b, DictValue) and plain == "|":
        merged = {**x.dict_entries(a), **x.dict_entries(b)}
        return DictValue(x.heap.allocate(merged), a.cls)
    if isinstance(a, (SetValue, DictViewValue)) and isinstance(b, (SetValue, DictViewValue)):
        return _sets(x, plain, a, b)
    if isinstance(a, ObjectValue) or isinstance(b, ObjectValue):
        return (yield from _special_binary(x, name, in_place, a, b))
    if isinstance(a, Constant) and isinstance(a.value, str) and plain == "%":
        return (yield from _percent(x, a, b))
    if is_known(a) and is_known(b):
        return _fold_known(x, function, a, b)
    raise unsupported(symbol, a, b)


def _is_number_or_tensor(value: Value) -> bool:
    if isinstance(value, (TensorValue, Scalar)):
        return True
    return isinstance(value, Constant) and isinstance(value.value, (bool, int, float, complex))


def _fold_known(x: Any, function: Callable[..., Any], a: Value, b: Value) -> Value:
    try:
        result: Value = fold(x, function, a, b)
        return result
    except NotKnown:
        raise unsupported(function.__name__, a, b) from None


def _numbers(x: Any, symbol: str, function: Any, a: Value, b: Value) -> Value:
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        result = _run_time_number(x, symbol, function, a, b)
        if result is not None:
            return result
    return fold(x, function, a, b)


def _run_time_number(x: Any, symbol: str, function: Any, a: Any, b: Any) -> Value | None:
    """A number computed before the launch, for operations that cannot raise or change type."""
    for operand in (a, b):
        if type(operand.value) not in (int, float):
            return None
    safe = symbol in ("+", "-", "*")
    safe = safe or (symbol == "/" and isinstance(b, Constant) and b.value != 0
                    and type(a.value) is float)  # fmt: skip
    cost = sum(operand.size for operand in (a, b) if isinstance(operand, Scalar))
    if not safe or cost > MAX_SCALAR_OPERATIONS:
        return None
    for operand in (a, b):
        if isinstance(operand, Scalar):
            x.recorder.use_scalar_type(operand)
        else:
            x.recorder.use(operand)
    return Scalar(function(a.value, b.value), None, (symbol, (a, b)))


def _sequences(x: Any, symbol: str, a: Value, b: Value) -> Steps:
    if symbol == "+" and isinstance(a, TupleValue) and isinstance(b, TupleValue):
        x.recorder.use(a)
        x.recorder.use(b)
        return TupleValue(a.items + b.items, Size if a.cls is Size else tuple)
    if symbol == "+" and isinstance(a, ListValue) and isinstance(b, ListValue):
        return x.new_list(x.list_items(a) + x.list_items(b))
    if symbol == "*":
        sequence, count = (a, b) if isinstance(a, (TupleValue, ListValue)) else (b, a)
        if not is_known(count):
            return None
        times = as_python(x, count)
        items = yield from x.to_items(sequence)
        if not isinstance(times, int):
            raise_python(x, TypeError, "can't multiply sequence by non-int")
        repeated = tuple(items) * times
        return x.new_list(repeated) if isinstance(sequence, ListValue) else TupleValue(repeated)
    if symbol == "%" and isinstance(a, Constant):
        return (yield from _percent(x, a, b))
    if symbol == "+":
        left, right = a.python_type.__name__, b.python_type.__name__
        if isinstance(a, (TupleValue, ListValue)) and not isinstance(b, ObjectValue):
            raise_python(x, TypeError, f'can only concatenate {left} (not "{right}") to {left}')
    return None


def _percent(x: Any, template: Constant, values: Value) -> Steps:
    items = values.items if isinstance(values, TupleValue) else (values,)
    parts = []
    for item in items:
        parts.append(as_python(x, item) if is_known(item) else (yield from x.to_text(item)))
    return fold(x, lambda a: a % tuple(parts), template)


def _in_place_container(x: Any, symbol: str, a: Any, b: Value) -> Steps:
    if isinstance(a, ListValue) and symbol == "+":
        items = yield from x.to_items(b)
        x.heap.write(a.identity, x.list_items(a) + tuple(items))
        return a
    if isinstance(a, ListValue) and symbol == "*":
        x.heap.write(a.identity, x.list_items(a) * as_python(x, b))
        return a
    if isinstance(a, DictValue) and symbol == "|" and isinstance(b, DictValue):
        for key, item in x.dict_entries(b).values():
            x.dict_store(a, key, item)
        return a
    if isinstance(a, SetValue):
        result = _sets(x, symbol, a, b)
        x.heap.write(a.identity, x.heap[result.identity])
        return a
    raise unsupported(f"{symbol}=", a, b)


def _sets(x: Any, symbol: str, a: Any, b: Any) -> Value:
    left, right = tokens(x, a), tokens(x, b)
    operation = {"|": set.union, "&": set.intersection, "-": set.difference,
                 "^": set.symmetric_difference}.get(symbol)  # fmt: skip
    if operation is None:
        raise unsupported(symbol, a, b)
    keep = operation(set(left), set(right))
    merged = {key: item for key, item in {**right, **left}.items() if key in keep}
    return SetValue(x.heap.allocate(merged), set)


def _special_binary(x: Any, name: str, in_place: bool, a: Value, b: Value) -> Steps:
    attempts = [(a, f"__i{name}__", b)] if in_place else []
    forward, backward = (a, f"__{name}__", b), (b, f"__r{name}__", a)
    right_first = a.python_type is not b.python_type and issubclass(b.python_type, a.python_type)
    attempts += [backward, forward] if right_first else [forward, backward]
    for receiver, special, other in attempts:
        if not isinstance(receiver, ObjectValue) or not defines(receiver.cls, special):
            continue
        method = yield from x.get_special(receiver, special)
        result = yield from x.call(method, [other], {})
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    if isinstance(a, (TensorValue, Opaque)) or isinstance(b, (TensorValue, Opaque)):
        raise unsupported(name, a, b)
    left, right = a.python_type.__name__, b.python_type.__name__
    raise_python(x, TypeError, f"unsupported operand type(s): '{left}' and '{right}'")


# -- unary ---------------------------------------------------------------------------------------


def unary(x: Any, symbol: str, value: Value) -> Steps:
    """`-value`, `+value` or `~value`."""
    function, special = UNARY[symbol]
    if isinstance(value, TensorValue):
        return x.native_call(function, [value], {})
    if isinstance(value, Scalar) and symbol == "-":
        return (yield from binary(x, "-", Constant(-0.0 if value.python_type is float else 0),
                                  value))  # fmt: skip
    if isinstance(value, ObjectValue) and defines(value.cls, special):
        method = yield from x.get_special(value, special)
        return (yield from x.call(method, [], {}))
    if is_known(value):
        return fold(x, function, value)
    raise unsupported(special, value)


# -- comparison ----------------------------------------------------------------------------------


def compare(x: Any, symbol: str, a: Value, b: Value) -> Steps:
    """`a symbol b` for one of the six comparisons."""
    function, forward, backward = COMPARISONS[symbol]
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        return _compare_tensors(x, symbol, function, a, b)
    if isinstance(a, ObjectValue) or isinstance(b, ObjectValue):
        return (yield from _special_compare(x, symbol, forward, backward, a, b))
    if isinstance(a, Scalar) and isinstance(b, Constant) and _is_real(b.value):
        return boolean(scalar_predicate(x, a, symbol, _used(x, b)))
    if isinstance(b, Scalar) and isinstance(a, Constant) and _is_real(a.value):
        return boolean(scalar_predicate(x, b, _MIRROR[symbol], _used(x, a)))
    if isinstance(a, (TupleValue, ListValue)) and isinstance(b, (TupleValue, ListValue)):
        return (yield from _compare_sequences(x, symbol, a, b))
    if isinstance(a, DictValue) and isinstance(b, DictValue) and symbol in ("==", "!="):
        return (yield from _compare_dicts(x, symbol, a, b))
    if isinstance(a, (SetValue, DictViewValue)) and isinstance(b, (SetValue, DictViewValue)):
        return boolean(function(set(tokens(x, a)), set(tokens(x, b))))
    if is_known(a) and is_known(b):
        return fold(x, function, a, b)
    if symbol in ("==", "!=") and _equal_by_identity(a) and _equal_by_identity(b):
        return boolean(is_same(x, a, b) == (symbol == "=="))
    raise unsupported(symbol, a, b)


def _equal_by_identity(value: Value) -> bool:
    """True for values that can only equal values of their own family, or themselves."""
    families = (Known, Constant, Scalar, FunctionValue, ListValue, DictValue, SetValue, TupleValue)
    return isinstance(value, families)


_MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1 << 53


def _used(x: Any, value: Constant) -> Any:
    x.recorder.use(value)
    return value.value


def _compare_tensors(x: Any, symbol: str, function: Any, a: Value, b: Value) -> Value:
    if _is_number_or_tensor(a) and _is_number_or_tensor(b):
        result: Value = x.native_call(function, [a, b], {}, lift_numbers=True)
        return result
    if symbol in ("==", "!=") and isinstance(a, (Constant, Known)) != isinstance(
        b, (Constant, Known)
    ):
        x.type_of(a)
        x.type_of(b)
        return FALSE if symbol == "==" else TRUE
    raise unsupported(symbol, a, b)


def _special_compare(x: Any, symbol: str, forward: str, backward: str, a: Value, b: Value) -> Steps:
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        raise unsupported(symbol, a, b)
    attempts = [(a, forward, b), (b, backward, a)]
    if a.python_type is not b.python_type and issubclass(b.python_type, a.python_type):
        attempts.reverse()
    for receiver, special, other in attempts:
        method = _own_method(receiver, special)
        if method is None and special == "__ne__" and _own_method(receiver, "__eq__") is not None:
            equal = yield from _special_compare(x, "==", "__eq__", "__eq__", receiver, other)
            return boolean(not (yield from x.truth(equal)))
        if method is None:
            continue
        bound = yield from x.get_special(receiver, special)
        result = yield from x.call(bound, [other], {})
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    if symbol in ("==", "!="):
        return boolean(is_same(x, a, b) == (symbol == "=="))
    left, right = a.python_type.__name__, b.python_type.__name__
    raise_python(
        x, TypeError, f"'{symbol}' not supported between instances of '{left}' and '{right}'"
    )


def _own_method(value: Value, name: str) -> Any:
    """A special method written in Python, or None."""
    if not isinstance(value, ObjectValue):
        return None
    method = getattr(value.cls, name, None)
    return method if isinstance(method, types.FunctionType) else None


def _compare_sequences(x: Any, symbol: str, a: Any, b: Any) -> Steps:
    if isinstance(a, ListValue) != isinstance(b, ListValue):
        if symbol in ("==", "!="):
            return boolean(symbol == "!=")
        raise unsupported(symbol, a, b)
    left = yield from x.to_items(a)
    right = yield from x.to_items(b)
    if symbol in ("==", "!=") and len(left) != len(right):
        return boolean(symbol == "!=")
    for item, other in zip(left, right, strict=False):
        if item is other and not isinstance(item, Constant):
            continue
        equal = yield from compare(x, "==", item, other)
        if not (yield from x.truth(equal)):
            if symbol in ("==", "!="):
                return boolean(symbol == "!=")
            return (yield from compare(x, symbol, item, other))
    return boolean(COMPARISONS[symbol][0](len(left), len(right)))


def _compare_dicts(x: Any, symbol: str, a: DictValue, b: DictValue) -> Steps:
    left, right = x.dict_entries(a), x.dict_entries(b)
    same = set(left) == set(right)
    if same:
        for token, (_, item) in left.items():
            equal = yield from compare(x, "==", item, right[token][1])
            if not (yield from x.truth(equal)):
                same = False
                break
    return boolean(same == (symbol == "=="))


# -- text ----------------------------------------------------------------------------------------


def to_text(x: Any, value: Value, conversion: str = "str") -> Steps:
    """`str(value)`, `repr(value)` or `ascii(value)` as a Python str."""
    if is_known(value):
        known = as_python(x, value)
        return {"str": str, "repr": repr, "ascii": ascii}[conversion](known)
    if isinstance(value, ObjectValue):
        special = "__str__" if conversion == "str" else "__repr__"
        method = _own_method(value, special) or _own_method(value, "__repr__")
        if method is not None:
            bound = yield from x.get_special(value, method.__name__)
            result = yield from x.call(bound, [], {})
            return as_python(x, result)
    raise unsupported(conversion, value)


def format_value(x: Any, value: Value, specification: Value | None) -> Steps:
    """`format(value, specification)` as a value."""
    text = "" if specification is None else as_python(x, specification)
    if is_known(value):
        return fold(x, lambda known: format(known, text), value)
    plain = yield from to_text(x, value)
    return from_python(x, format(plain, text))
