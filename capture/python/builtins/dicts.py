"""Methods of dicts and dict views. Handlers of `capture.python.builtins.methods`; see there."""

from collections import OrderedDict, defaultdict
from typing import Final

from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import at_once, type_of, unsupported
from dynajit.capture.python.builtins.table import MethodHandler, entering
from dynajit.capture.python.containers import boolean, contains, subscript
from dynajit.capture.python.contents import (
    dict_delete,
    dict_entries,
    dict_lookup,
    dict_store,
    new_dict,
)
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.iteration import iterate
from dynajit.capture.python.keys import store_key, token_in
from dynajit.capture.python.objects.removals import removed
from dynajit.capture.python.sets import operand_of_iterable, set_operand
from dynajit.capture.python.truth import length, truth
from dynajit.capture.values.containers import DictValue, DictViewValue, TupleValue
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import keeps, storage_of
from dynajit.capture.values.symbolic import NONE, TRUE, Value, constant

DICT: Final[dict[str, MethodHandler]] = {}
method: Final = entering(DICT)

#: Methods of a dict: fewest and most arguments, names of keywords.
ARITY: Final[dict[str, tuple[int, int | None, tuple[str, ...]]]] = {
    "get": (1, 2, ()), "keys": (0, 0, ()), "values": (0, 0, ()), "items": (0, 0, ()),
    "setdefault": (1, 2, ()), "pop": (1, 2, ()), "popitem": (0, 0, ()), "clear": (0, 0, ()),
    "copy": (0, 0, ()), "move_to_end": (1, 2, ("last",)),
}  # fmt: skip


def dict_method(
    machine: Machine, value: DictValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of a dict that is in `DICT`."""
    if name in ARITY:
        low, high, names = ARITY[name]
        if value.cls is OrderedDict:
            names = {"popitem": ("last",), "setdefault": ("key", "default"),
                     "pop": ("key", "default")}.get(name, names)  # fmt: skip
            high = 1 if name == "popitem" else high
        check_count(machine, getattr(value.cls(), name), args, keywords, low, high, names)
    elif name == "update" and len(args) > 1:
        refuse(machine, name, {}.update, args, keywords)
    if name in ("setdefault", "pop") and keywords:
        args = [*args, *(keywords[key] for key in ("key", "default") if key in keywords)]
    return (yield from DICT[name](machine, value, args, keywords))


@method("get")
def _get(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    token = yield from token_in(machine, value, args[0])
    found = dict_lookup(machine, value, args[0], token)
    if found is not None:
        return found
    return args[1] if len(args) > 1 else NONE


def _view(kind: str) -> MethodHandler:
    @at_once
    def make(
        machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        machine.recorder.use(value)
        return DictViewValue(value, kind)

    return make


for _kind in ("keys", "values", "items"):
    DICT[_kind] = _view(_kind)


@method("setdefault")
def _setdefault(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    token = yield from token_in(machine, value, args[0])
    found = dict_lookup(machine, value, args[0], token)
    if found is None:
        found = args[1] if len(args) > 1 else NONE
        dict_store(machine, value, args[0], found, token)
    return found


@method("pop")
def _pop(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    token = yield from token_in(machine, value, args[0])
    found = dict_lookup(machine, value, args[0], token)
    if found is None:
        if len(args) > 1:
            return args[1]
        raise_python(machine, KeyError, args[0])
    dict_delete(machine, value, args[0], token)
    return found


@method("popitem")
def _popitem(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    entries = dict_entries(machine, value)
    last = args[0] if args else keywords.get("last", TRUE)
    from_end = yield from truth(machine, last)
    if not entries:
        ordered = value.cls is OrderedDict
        message = "dictionary is empty" if ordered else "popitem(): dictionary is empty"
        raise_python(machine, KeyError, message)
    token = list(entries)[-1 if from_end else 0]
    key, item = entries[token]
    dict_delete(machine, value, key, token)
    return TupleValue((key, item))


@method("update")
def _update(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    if args:
        yield from merge_pairs(machine, value, args[0])
    for name, item in keywords.items():
        dict_store(machine, value, constant(name), item)
    return NONE


@method("clear")
@at_once
def _clear(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if isinstance(value, InstanceDictValue):
        raise unsupported("__dict__.clear", value)
    dict_entries(machine, value)
    removed(machine, value)
    machine.heap.write(value.identity, {})
    return NONE


@method("copy")
@at_once
def _copy(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if value.cls is defaultdict:
        raise unsupported("copy", value)
    return DictValue(machine.heap.allocate(dict(dict_entries(machine, value))), value.cls)


@method("move_to_end")
def _move_to_end(
    machine: Machine, value: DictValue, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    if value.cls is not OrderedDict:
        raise unsupported("move_to_end", value)
    to_end = yield from truth(machine, args[1] if len(args) > 1 else keywords.get("last", TRUE))
    token = yield from token_in(machine, value, args[0])
    entries = dict(dict_entries(machine, value))
    if token not in entries:
        raise_python(machine, KeyError, args[0])
    removed(machine, value, token)
    moved = {token: entries.pop(token)}
    machine.heap.write(value.identity, {**entries, **moved} if to_end else {**moved, **entries})
    return NONE


def view_method(
    machine: Machine, view: DictViewValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of a dict view."""
    if name == "__len__":
        return constant((yield from length(machine, view)))
    if name == "__iter__":
        return (yield from iterate(machine, view))
    if name == "__contains__":
        return boolean((yield from contains(machine, view, args[0])))
    if name == "isdisjoint" and len(args) == 1 and view.kind != "values":
        other = yield from operand_of_iterable(machine, args[0])
        return boolean(set_operand(machine, view).real().isdisjoint(other.real()))
    raise unsupported(f"dict_{view.kind}.{name}", *args)


# -- pairs ---------------------------------------------------------------------------------------


def merge_pairs(machine: Machine, target: DictValue, value: Value) -> Steps[None]:
    """`target.update(value)`: each pair is stored when it is given."""
    inner = storage_of(machine, value)
    if isinstance(inner, DictValue):
        plain = ("__iter__", "keys", "__getitem__") if inner.cls is OrderedDict else ("__iter__",)
        value = inner if keeps(value, *plain) else value
    if isinstance(value, DictValue):
        entries = dict_entries(machine, value)
        for key, item in list(entries.values()):
            yield from store_key(machine, target, key, item)
            if value.identity != target.identity and len(dict_entries(machine, value)) != len(
                entries
            ):
                raise_python(machine, RuntimeError, "dict mutated during update")
        return
    if isinstance(value, ObjectValue) and hasattr(value.cls, "keys"):
        method = yield from machine.get_attribute(value, "keys")
        keys = yield from machine.to_items((yield from machine.call(method, [], {})))
        for key in keys:
            yield from store_key(machine, target, key, (yield from subscript(machine, value, key)))
        return
    iterator = yield from iterate(machine, value)
    position = 0
    while (given := (yield from machine.advance(iterator))) is not None:
        pair = yield from _pair(machine, given, position)
        yield from store_key(machine, target, pair[0], pair[1])
        position += 1


def _pair(machine: Machine, item: Value, position: int) -> Steps[list[Value]]:
    kind = type_of(machine, item)
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        message = f"cannot convert dictionary update sequence element #{position} to a sequence"
        raise_python(machine, TypeError, "object is not iterable" if IS_314 else message)
    pair = yield from machine.to_items(item)
    if len(pair) != 2:
        found = f"element #{position} has length {len(pair)}; 2 is required"
        raise_python(machine, ValueError, f"dictionary update sequence {found}")
    return pair


def to_pairs(machine: Machine, value: Value) -> Steps[list[tuple[Value, Value]]]:
    """(key, value) pairs of a mapping or of an iterable of pairs."""
    if isinstance(value, DictValue):
        return list(dict_entries(machine, value).values())
    made = new_dict(machine, [])
    yield from merge_pairs(machine, made, value)
    return list(dict_entries(machine, made).values())


def dict_of(
    machine: Machine, cls: type, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`dict(...)` or `OrderedDict(...)`."""
    if len(args) > 1:
        refuse(machine, cls.__name__, cls, args)
    made = new_dict(machine, [], cls)
    if args:
        yield from merge_pairs(machine, made, args[0])
    for name, item in keywords.items():
        dict_store(machine, made, constant(name), item)
    return made


def dict_from_keys(machine: Machine, cls: type, args: list[Value]) -> Steps[Value]:
    """`dict.fromkeys(iterable, value)`."""
    if not 1 <= len(args) <= 2:
        refuse(machine, "fromkeys", cls.fromkeys, args)  # type: ignore[attr-defined]
    made = new_dict(machine, [], cls)
    item = args[1] if len(args) > 1 else NONE
    iterator = yield from iterate(machine, args[0])
    while (key := (yield from machine.advance(iterator))) is not None:
        yield from store_key(machine, made, key, item)
    return made
