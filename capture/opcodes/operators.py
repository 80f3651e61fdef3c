"""Operators, subscripts, attributes, containers, text."""

from typing import Any, Final

from dynajit.capture.bytecode.versions import IS_313, IS_314
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.opcodes.choices import chosen_number
from dynajit.capture.python.arithmetic import binary, unary
from dynajit.capture.python.basic import (
    as_python,
    at_once,
    defines,
    is_same,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.containers import (
    boolean,
    contains,
    delete_subscript,
    store_subscript,
    subscript,
)
from dynajit.capture.python.contents import list_items, new_dict, new_list, new_set
from dynajit.capture.python.iteration import iterate
from dynajit.capture.python.keys import build_dict, store_key
from dynajit.capture.python.objects.instances import super_value
from dynajit.capture.python.tensors.assertions import asserts
from dynajit.capture.python.tensors.counts import computed_truth, negated
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.text.later import joined, text_of
from dynajit.capture.python.text.text import converted, format_value
from dynajit.capture.python.truth import truth
from dynajit.capture.python.writing import delete_attribute
from dynajit.capture.tensors.turns import decided, settled_truth
from dynajit.capture.values.containers import DictValue, ListValue, SliceValue, TupleValue
from dynajit.capture.values.symbolic import Value, constant
from dynajit.capture.values.tensors import TensorValue


def _unary(symbol: str) -> Handler:
    def handler(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
        frame.push((yield from unary(machine, symbol, frame.pop())))

    return handler


def unary_not(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`not value`."""
    value = frame.pop()
    settled = settled_truth(machine.recorder.turns, frame, value)
    if settled is not None:
        frame.push(boolean(not settled))
        return
    computed = negated(machine, value)
    frame.push(boolean(not (yield from truth(machine, value))) if computed is None else computed)


def to_bool(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`bool(value)`, by which the next instruction may jump."""
    value = frame.pop()
    settled = settled_truth(machine.recorder.turns, frame, value)
    if settled is not None:
        frame.push(boolean(settled))
        return
    if frame.body.instructions[frame.index].operation == "UNARY_NOT":
        computed = computed_truth(machine, value)
        if computed is not None:  # nothing but a truth: real code may go on in front of the `not`
            frame.push(computed)
            return
    assumed = asserts(machine, frame, value, frame.index)
    frame.push(boolean((yield from truth(machine, value)) if assumed is None else assumed))


def binary_op(machine: Machine, frame: Frame, symbol: str) -> Steps[None]:
    """`a + b`, `a += b`, ..."""
    a, b = frame.pop_many(2)
    frame.push((yield from binary(machine, symbol, a, b)))


def compare_op(machine: Machine, frame: Frame, symbol: str) -> Steps[None]:
    """`a < b`, ..., or all of `c if a < b else d` where that is a number."""
    a, b = frame.pop_many(2)
    answer = decided(machine.recorder.turns, frame, symbol, a, b)
    if answer is not None:
        frame.push(boolean(answer))
        return
    chosen = yield from chosen_number(machine, frame, symbol, a, b)
    frame.push((yield from machine.compare(symbol, a, b)) if chosen is None else chosen)


def is_op(machine: Machine, frame: Frame, negated: bool) -> None:
    """`a is b`, `a is not b`."""
    a, b = frame.pop_many(2)
    frame.push(boolean(is_same(machine, a, b) != bool(negated)))


def contains_op(machine: Machine, frame: Frame, negated: bool) -> Steps[None]:
    """`a in b`, `a not in b`."""
    item, container = frame.pop_many(2)
    found = yield from contains(machine, container, item)
    frame.push(boolean(found != bool(negated)))


def binary_subscr(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`container[key]`."""
    container, key = frame.pop_many(2)
    frame.push((yield from subscript(machine, container, key)))


def store_subscr(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`container[key] = value`."""
    value, container, key = frame.pop_many(3)
    yield from store_subscript(machine, container, key, value)


def delete_subscr(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`del container[key]`."""
    container, key = frame.pop_many(2)
    yield from delete_subscript(machine, container, key)


def load_attr(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`value.name`."""
    frame.push((yield from machine.get_attribute(frame.pop(), name)))


def _push_method(frame: Frame, method: Any) -> None:
    if IS_313:
        frame.push(method)
        frame.push(None)
    else:
        frame.push(None)
        frame.push(method)


def load_method(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`value.name`, about to be called."""
    _push_method(frame, (yield from machine.get_attribute(frame.pop(), name)))


def _super_attribute(machine: Machine, frame: Frame, name: str) -> Steps[Value]:
    function, cls, receiver = frame.pop_many(3)
    if getattr(function, "object", None) is not super:
        raise unsupported("another function called super", function)
    return (yield from machine.get_attribute(super_value(machine, cls, receiver), name))


def load_super_attr(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`super().name`."""
    frame.push((yield from _super_attribute(machine, frame, name)))


def load_super_method(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`super().name`, about to be called."""
    _push_method(frame, (yield from _super_attribute(machine, frame, name)))


def store_attr(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`obj.name = value`."""
    value, obj = frame.pop_many(2)
    yield from machine.set_attribute(obj, name, value)


def delete_attr(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`del obj.name`."""
    yield from delete_attribute(machine, frame.pop(), name)


def build_tuple(machine: Machine, frame: Frame, count: int) -> None:
    """A tuple display."""
    frame.push(TupleValue(tuple(frame.pop_many(count))))


def build_list(machine: Machine, frame: Frame, count: int) -> None:
    """A list display."""
    frame.push(new_list(machine, frame.pop_many(count)))


def build_set(machine: Machine, frame: Frame, count: int) -> Steps[None]:
    """A set display."""
    made = new_set(machine, [])
    for item in frame.pop_many(count):
        yield from machine.call_method(made, "add", [item], {})
    frame.push(made)


def build_map(machine: Machine, frame: Frame, count: int) -> Steps[None]:
    """A dict display."""
    items = frame.pop_many(2 * count)
    frame.push((yield from build_dict(machine, zip(items[::2], items[1::2], strict=True))))


def build_const_key_map(machine: Machine, frame: Frame, count: int) -> None:
    """A dict display with constant keys."""
    *items, keys = frame.pop_many(count + 1)
    frame.push(new_dict(machine, list(zip(keys.items, items, strict=True))))


def build_string(machine: Machine, frame: Frame, count: int) -> None:
    """An f-string's parts joined."""
    parts = frame.pop_many(count)
    later = text_of(machine, joined, parts)
    text = constant("".join(as_python(machine, part) for part in parts)) if later is None else later
    frame.push(text)


def build_slice(machine: Machine, frame: Frame, count: int) -> None:
    """`start:stop:step`."""
    parts = frame.pop_many(count)
    step = parts[2] if count == 3 else constant(None)
    frame.push(SliceValue(parts[0], parts[1], step))


def is_iterable(kind: type) -> bool:
    """True if `iter` accepts instances, as far as the class says."""
    return defines(kind, "__iter__") or defines(kind, "__getitem__")


def is_mapping(kind: type) -> bool:
    """True if `**` accepts instances, as far as the class says."""
    return hasattr(kind, "keys")


def list_append(machine: Machine, frame: Frame, depth: int) -> None:
    """Append in a comprehension."""
    item = frame.pop()
    target = frame.stack[-depth]
    machine.heap.write(target.identity, (*list_items(machine, target), item))


def set_add(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """Add in a comprehension."""
    item = frame.pop()
    yield from machine.call_method(frame.stack[-depth], "add", [item], {})


def map_add(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """Store in a comprehension."""
    key, item = frame.pop_many(2)
    yield from store_key(machine, frame.stack[-depth], key, item)


def list_extend(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """`[*items]`."""
    items = frame.pop()
    kind = type_of(machine, items)
    if not is_iterable(kind):
        message = f"Value after * must be an iterable, not {type_name(kind)}"
        raise_python(machine, TypeError, message)
    yield from machine.call_method(frame.stack[-depth], "extend", [items], {})


def set_update(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """`{*items}`."""
    yield from machine.call_method(frame.stack[-depth - 1], "update", [frame.pop()], {})


def dict_update(machine: Machine, frame: Frame, depth: int) -> Steps[None]:
    """`{**items}`."""
    if not is_mapping(type_of(machine, frame.stack[-1])):
        kind = type_name(type_of(machine, frame.pop()))
        raise_python(machine, TypeError, f"'{kind}' object is not a mapping")
    yield from machine.call_method(frame.stack[-depth - 1], "update", [frame.pop()], {})


def list_to_tuple(machine: Machine, frame: Frame, argument: Any) -> None:
    """`(*items,)`."""
    frame.push(TupleValue(list_items(machine, frame.pop())))


def unpack_sequence(machine: Machine, frame: Frame, count: int) -> Steps[None]:
    """`a, b = items`."""
    value = frame.pop()
    if isinstance(value, TensorValue) and len(tensor_type(machine, value).shape) == 0:
        raise unsupported("unpacking", value)
    yield from _check_unpackable(machine, value)
    items = yield from _take(machine, value, count + 1)
    _check_count(machine, value, len(items), count)
    frame.stack.extend(reversed(items))


def _take(machine: Machine, value: Any, limit: int) -> Steps[list[Value]]:
    """The first items of an iterable, at most `limit`; no more are asked for."""
    if isinstance(value, (TupleValue, ListValue)):
        return (yield from machine.to_items(value))
    iterator = yield from iterate(machine, value)
    items: list[Value] = []
    while len(items) < limit and (item := (yield from machine.advance(iterator))) is not None:
        items.append(item)
    return items


@at_once
def _check_unpackable(machine: Machine, value: Any) -> None:
    kind = type_of(machine, value)
    if not is_iterable(kind):
        name = type_name(kind)
        raise_python(machine, TypeError, f"cannot unpack non-iterable {name} object")


def _check_count(machine: Machine, value: Any, found: int, count: int) -> None:
    if found < count:
        raise_python(
            machine, ValueError, f"not enough values to unpack (expected {count}, got {found})"
        )
    if found > count:
        got = ""
        if IS_314 and type_of(machine, value) in (list, tuple, dict):
            size = len(machine.heap[value.identity]) if isinstance(value, DictValue) else found
            got = f", got {size}"
        raise_python(machine, ValueError, f"too many values to unpack (expected {count}{got})")


def unpack_ex(machine: Machine, frame: Frame, counts: tuple[int, int]) -> Steps[None]:
    """`a, *b, c = items`."""
    before, after = counts
    value = frame.pop()
    yield from _check_unpackable(machine, value)
    items = yield from machine.to_items(value)
    if len(items) < before + after:
        raise_python(
            machine, ValueError,
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})",
        )  # fmt: skip
    middle = new_list(machine, items[before : len(items) - after])
    tail = items[len(items) - after :] if after else []
    frame.stack.extend(reversed([*items[:before], middle, *tail]))


def convert_value(machine: Machine, frame: Frame, conversion: str) -> Steps[None]:
    """`!s`, `!r`, `!a` in an f-string."""
    frame.push((yield from converted(machine, frame.pop(), conversion)))


def convert_to_text(machine: Machine, frame: Frame, with_specification: bool) -> Steps[None]:
    """A field of an f-string."""
    specification = frame.pop() if with_specification else None
    frame.push((yield from format_value(machine, frame.pop(), specification)))


HANDLERS: Final[dict[str, Handler]] = {
    "UNARY_NEGATIVE": _unary("-"),
    "UNARY_POSITIVE": _unary("+"),
    "UNARY_INVERT": _unary("~"),
    "UNARY_NOT": unary_not,
    "TO_BOOL": to_bool,
    "BINARY_OP": binary_op,
    "COMPARE_OP": compare_op,
    "IS_OP": is_op,
    "CONTAINS_OP": contains_op,
    "BINARY_SUBSCR": binary_subscr,
    "STORE_SUBSCR": store_subscr,
    "DELETE_SUBSCR": delete_subscr,
    "LOAD_ATTR": load_attr,
    "LOAD_METHOD": load_method,
    "LOAD_SUPER_ATTR": load_super_attr,
    "LOAD_SUPER_METHOD": load_super_method,
    "STORE_ATTR": store_attr,
    "DELETE_ATTR": delete_attr,
    "BUILD_TUPLE": build_tuple,
    "BUILD_LIST": build_list,
    "BUILD_SET": build_set,
    "BUILD_MAP": build_map,
    "BUILD_CONST_KEY_MAP": build_const_key_map,
    "BUILD_STRING": build_string,
    "BUILD_SLICE": build_slice,
    "LIST_APPEND": list_append,
    "SET_ADD": set_add,
    "MAP_ADD": map_add,
    "LIST_EXTEND": list_extend,
    "SET_UPDATE": set_update,
    "DICT_UPDATE": dict_update,
    "LIST_TO_TUPLE": list_to_tuple,
    "UNPACK_SEQUENCE": unpack_sequence,
    "UNPACK_EX": unpack_ex,
    "CONVERT_VALUE": convert_value,
    "FORMAT_VALUE": convert_to_text,
}
