"""Sets: members, order, and the operations between sets and dict views.

The order of a real set follows from the hashes of its members and from its history. Members that
are known by value have the same hash when the new code runs as now, so the order is found by
doing the same operations on a real set (`SetEntries.real`); where a member is a tensor or an object
made by the captured code, asking for the order is a break.
Methods of the executor (`x`), written as functions; see `capture.execution.executor`.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.guards.guards import Kind
from dynajit.capture.guards.identity_keys import holds_nan
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.python.basic import Steps, hashable, hashable_as, is_known, unsupported
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    SetEntries,
    SetValue,
    TupleValue,
    UserKey,
)
from dynajit.capture.values.storage import storage_of
from dynajit.capture.values.symbolic import LITERAL_TYPES, Constant, Value, constant
from dynajit.core.records import record

Members = dict[Any, Value]

OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "|": operator.or_, "&": operator.and_, "-": operator.sub, "^": operator.xor,
}  # fmt: skip


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    """An operator that changes a set, whatever a derived class has made of it."""
    own = getattr(set, f"__{name}__")
    any_operator = getattr(operator, name)

    def apply(real: Any, other: Any) -> Any:
        result = own(real, other)
        return any_operator(real, other) if result is NotImplemented else result

    return apply


IN_PLACE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "|": _in_place("ior"), "&": _in_place("iand"), "-": _in_place("isub"), "^": _in_place("ixor"),
}  # fmt: skip


@record
class Operand:
    """What takes part in a set operation.

    Args:
        members: its members (for any iterable: its distinct items) by key.
        real: makes a real object of the same class, made of keys, in the same order.
        is_ordered: the order is the one that the program would see.
    """

    members: Members
    real: Callable[[], Any]
    is_ordered: bool


# -- contents ------------------------------------------------------------------------------------


def new_set(x: Any, items: Any) -> SetValue:
    """A set made by the captured code: members added one by one."""
    entries = SetEntries({}, is_plain=True)
    return SetValue(x.heap.allocate(with_added(x, entries, list(items))), set)


def with_added(
    x: Any, entries: SetEntries, items: list[Value], tokens: list[Any] | None = None
) -> SetEntries:
    """A set after `add` of each of `items`, in order; `tokens` are their keys, if found before."""
    members = dict(entries)
    known = True
    fresh = []
    for item in items:
        token = hashable_as(x, item, "set element") if tokens is None else tokens[len(fresh)]
        if token not in members:
            members[token] = item
            fresh.append(token)
            known = known and is_known(item)
    if not fresh:
        return entries

    def add(real: set[Any]) -> None:
        for token in fresh:
            set.add(real, token)

    return SetEntries(
        members, entries.start, (*entries.steps, add),
        entries.is_ordered and known, entries.is_known and known, entries.is_plain,
    )  # fmt: skip


def set_entries(x: Any, value: SetValue) -> SetEntries:
    """Members of a set; those of an existing one are guarded, with their order.

    Raises:
        GraphBreak: an existing set with members that are not literals.
    """
    x.recorder.use(value)
    contents = x.heap[value.identity]
    existing = x.recorder.existing(value)
    if contents is None:
        contents = _read_set(x, value, existing)
        x.heap.load_entry(value.identity, contents)
    if existing is not None:
        base = x.recorder.first_source(value)
        x.recorder.guard(base, Kind.DICT_KEYS, tuple(set.__iter__(existing)), "set")
    found: SetEntries = contents
    return found


def _read_set(x: Any, value: SetValue, existing: set[Any]) -> SetEntries:
    if not all(type(member) in LITERAL_TYPES for member in set.__iter__(existing)):
        raise unsupported("reading an existing set of objects", value)
    if any(map(holds_nan, set.__iter__(existing))):
        raise unsupported("a set with a member that is not equal to itself")
    members = {member: constant(member) for member in set.__iter__(existing)}
    snapshot = set.copy(existing)
    keeps_order = list(snapshot.copy()) == list(set.__iter__(existing))
    return SetEntries(members, snapshot.copy, (), keeps_order)


def set_in_order(x: Any, value: SetValue) -> tuple[Value, ...]:
    """Members of a set in the order that Python gives."""
    entries = set_entries(x, value)
    return tuple(entries[token] for token in tokens_in_order(x, value))


def tokens_in_order(x: Any, value: SetValue) -> tuple[Any, ...]:
    """The keys of a set's entries in the order that Python gives.

    Raises:
        GraphBreak: the order depends on addresses, or on what happened before the call.
    """
    entries = set_entries(x, value)
    if len(entries) <= 1:
        return tuple(entries)
    is_changed = x.heap.is_adopted(value.identity) and x.heap.is_changed(value.identity)
    if not entries.is_ordered or is_changed:
        raise unsupported("the order of a set", value)
    return tuple(entries.real())


# -- operations ----------------------------------------------------------------------------------


def is_operand(value: Value) -> bool:
    """True for what takes part in `a | b` as a set."""
    if isinstance(value, DictViewValue):
        return value.kind != "values"
    return isinstance(value, SetValue) or _is_frozenset(value)


def _is_frozenset(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, frozenset)


def set_operand(x: Any, value: Any) -> Operand:
    """A set, frozenset or dict view as an operand.

    Raises:
        GraphBreak: members are compared by methods of their own.
    """
    found = _operand(x, value)
    _refuse_user_keys(found.members, value)
    return found


def _refuse_user_keys(members: Members, value: Value) -> None:
    if any(isinstance(token, UserKey) for token in members):
        raise unsupported("an operation on a set of objects with an __eq__ of their own", value)


def _operand(x: Any, value: Any) -> Operand:
    if isinstance(value, SetValue):
        entries = set_entries(x, value)
        is_changed = x.heap.is_adopted(value.identity) and x.heap.is_changed(value.identity)
        return Operand(entries, entries.real, entries.is_ordered and not is_changed)
    if isinstance(value, Constant):
        x.recorder.use(value)
        literal = value.value
        return Operand({item: constant(item) for item in literal}, lambda: literal, True)
    entries = x.dict_entries(value.dictionary)
    if value.kind == "keys":
        keys = {token: key for token, (key, _) in entries.items()}
        known = all(is_known(key) for key in keys.values())
        return Operand(keys, lambda: dict.fromkeys(keys).keys(), known)
    try:
        pairs = {hashable(x, TupleValue(pair)): TupleValue(pair) for pair in entries.values()}
    except Raised:  # a comparison looks keys up instead of hashing the items
        raise unsupported("an operation on items that cannot be hashed", value) from None
    known = all(is_known(pair) for pair in pairs.values())
    return Operand(pairs, lambda: dict(iter(pairs)).items(), known)


def operand_of_iterable(x: Any, value: Value) -> Steps:
    """Any iterable as the argument of a method such as `union`."""
    inner = storage_of(x, value)
    value = inner if isinstance(inner, SetValue) else value
    if isinstance(value, SetValue) or _is_frozenset(value):
        return set_operand(x, value)
    items = yield from x.to_items(value)
    members: Members = {}
    for item in items:
        members.setdefault(hashable(x, item), item)
    known = all(is_known(item) for item in members.values())
    if isinstance(value, DictValue):
        return Operand(members, lambda: dict.fromkeys(members), known)
    return Operand(members, lambda: list(members), known)


def merged(result: Any, operands: list[Operand]) -> Members:
    """Members for the keys `result`; each key's value comes from an operand that has it."""
    members: Members = {}
    for token in result:
        forms = [part.members[token] for part in operands if token in part.members]
        exact = [form for form in forms if type(getattr(form, "value", None)) is type(token)]
        members[token] = (exact or forms)[0]
    return members


def combine(x: Any, function: Callable[..., Any], operands: list[Operand]) -> Value:
    """The set that `function` makes of real sets; a frozenset where it makes one.

    Raises:
        GraphBreak: a frozenset with members that are not known.
    """

    def start() -> Any:
        return function(*(part.real() for part in operands))

    result = start()
    known = all(part.is_ordered for part in operands)
    entries = SetEntries(merged(result, operands), start, (), known, _all_known(operands))
    if isinstance(result, frozenset):
        if not entries.is_known:
            raise unsupported("a frozenset of objects that are not known")
        return constant(result)
    return SetValue(x.heap.allocate(entries), set)


def _all_known(operands: list[Operand]) -> bool:
    return all(is_known(item) for part in operands for item in part.members.values())


def change(x: Any, target: SetValue, function: Callable[..., Any], operands: list[Operand]) -> None:
    """`function(target, ...)`, which changes a set in place."""
    entries = set_entries(x, target)
    own = Operand(entries, entries.real, entries.is_ordered)

    def step(real: set[Any]) -> None:
        function(real, *(part.real() for part in operands))

    result = entries.real()
    step(result)
    is_ordered = entries.is_ordered and all(part.is_ordered for part in operands)
    known = entries.is_known and _all_known(operands)
    members = merged(result, [own, *operands])
    if len(members) != len(entries) or any(token not in members for token in entries):
        x.removed(target)
    steps = (*entries.steps, step)
    x.heap.write(target.identity, SetEntries(members, entries.start, steps, is_ordered, known))
