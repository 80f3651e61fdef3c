"""Methods of lists and tuples. Handlers of `capture.python.builtins.methods`; see there."""

from typing import Any, Final

from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once, is_known, is_same, unsupported
from dynajit.capture.python.builtins.table import MethodHandler, entering
from dynajit.capture.python.containers import contains, to_index
from dynajit.capture.python.contents import (
    grow_list,
    items_of,
    list_items,
    live_items,
    new_dict,
    new_list,
)
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.iteration import extend_list
from dynajit.capture.python.sorting import sort_items
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Value, constant

LIST: Final[dict[str, MethodHandler]] = {}
method: Final = entering(LIST)

#: Methods of a list: fewest and most arguments, names of keywords.
ARITY: Final[dict[str, tuple[int, int, tuple[str, ...]]]] = {
    "append": (1, 1, ()), "extend": (1, 1, ()), "insert": (2, 2, ()), "pop": (0, 1, ()),
    "clear": (0, 0, ()), "copy": (0, 0, ()), "reverse": (0, 0, ()), "remove": (1, 1, ()),
    "index": (1, 3, ()), "count": (1, 1, ()), "sort": (0, 2, ("key", "reverse")),
}  # fmt: skip


def list_method(
    machine: Machine, value: ListValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of a list that is in `LIST`."""
    low, high, names = ARITY[name]
    check_count(machine, getattr([], name), args, keywords, low, high, names)
    if name == "sort" and args:
        refuse(machine, "sort", [].sort, args, keywords)
    return (yield from LIST[name](machine, value, args, keywords))


@method("append")
@at_once
def _append(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    grow_list(machine, value, (args[0],))
    return NONE


@method("extend")
def _extend(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    yield from extend_list(machine, value, args[0])
    return NONE


@method("insert")
def _insert(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    position = yield from to_index(machine, args[0], [].insert, [args[0], NONE])
    items = list(list_items(machine, value))
    items.insert(position, args[1])
    machine.heap.write(value.identity, tuple(items))
    return NONE


@method("pop")
def _pop(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    position = -1
    if args:
        position = yield from to_index(machine, args[0], [].pop, args)
    items = list(list_items(machine, value))
    if not items:
        raise_python(machine, IndexError, "pop from empty list")
    try:
        item = items.pop(position)
    except IndexError as error:
        raise_python(machine, IndexError, *error.args)
    machine.heap.write(value.identity, tuple(items))
    return item


@method("clear")
@at_once
def _clear(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    list_items(machine, value)
    machine.heap.write(value.identity, ())
    return NONE


@method("copy")
@at_once
def _copy(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    return new_list(machine, list_items(machine, value))


@method("reverse")
@at_once
def _reverse(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    machine.heap.write(value.identity, tuple(reversed(list_items(machine, value))))
    return NONE


@method("sort")
def _sort(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    before = list_items(machine, value)
    items = yield from sort_items(machine, list(before), keywords)
    if list_items(machine, value) is not before:
        raise_python(machine, ValueError, "list modified during sort")
    machine.heap.write(value.identity, tuple(items))
    return NONE


@method("remove")
def _remove(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    position = yield from _find(machine, value, args[0])
    if position is None:
        raise_python(machine, ValueError, "list.remove(x): x not in list")
    items = list(list_items(machine, value))
    del items[position : position + 1]  # a comparison may have emptied the list
    machine.heap.write(value.identity, tuple(items))
    return NONE


@method("index")
def _index(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    position = yield from _find_between(machine, value, args, [].index)
    if position is None:
        if not is_known(args[0]):
            raise unsupported("list.index", *args)
        try:
            [].index(as_python(machine, args[0]))
        except ValueError as error:
            raise_python(machine, ValueError, *error.args)
    return constant(position)


@method("count")
def _list_count(
    machine: Machine, value: ListValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    return constant((yield from _count(machine, value, args[0])))


def _find_between(
    machine: Machine, sequence: Any, args: list[Value], function: Any
) -> Steps[int | None]:
    """Position of `args[0]` in `sequence[args[1]:args[2]]`, counted from the start; or None."""
    bounds = []
    for bound in args[1:]:
        if is_same(machine, bound, NONE):
            refuse(machine, "index", function, args)
        bounds.append((yield from to_index(machine, bound, function, args)))
    count = len(items_of(machine, sequence))
    bounds = [max(bound + count, 0) if bound < 0 else bound for bound in bounds]
    return (yield from _find(machine, sequence, args[0], *bounds))


def _find(
    machine: Machine, sequence: Any, wanted: Value, start: int = 0, stop: int | None = None
) -> Steps[int | None]:
    for position, item in live_items(machine, sequence, start):
        if stop is not None and position >= stop:
            return None
        if (yield from contains(machine, TupleValue((item,)), wanted)):
            return position
    return None


def _count(machine: Machine, sequence: Any, wanted: Value) -> Steps[int]:
    total = 0
    for _, item in live_items(machine, sequence):
        total += yield from contains(machine, TupleValue((item,)), wanted)
    return total


def tuple_method(
    machine: Machine, value: TupleValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of a tuple or named tuple."""
    machine.recorder.use(value)
    fields = getattr(value.cls, "_fields", ())
    if fields and name == "_asdict":
        pairs = zip(fields, value.items, strict=True)
        return new_dict(machine, [(constant(field), item) for field, item in pairs])
    if fields and name == "_replace" and set(keywords) <= set(fields) and not args:
        pairs = zip(fields, value.items, strict=True)
        return TupleValue(tuple(keywords.get(field, item) for field, item in pairs), value.cls)
    if name == "count":
        check_count(machine, ().count, args, keywords, 1, 1)
        return constant((yield from _count(machine, value, args[0])))
    if name == "index":
        check_count(machine, ().index, args, keywords, 1, 3)
        position = yield from _find_between(machine, value, args, ().index)
        if position is None:
            raise_python(machine, ValueError, "tuple.index(x): x not in tuple")
        return constant(position)
    raise unsupported(name, value, *args)
