"""Methods of dicts and dict views. Handlers of `capture.python.builtins.methods`; see there."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.python.basic import Steps, at_once, unsupported
from dynajit.capture.python.containers import boolean
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.sets import operand_of_iterable, set_operand
from dynajit.capture.values.containers import DictValue, DictViewValue, TupleValue
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import keeps, storage_of
from dynajit.capture.values.symbolic import NONE, TRUE, Value, constant

Handler = Callable[[Any, Any, list[Value], dict[str, Value]], Steps]
DICT: Final[dict[str, Handler]] = {}

#: Methods of a dict: fewest and most arguments, names of keywords.
ARITY: Final[dict[str, tuple[int, int | None, tuple[str, ...]]]] = {
    "get": (1, 2, ()), "keys": (0, 0, ()), "values": (0, 0, ()), "items": (0, 0, ()),
    "setdefault": (1, 2, ()), "pop": (1, 2, ()), "popitem": (0, 0, ()), "clear": (0, 0, ()),
    "copy": (0, 0, ()), "move_to_end": (1, 2, ("last",)),
}  # fmt: skip


def method(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler under its names."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            DICT[name] = handler
        return handler

    return enter


def dict_method(
    x: Any, value: DictValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """A method of a dict that is in `DICT`."""
    if name in ARITY:
        low, high, names = ARITY[name]
        if value.cls is OrderedDict:
            names = {"popitem": ("last",), "setdefault": ("key", "default"),
                     "pop": ("key", "default")}.get(name, names)  # fmt: skip
            high = 1 if name == "popitem" else high
        check_count(x, getattr(value.cls(), name), args, keywords, low, high, names)
    elif name == "update" and len(args) > 1:
        refuse(x, name, {}.update, args, keywords)
    if name in ("setdefault", "pop") and keywords:
        args = [*args, *(keywords[key] for key in ("key", "default") if key in keywords)]
    return (yield from DICT[name](x, value, args, keywords))


@method("get")
def _get(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    token = yield from x.token_in(value, args[0])
    found = x.dict_lookup(value, args[0], token)
    if found is not None:
        return found
    return args[1] if len(args) > 1 else NONE


def _view(kind: str) -> Handler:
    @at_once
    def make(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Value:
        x.recorder.use(value)
        return DictViewValue(value, kind)

    return make


for _kind in ("keys", "values", "items"):
    DICT[_kind] = _view(_kind)


@method("setdefault")
def _setdefault(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    token = yield from x.token_in(value, args[0])
    found = x.dict_lookup(value, args[0], token)
    if found is None:
        found = args[1] if len(args) > 1 else NONE
        x.dict_store(value, args[0], found, token)
    return found


@method("pop")
def _pop(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    token = yield from x.token_in(value, args[0])
    found = x.dict_lookup(value, args[0], token)
    if found is None:
        if len(args) > 1:
            return args[1]
        raise_python(x, KeyError, args[0])
    x.dict_delete(value, args[0], token)
    return found


@method("popitem")
def _popitem(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    entries = x.dict_entries(value)
    last = args[0] if args else keywords.get("last", TRUE)
    from_end = yield from x.truth(last)
    if not entries:
        ordered = value.cls is OrderedDict
        message = "dictionary is empty" if ordered else "popitem(): dictionary is empty"
        raise_python(x, KeyError, message)
    token = list(entries)[-1 if from_end else 0]
    key, item = entries[token]
    x.dict_delete(value, key, token)
    return TupleValue((key, item))


@method("update")
def _update(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if args:
        yield from x.merge_pairs(value, args[0])
    for name, item in keywords.items():
        x.dict_store(value, constant(name), item)
    return NONE


@method("clear")
@at_once
def _clear(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    if isinstance(value, InstanceDictValue):
        raise unsupported("__dict__.clear", value)
    x.dict_entries(value)
    x.removed(value)
    x.heap.write(value.identity, {})
    return NONE


@method("copy")
@at_once
def _copy(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Value:
    if value.cls is defaultdict:
        raise unsupported("copy", value)
    return DictValue(x.heap.allocate(dict(x.dict_entries(value))), value.cls)


@method("move_to_end")
def _move_to_end(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if value.cls is not OrderedDict:
        raise unsupported("move_to_end", value)
    to_end = yield from x.truth(args[1] if len(args) > 1 else keywords.get("last", TRUE))
    token = yield from x.token_in(value, args[0])
    entries = dict(x.dict_entries(value))
    if token not in entries:
        raise_python(x, KeyError, args[0])
    x.removed(value, token)
    moved = {token: entries.pop(token)}
    x.heap.write(value.identity, {**entries, **moved} if to_end else {**moved, **entries})
    return NONE


def view_method(
    x: Any, view: DictViewValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """A method of a dict view."""
    if name == "__len__":
        return constant((yield from x.length(view)))
    if name == "__iter__":
        return (yield from x.iterate(view))
    if name == "__contains__":
        return boolean((yield from x.contains(view, args[0])))
    if name == "isdisjoint" and len(args) == 1 and view.kind != "values":
        other = yield from operand_of_iterable(x, args[0])
        return boolean(set_operand(x, view).real().isdisjoint(other.real()))
    raise unsupported(f"dict_{view.kind}.{name}", *args)


# -- pairs ---------------------------------------------------------------------------------------


def merge_pairs(x: Any, target: DictValue, value: Value) -> Steps:
    """`target.update(value)`: each pair is stored when it is given."""
    inner = storage_of(x, value)
    if isinstance(inner, DictValue):
        plain = ("__iter__", "keys", "__getitem__") if inner.cls is OrderedDict else ("__iter__",)
        value = inner if keeps(value, *plain) else value
    if isinstance(value, DictValue):
        entries = x.dict_entries(value)
        for key, item in list(entries.values()):
            yield from x.store_key(target, key, item)
            if value.identity != target.identity and len(x.dict_entries(value)) != len(entries):
                raise_python(x, RuntimeError, "dict mutated during update")
        return
    if isinstance(value, ObjectValue) and hasattr(value.cls, "keys"):
        method = yield from x.get_attribute(value, "keys")
        keys = yield from x.to_items((yield from x.call(method, [], {})))
        for key in keys:
            yield from x.store_key(target, key, (yield from x.subscript(value, key)))
        return
    iterator = yield from x.iterate(value)
    position = 0
    while (item := (yield from x.advance(iterator))) is not None:
        pair = yield from _pair(x, item, position)
        yield from x.store_key(target, pair[0], pair[1])
        position += 1


def _pair(x: Any, item: Value, position: int) -> Steps:
    kind = x.type_of(item)
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        message = f"cannot convert dictionary update sequence element #{position} to a sequence"
        raise_python(x, TypeError, "object is not iterable" if IS_314 else message)
    pair = yield from x.to_items(item)
    if len(pair) != 2:
        found = f"element #{position} has length {len(pair)}; 2 is required"
        raise_python(x, ValueError, f"dictionary update sequence {found}")
    return pair


def to_pairs(x: Any, value: Value) -> Steps:
    """(key, value) pairs of a mapping or of an iterable of pairs."""
    if isinstance(value, DictValue):
        return list(x.dict_entries(value).values())
    made = x.new_dict([])
    yield from merge_pairs(x, made, value)
    return list(x.dict_entries(made).values())


def dict_of(x: Any, cls: type, args: list[Value], keywords: dict[str, Value]) -> Steps:
    """`dict(...)` or `OrderedDict(...)`."""
    if len(args) > 1:
        refuse(x, cls.__name__, cls, args)
    made = x.new_dict([], cls)
    if args:
        yield from merge_pairs(x, made, args[0])
    for name, item in keywords.items():
        x.dict_store(made, constant(name), item)
    return made


def dict_from_keys(x: Any, cls: type, args: list[Value]) -> Steps:
    """`dict.fromkeys(iterable, value)`."""
    if not 1 <= len(args) <= 2:
        refuse(x, "fromkeys", cls.fromkeys, args)  # type: ignore[attr-defined]
    made = x.new_dict([], cls)
    item = args[1] if len(args) > 1 else NONE
    iterator = yield from x.iterate(args[0])
    while (key := (yield from x.advance(iterator))) is not None:
        yield from x.store_key(made, key, item)
    return made
