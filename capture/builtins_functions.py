"""Built-in functions and classes that the executor knows: `len`, `range`, `isinstance`, ...

`SPECIAL` maps the object called to a handler `handler(x, args, keywords)`, a generator that
returns the result's value. `PURE` are C functions and classes without effects, computed on the
spot when everything is known.
"""

import builtins
import functools
import itertools
import math
import operator
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture import breaks, control
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.exceptions import Raised, raise_python
from dynajit.capture.operations_arithmetic import BINARY, COMPARISONS, UNARY
from dynajit.capture.operations_basic import Steps, as_python, is_known, unsupported
from dynajit.capture.operations_containers import boolean
from dynajit.capture.values import NONE, Constant, Known, Scalar, Value, constant
from dynajit.capture.values_containers import (
    DictValue,
    EnumerateIterator,
    FilterIterator,
    ListValue,
    MapIterator,
    SetValue,
    SliceValue,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values_functions import (
    BoundMethod,
    FunctionValue,
    NativeMethod,
    PartialValue,
    SuperValue,
)
from dynajit.capture.values_objects import ObjectValue
from dynajit.capture.values_tensors import TensorValue
from dynajit.eager import creation, grad_mode

Handler = Callable[[Any, list[Value], dict[str, Value]], Any]
SPECIAL: Final[dict[Any, Handler]] = {}


def special(*targets: Any) -> Callable[[Handler], Handler]:
    """Enter a handler under every object it stands for."""

    def enter(handler: Handler) -> Handler:
        for target in targets:
            SPECIAL[target] = handler
        return handler

    return enter


#: C functions and immutable classes without effects.
PURE: Final = frozenset(
    {builtins.abs, builtins.ascii, builtins.bin, builtins.chr, builtins.divmod, builtins.format,
     builtins.hex, builtins.oct, builtins.ord, builtins.pow, builtins.round, builtins.callable,
     builtins.issubclass, builtins.range, builtins.complex, builtins.bytes,
     sys.intern}
    | {member for member in vars(math).values() if callable(member)}
    | {member for member in vars(operator).values()
       if isinstance(member, types.BuiltinFunctionType)}
)  # fmt: skip


# -- size, type, attributes ----------------------------------------------------------------------


@special(len)
def _len(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return constant((yield from x.length(args[0])))


@special(isinstance)
def _isinstance(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    value, classes = args
    if not is_known(classes):
        raise unsupported("isinstance", value, classes)
    accepted = as_python(x, classes)
    kind = x.type_of(value)
    if isinstance(value, Known):
        return boolean(isinstance(value.object, accepted))
    if _has_custom_check(accepted):
        raise unsupported("isinstance with __instancecheck__", value, classes)
    return boolean(_is_subclass(x, kind, accepted))
    yield


def _has_custom_check(accepted: Any) -> bool:
    """True if a class decides by Python code of its own (ABCs of the library are fine)."""
    if isinstance(accepted, tuple):
        return any(_has_custom_check(cls) for cls in accepted)
    check = getattr(type(accepted), "__instancecheck__", None)
    module = getattr(check, "__module__", "") or ""
    return isinstance(check, types.FunctionType) and module not in ("abc", "typing")


def _is_subclass(x: Any, kind: type, accepted: Any) -> bool:
    try:
        return issubclass(kind, accepted)
    except TypeError as error:
        raise_python(x, TypeError, str(error))
        raise


@special(type)
def _type(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if len(args) != 1:
        raise GraphBreak(breaks.CLASS_DEFINITION, "type(name, bases, dict)")
    return Known(x.type_of(args[0]))
    yield


@special(getattr)
def _getattr(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    name = as_python(x, args[1])
    try:
        return (yield from x.get_attribute(args[0], name))
    except Raised as raised:
        if len(args) == 3 and issubclass(raised.value.cls, AttributeError):
            return args[2]
        raise


@special(hasattr)
def _hasattr(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return boolean((yield from x.has_attribute(args[0], as_python(x, args[1]))))


@special(setattr)
def _setattr(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    yield from x.set_attribute(args[0], as_python(x, args[1]), args[2])
    return NONE


@special(delattr)
def _delattr(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    yield from x.delete_attribute(args[0], as_python(x, args[1]))
    return NONE


@special(callable)
def _callable(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    value = args[0]
    if isinstance(value, (FunctionValue, BoundMethod, NativeMethod, PartialValue)):
        return boolean(True)
    if isinstance(value, Known):
        return boolean(callable(as_python(x, value)))
    return boolean(hasattr(x.type_of(value), "__call__"))
    yield


@special(vars)
def _vars(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if len(args) == 1:
        return (yield from x.get_attribute(args[0], "__dict__"))
    raise GraphBreak(breaks.UNKNOWN_CALL, "vars()")


@special(id)
def _id(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    raise unsupported("id", *args)
    yield


@special(hash)
def _hash(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if is_known(args[0]) and isinstance(args[0], (Constant, Scalar)):
        return x.fold(hash, args[0])
    raise unsupported("hash", *args)
    yield


@special(super)
def _super(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if not args:
        frame = x.frames[-1]
        cell = frame.cells.get("__class__")
        first = frame.code.co_varnames[0] if frame.code.co_argcount else None
        receiver = frame.locals.get(first) if first is not None else None
        if receiver is None and first in frame.cells:
            receiver = x.cell_contents(frame.cells[first])
        if cell is None or receiver is None:
            raise unsupported("super", *args)
        args = [x.cell_contents(cell), receiver]
    cls = as_python(x, args[0])
    x.type_of(args[1])
    return SuperValue(cls, args[1])
    yield


# -- numbers and text ----------------------------------------------------------------------------


def _number(cls: type) -> Handler:
    def convert(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        if args and isinstance(args[0], TensorValue):
            row = breaks.DATA_DEPENDENT_BRANCH if cls is bool else breaks.DATA_DEPENDENT_VALUE
            raise GraphBreak(row, f"{cls.__name__}(tensor)")
        if cls is bool and len(args) == 1:
            return boolean((yield from x.truth(args[0])))
        if len(args) == 1 and isinstance(args[0], Scalar) and args[0].python_type is cls:
            return args[0]
        if len(args) == 1 and isinstance(args[0], ObjectValue):
            method = yield from x.get_special(args[0], f"__{cls.__name__}__")
            return (yield from x.call(method, [], {}))
        if keywords or not all(is_known(value) for value in args):
            raise unsupported(cls.__name__, *args)
        return x.fold(cls, *args)

    return convert


for _cls in (int, float, bool, complex):
    SPECIAL[_cls] = _number(_cls)


@special(str)
def _str(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if not args and not keywords:
        return constant("")
    if len(args) != 1 or keywords:
        raise unsupported("str", *args)
    return constant((yield from x.to_text(args[0], "str")))


@special(repr)
def _repr(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return constant((yield from x.to_text(args[0], "repr")))


@special(format)
def _format(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return (yield from x.format_value(args[0], args[1] if len(args) > 1 else None))


@special(abs)
def _abs(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    value = args[0]
    if isinstance(value, TensorValue):
        return x.native_method(value, "abs", [], {})
    if isinstance(value, ObjectValue):
        method = yield from x.get_special(value, "__abs__")
        return (yield from x.call(method, [], {}))
    if not is_known(value):
        raise unsupported("abs", value)
    return x.fold(abs, value)


@special(sum)
def _sum(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = yield from x.to_items(args[0])
    total = args[1] if len(args) > 1 else keywords.get("start", constant(0))
    for item in items:
        total = yield from x.binary("+", total, item)
    return total


def _extremum(symbol: str, name: str) -> Handler:
    def choose(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        items = args if len(args) > 1 else (yield from x.to_items(args[0]))
        if not items:
            if "default" in keywords:
                return keywords["default"]
            raise_python(x, ValueError, f"{name}() iterable argument is empty")
        key = keywords.get("key", NONE)
        best, best_key = None, None
        for item in items:
            measure = item
            if not (isinstance(key, Constant) and key.value is None):
                measure = yield from x.call(key, [item], {})
            if best_key is None:
                best, best_key = item, measure
                continue
            verdict = yield from x.compare(symbol, measure, best_key)
            if (yield from x.truth(verdict)):
                best, best_key = item, measure
        return best

    return choose


SPECIAL[min] = _extremum("<", "min")
SPECIAL[max] = _extremum(">", "max")


def _quantifier(stop_at: bool) -> Handler:
    def decide(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        iterator = yield from x.iterate(args[0])
        while (item := (yield from x.advance(iterator))) is not None:
            if (yield from x.truth(item)) == stop_at:
                return boolean(stop_at)
        return boolean(not stop_at)

    return decide


SPECIAL[any] = _quantifier(True)
SPECIAL[all] = _quantifier(False)


# -- containers ----------------------------------------------------------------------------------


@special(list)
def _list(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return x.new_list((yield from x.to_items(args[0])) if args else [])


@special(tuple)
def _tuple(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if args and isinstance(args[0], TupleValue) and args[0].cls is tuple:
        return args[0]
    return TupleValue(tuple((yield from x.to_items(args[0])) if args else ()))


@special(set)
def _set(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return x.new_set((yield from x.to_items(args[0])) if args else [])


@special(frozenset)
def _frozenset(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = (yield from x.to_items(args[0])) if args else []
    return constant(frozenset(as_python(x, item) for item in items))


def _dictionary(cls: type) -> Handler:
    def make(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        pairs = (yield from x.to_pairs(args[0])) if args else []
        pairs = [*pairs, *((constant(name), item) for name, item in keywords.items())]
        return x.new_dict(pairs, cls)

    return make


SPECIAL[dict] = _dictionary(dict)
SPECIAL[OrderedDict] = _dictionary(OrderedDict)


def to_pairs(x: Any, value: Value) -> Steps:
    """(key, value) pairs of a mapping or of an iterable of pairs."""
    if isinstance(value, DictValue):
        return list(x.dict_entries(value).values())
    if isinstance(value, ObjectValue) and hasattr(value.cls, "keys"):
        method = yield from x.get_attribute(value, "keys")
        keys = yield from x.to_items((yield from x.call(method, [], {})))
        pairs = []
        for key in keys:
            pairs.append((key, (yield from x.subscript(value, key))))
        return pairs
    pairs = []
    for item in (yield from x.to_items(value)):
        pair = yield from x.to_items(item)
        if len(pair) != 2:
            raise_python(x, ValueError, "dictionary update sequence element has a wrong length")
        pairs.append((pair[0], pair[1]))
    return pairs


@special(slice)
def _slice(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    parts = [NONE, args[0], NONE] if len(args) == 1 else [*args, NONE][:3]
    return SliceValue(*parts)
    yield


@special(range)
def _range(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if any(isinstance(value, TensorValue) for value in args):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "range(tensor)")
    if not all(is_known(value) for value in args):
        raise unsupported("range", *args)
    return x.fold(range, *args)
    yield


@special(sorted)
def _sorted(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    value = args[0]
    if isinstance(value, SetValue) and "key" not in keywords:
        items = list(x.set_entries(value).values())
    else:
        items = yield from x.to_items(value)
    return x.new_list((yield from sort_items(x, items, keywords)))


def sort_items(x: Any, items: list[Value], keywords: dict[str, Value]) -> Steps:
    """Items in sorted order; keys must be known."""
    key = keywords.get("key", NONE)
    reverse = bool(as_python(x, keywords["reverse"])) if "reverse" in keywords else False
    measures = []
    for item in items:
        measure = item
        if not (isinstance(key, Constant) and key.value is None):
            measure = yield from x.call(key, [item], {})
        if not is_known(measure):
            raise unsupported("sorting", measure)
        measures.append(as_python(x, measure))
    order = range(len(items))
    try:
        chosen = sorted(order, key=measures.__getitem__, reverse=reverse)
    except TypeError as error:
        raise_python(x, TypeError, str(error))
    return [items[i] for i in chosen]


@special(reversed)
def _reversed(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    value = args[0]
    if isinstance(value, ObjectValue) and hasattr(value.cls, "__reversed__"):
        method = yield from x.get_special(value, "__reversed__")
        return (yield from x.call(method, [], {}))
    if isinstance(value, ListValue):
        x.recorder.use(value)
    items = yield from x.to_items(value)
    return (yield from x.iterate(TupleValue(tuple(reversed(items)))))


# -- iterators -----------------------------------------------------------------------------------


@special(iter)
def _iter(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if len(args) != 1:
        raise unsupported("iter", *args)
    return (yield from x.iterate(args[0]))


@special(next)
def _next(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    item = yield from x.advance(args[0])
    if item is not None:
        return item
    if len(args) > 1:
        return args[1]
    raise_python(x, StopIteration)


@special(enumerate)
def _enumerate(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    inner = yield from x.iterate(args[0])
    start = args[1] if len(args) > 1 else keywords.get("start", constant(0))
    return x.new_iterator(EnumerateIterator(inner, as_python(x, start)), enumerate)


@special(zip)
def _zip(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    inner = []
    for value in args:
        inner.append((yield from x.iterate(value)))
    strict = bool(as_python(x, keywords["strict"])) if "strict" in keywords else False
    return x.new_iterator(ZipIterator(tuple(inner), strict), zip)


@special(map)
def _map(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    inner = []
    for value in args[1:]:
        inner.append((yield from x.iterate(value)))
    return x.new_iterator(MapIterator(args[0], tuple(inner)), map)


@special(filter)
def _filter(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    inner = yield from x.iterate(args[1])
    return x.new_iterator(FilterIterator(args[0], inner), filter)


@special(functools.reduce)
def _reduce(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = yield from x.to_items(args[1])
    if len(args) > 2:
        items = [args[2], *items]
    if not items:
        raise_python(x, TypeError, "reduce() of empty iterable with no initial value")
    total = items[0]
    for item in items[1:]:
        total = yield from x.call(args[0], [total, item], {})
    return total


@special(functools.update_wrapper)
def _update_wrapper(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    """Names and text of the wrapped function; rebuilding calls the real `update_wrapper`."""
    wrapper = args[0]
    wrapped = args[1] if len(args) > 1 else keywords["wrapped"]
    if not isinstance(wrapper, FunctionValue):
        raise unsupported("functools.update_wrapper", wrapper, wrapped)
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        found = yield from x.get_attribute(wrapped, name)
        x.set_function_attribute(wrapper, name, found)
    x.set_function_attribute(wrapper, "__wrapped__", wrapped)
    return wrapper


@special(itertools.chain)
def _chain(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items: list[Value] = []
    for value in args:
        items += yield from x.to_items(value)
    return (yield from x.iterate(TupleValue(tuple(items))))


# -- grad mode -----------------------------------------------------------------------------------


@special(grad_mode._set_grad_enabled)
def _set_grad_enabled(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    before = x.recorder.grad_enabled
    x.recorder.set_grad_enabled(bool(as_python(x, args[0])))
    x.uses_grad_mode()
    return boolean(before)
    yield


@special(grad_mode.is_grad_enabled)
def _is_grad_enabled(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    x.uses_grad_mode()
    return boolean(x.recorder.grad_enabled)
    yield


# -- what the program says to the compiler ---------------------------------------------------------


@special(control.graph_break)
def _graph_break(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    raise GraphBreak(breaks.REQUESTED, "graph_break()")
    yield


@special(control.is_compiling)
def _is_compiling(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return boolean(True)
    yield


@special(creation.tensor)
def _tensor(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return x.creates_tensor(creation.tensor, args, keywords)
    yield


# -- effects -------------------------------------------------------------------------------------


@special(print, input, open)
def _output(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    raise GraphBreak(breaks.OUTPUT, "print() or file access")
    yield


@special(globals, locals, eval, exec, compile, breakpoint, __import__)
def _state(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    raise GraphBreak(breaks.GLOBAL_STATE, "globals(), locals(), eval() and the like")
    yield


# -- operator module -----------------------------------------------------------------------------


def _binary_operator(symbol: str) -> Handler:
    def apply(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        return (yield from x.binary(symbol, args[0], args[1]))

    return apply


def _comparison_operator(symbol: str) -> Handler:
    def apply(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        return (yield from x.compare(symbol, args[0], args[1]))

    return apply


def _unary_operator(symbol: str) -> Handler:
    def apply(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
        return (yield from x.unary(symbol, args[0]))

    return apply


for _symbol, (_function, _) in BINARY.items():
    SPECIAL[_function] = _binary_operator(_symbol)
for _symbol, (_function, _, _) in COMPARISONS.items():
    SPECIAL[_function] = _comparison_operator(_symbol)
for _symbol, (_function, _) in UNARY.items():
    SPECIAL[_function] = _unary_operator(_symbol)


@special(operator.getitem)
def _getitem(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return (yield from x.subscript(args[0], args[1]))


@special(operator.not_)
def _not(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return boolean(not (yield from x.truth(args[0])))


@special(object)
def _object(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    raise unsupported("object", *args)
    yield


@special(object.__new__)
def _object_new(x: Any, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return x.allocate(as_python(x, args[0]))
    yield


def special_call(x: Any, target: Any) -> Handler | None:
    """The handler of a known callable, or None."""
    try:
        return SPECIAL.get(target)
    except TypeError:
        return None


def is_pure(x: Any, target: Any) -> bool:
    """True for C functions and classes without effects."""
    try:
        return target in PURE
    except TypeError:
        return False
