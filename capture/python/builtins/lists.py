"""Methods of lists and tuples. Handlers of `capture.python.builtins.methods`; see there."""

from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.python.basic import Steps, as_python, at_once, is_known, unsupported
from dynajit.capture.python.containers import items_of, live_items, to_index
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.iteration import extend_list
from dynajit.capture.python.sorting import sort_items
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Value, constant

Handler = Callable[[Any, Any, list[Value], dict[str, Value]], Steps]
LIST: Final[dict[str, Handler]] = {}

#: Methods of a list: fewest and most arguments, names of keywords.
ARITY: Final[dict[str, tuple[int, int, tuple[str, ...]]]] = {
    "append": (1, 1, ()), "extend": (1, 1, ()), "insert": (2, 2, ()), "pop": (0, 1, ()),
    "clear": (0, 0, ()), "copy": (0, 0, ()), "reverse": (0, 0, ()), "remove": (1, 1, ()),
    "index": (1, 3, ()), "count": (1, 1, ()), "sort": (0, 2, ("key", "reverse")),
}  # fmt: skip


def method(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler under its names."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            LIST[name] = handler
        return handler

    return enter


def list_method(
    x: Any, value: ListValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """A method of a list that is in `LIST`."""
    low, high, names = ARITY[name]
    check_count(x, getattr([], name), args, keywords, low, high, names)
    if name == "sort" and args:
        refuse(x, "sort", [].sort, args, keywords)
    return (yield from LIST[name](x, value, args, keywords))


@method("append")
@at_once
def _append(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    x.grow_list(value, (args[0],))
    return NONE


@method("extend")
def _extend(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    yield from extend_list(x, value, args[0])
    return NONE


@method("insert")
def _insert(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    position = yield from to_index(x, args[0], [].insert, [args[0], NONE])
    items = list(x.list_items(value))
    items.insert(position, args[1])
    x.heap.write(value.identity, tuple(items))
    return NONE


@method("pop")
def _pop(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    position = -1
    if args:
        position = yield from to_index(x, args[0], [].pop, args)
    items = list(x.list_items(value))
    if not items:
        raise_python(x, IndexError, "pop from empty list")
    try:
        item = items.pop(position)
    except IndexError as error:
        raise_python(x, IndexError, *error.args)
    x.heap.write(value.identity, tuple(items))
    return item


@method("clear")
@at_once
def _clear(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    x.list_items(value)
    x.heap.write(value.identity, ())
    return NONE


@method("copy")
@at_once
def _copy(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    return x.new_list(x.list_items(value))


@method("reverse")
@at_once
def _reverse(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    x.heap.write(value.identity, tuple(reversed(x.list_items(value))))
    return NONE


@method("sort")
def _sort(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    before = x.list_items(value)
    items = yield from sort_items(x, list(before), keywords)
    if x.list_items(value) is not before:
        raise_python(x, ValueError, "list modified during sort")
    x.heap.write(value.identity, tuple(items))
    return NONE


@method("remove")
def _remove(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    position = yield from _find(x, value, args[0])
    if position is None:
        raise_python(x, ValueError, "list.remove(x): x not in list")
    items = list(x.list_items(value))
    del items[position : position + 1]  # a comparison may have emptied the list
    x.heap.write(value.identity, tuple(items))
    return NONE


@method("index")
def _index(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    position = yield from _find_between(x, value, args, [].index)
    if position is None:
        if not is_known(args[0]):
            raise unsupported("list.index", *args)
        try:
            [].index(as_python(x, args[0]))
        except ValueError as error:
            raise_python(x, ValueError, *error.args)
    return constant(position)


@method("count")
def _list_count(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return constant((yield from _count(x, value, args[0])))


def _find_between(x: Any, sequence: Any, args: list[Value], function: Any) -> Steps:
    """Position of `args[0]` in `sequence[args[1]:args[2]]`, counted from the start; or None."""
    bounds = []
    for bound in args[1:]:
        if x.is_same(bound, NONE):
            refuse(x, "index", function, args)
        bounds.append((yield from to_index(x, bound, function, args)))
    count = len(items_of(x, sequence))
    bounds = [max(bound + count, 0) if bound < 0 else bound for bound in bounds]
    return (yield from _find(x, sequence, args[0], *bounds))


def _find(x: Any, sequence: Any, wanted: Value, start: int = 0, stop: int | None = None) -> Steps:
    for position, item in live_items(x, sequence, start):
        if stop is not None and position >= stop:
            return None
        if (yield from x.contains(TupleValue((item,)), wanted)):
            return position
    return None


def _count(x: Any, sequence: Any, wanted: Value) -> Steps:
    total = 0
    for _, item in live_items(x, sequence):
        total += yield from x.contains(TupleValue((item,)), wanted)
    return total


def tuple_method(
    x: Any, value: TupleValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """A method of a tuple or named tuple."""
    x.recorder.use(value)
    fields = getattr(value.cls, "_fields", ())
    if fields and name == "_asdict":
        pairs = zip(fields, value.items, strict=True)
        return x.new_dict([(constant(field), item) for field, item in pairs])
    if fields and name == "_replace" and set(keywords) <= set(fields) and not args:
        pairs = zip(fields, value.items, strict=True)
        return TupleValue(tuple(keywords.get(field, item) for field, item in pairs), value.cls)
    if name == "count":
        check_count(x, ().count, args, keywords, 1, 1)
        return constant((yield from _count(x, value, args[0])))
    if name == "index":
        check_count(x, ().index, args, keywords, 1, 3)
        position = yield from _find_between(x, value, args, ().index)
        if position is None:
            raise_python(x, ValueError, "tuple.index(x): x not in tuple")
        return constant(position)
    raise unsupported(name, value, *args)
