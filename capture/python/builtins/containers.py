"""Built-in containers and iterators: `list`, `dict`, `range`, `sorted`, `zip`, `map`, ...

Handlers of `capture.python.builtins.table`; see there.
"""

import functools
import types
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.parts import place_of
from dynajit.capture.library.iteration import CallableIterator, ReversedIterator
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places.sources import InstanceDict
from dynajit.capture.python.basic import as_python, at_once, defines, is_known, type_of, unsupported
from dynajit.capture.python.builtins.dicts import dict_of
from dynajit.capture.python.builtins.sets import frozenset_of, set_of
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.containers import fold, to_index
from dynajit.capture.python.contents import new_list, set_entries
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.iteration import iterate, new_iterator, reverse
from dynajit.capture.python.sorting import sort_items
from dynajit.capture.python.truth import truth
from dynajit.capture.python.writing import set_function_attribute
from dynajit.capture.values.containers import (
    EnumerateIterator,
    FilterIterator,
    MapIterator,
    SetValue,
    SliceValue,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values.functions import FunctionContents, FunctionValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.storage import operand_of
from dynajit.capture.values.symbolic import NONE, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue

# -- containers ----------------------------------------------------------------------------------


@special(list)
def _list(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, list, args, keywords, 0, 1)
    return new_list(
        machine, (yield from machine.to_items(args[0], asks_length=True)) if args else []
    )


@special(tuple)
def _tuple(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, tuple, args, keywords, 0, 1)
    if args and isinstance(args[0], TupleValue) and args[0].cls is tuple:
        return args[0]
    asks_length = not IS_314
    return TupleValue(tuple((yield from machine.to_items(args[0], asks_length)) if args else ()))


@special(set)
def _set(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, set, args, keywords, 0, 1)
    return (yield from set_of(machine, args))


@special(frozenset)
def _frozenset(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, frozenset, args, keywords, 0, 1)
    return (yield from frozenset_of(machine, args))


@special(dict)
def _dict(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from dict_of(machine, dict, args, keywords))


@special(OrderedDict)
def _ordered_dict(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from dict_of(machine, OrderedDict, args, keywords))


@special(slice)
@at_once
def _slice(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    parts = [NONE, args[0], NONE] if len(args) == 1 else [*args, NONE][:3]
    return SliceValue(*parts)


@special(range)
@at_once
def _range(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if any(isinstance(value, TensorValue) for value in args):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "range(tensor)")
    if any(isinstance(value, ObjectValue) and not issubclass(value.cls, int) for value in args):
        refuse(machine, "range", range, args)
    args = [operand_of(machine, value) for value in args]
    if not all(is_known(value) for value in args):
        raise unsupported("range", *args)
    return fold(machine, range, *args)


@special(sorted)
def _sorted(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, sorted, args, keywords, 1, 3, ("key", "reverse"))
    value = args[0]
    if isinstance(value, SetValue) and is_sortable_in_any_order(machine, value, keywords):
        items = list(set_entries(machine, value).values())
    else:
        items = yield from machine.to_items(value, asks_length=True)
    return new_list(machine, (yield from sort_items(machine, items, keywords)))


def is_sortable_in_any_order(machine: Machine, value: SetValue, keywords: dict[str, Value]) -> bool:
    """True for a set of distinct numbers or texts, whose own order does not matter."""
    if "key" in keywords:
        return False
    kinds = {member.python_type for member in set_entries(machine, value).values()}
    return kinds <= {int, float, bool} or kinds == {str}


@special(reversed)
def _reversed(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, reversed, args, keywords, 1, 1)
    value = args[0]
    if isinstance(value, ObjectValue):
        if defines(value.cls, "__reversed__"):
            method = yield from machine.get_special(value, "__reversed__")
            return (yield from machine.call(method, [], {}))
        if defines(value.cls, "__len__") and defines(value.cls, "__getitem__"):
            return (yield from machine.call(Known(ReversedIterator), [value], {}))
    return (yield from reverse(machine, value))


# -- iterators -----------------------------------------------------------------------------------


@special(iter)
def _iter(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, iter, args, keywords, 1, 2)
    if len(args) == 2:
        if not defines(type_of(machine, args[0]), "__call__"):
            refuse(machine, "iter", iter, args)
        return (yield from machine.call(Known(CallableIterator), args, {}))
    return (yield from iterate(machine, args[0]))


@special(next)
def _next(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, next, args, keywords, 1, 2)
    if isinstance(args[0], ObjectValue) and defines(args[0].cls, "__next__"):
        method = yield from machine.get_special(args[0], "__next__")
        try:
            return (yield from machine.call(method, [], {}))
        except Raised as raised:
            if len(args) == 1 or not issubclass(raised.value.cls, StopIteration):
                raise
            return args[1]
    item = yield from machine.advance(args[0])
    if item is not None:
        return item
    if len(args) > 1:
        return args[1]
    raise_python(machine, StopIteration, *machine.generator_result(args[0]))


@special(enumerate)
def _enumerate(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, enumerate, args, keywords, 1, 2, ("iterable", "start"))
    if "iterable" in keywords:
        raise unsupported("enumerate", *args)
    start = args[1] if len(args) > 1 else keywords.get("start", constant(0))
    count = yield from to_index(machine, start, lambda n: enumerate([], n), [start])
    inner = yield from iterate(machine, args[0])
    return new_iterator(machine, EnumerateIterator(inner, count), enumerate)


@special(zip)
def _zip(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, zip, args, keywords, 0, None, ("strict",))
    strict = yield from truth(machine, keywords.get("strict", constant(False)))
    inner = []
    for number, value in enumerate(args, start=1):
        if not hasattr(type_of(machine, value), "__iter__") and not defines(
            type_of(machine, value), "__getitem__"
        ):
            before: list[Any] = [()] * (number - 1)
            refuse(
                machine, "zip", lambda bad, before=before: zip(*before, bad, strict=False), [value]
            )
        inner.append((yield from iterate(machine, value)))
    return new_iterator(machine, ZipIterator(tuple(inner), strict), zip)


@special(map)
def _map(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, map, args, keywords, 2, None)
    inner = []
    for value in args[1:]:
        inner.append((yield from iterate(machine, value)))
    return new_iterator(machine, MapIterator(args[0], tuple(inner)), map)


@special(filter)
def _filter(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, filter, args, keywords, 2, 2)
    inner = yield from iterate(machine, args[1])
    return new_iterator(machine, FilterIterator(args[0], inner), filter)


@special(functools.update_wrapper)
def _update_wrapper(
    machine: Machine, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """Names and text of the wrapped function; rebuilding calls the real `update_wrapper`."""
    wrapper = args[0]
    wrapped = args[1] if len(args) > 1 else keywords["wrapped"]
    if not isinstance(wrapper, FunctionValue) or not _is_ordinary_wrapping(
        machine, args[2:], keywords
    ):
        raise unsupported("functools.update_wrapper", wrapper, wrapped)
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        found = yield from machine.get_attribute(wrapped, name)
        set_function_attribute(machine, wrapper, name, found)
    for name in _own_attributes(machine, wrapped):
        found = yield from machine.get_attribute(wrapped, name)
        set_function_attribute(machine, wrapper, name, found)
    set_function_attribute(machine, wrapper, "__wrapped__", wrapped)
    contents: FunctionContents = machine.heap[wrapper.identity]
    machine.heap.write(wrapper.identity, replace(contents, updated_from=wrapped))
    return wrapper


def _is_ordinary_wrapping(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> bool:
    """True if the attributes that `update_wrapper` copies are those that it copies by default."""
    given = dict(zip(("assigned", "updated"), args, strict=False))
    given.update({name: item for name, item in keywords.items() if name in ("assigned", "updated")})
    ordinary = {
        "assigned": functools.WRAPPER_ASSIGNMENTS,
        "updated": functools.WRAPPER_UPDATES,
    }
    return all(
        is_known(item) and as_python(machine, item) == ordinary[name]
        for name, item in given.items()
    )


def _own_attributes(machine: Machine, function: Value) -> list[str]:
    """Names in `function.__dict__`."""
    if isinstance(function, FunctionValue):
        names = machine.heap[function.identity].attributes
        fields = functools.WRAPPER_ASSIGNMENTS
        return [name for name in names if name not in fields and name != "__kwdefaults__"]
    if isinstance(function, Known) and isinstance(function.object, types.FunctionType):
        names = list(function.object.__dict__)
        place = InstanceDict(place_of(machine, function))
        machine.recorder.guard(
            place, Kind.DICT_KEYS, tuple(names), "attributes of a wrapped function"
        )
        return names
    return []
