"""Sets: members, order, and the operations between sets and dict views.

The order of a real set follows from the hashes of its members and from its history. Members that
are known by value have the same hash when the new code runs as now, so the order is found by
doing the same operations on a real set (`SetEntries.real`); where a member is a tensor or an object
made by the captured code, asking for the order is a break.
Functions of the machine (`capture.machine.machine`).
"""

import operator
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import hashable, is_known, unsupported
from dynajit.capture.python.contents import Members, dict_entries, set_entries
from dynajit.capture.python.objects.removals import removed
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    SetEntries,
    SetValue,
    TupleValue,
    UserKey,
)
from dynajit.capture.values.storage import storage_of
from dynajit.capture.values.symbolic import Constant, Value, constant
from dynajit.core.records import record

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


def set_in_order(machine: Machine, value: SetValue) -> tuple[Value, ...]:
    """Members of a set in the order that Python gives."""
    entries = set_entries(machine, value)
    return tuple(entries[token] for token in tokens_in_order(machine, value))


def tokens_in_order(machine: Machine, value: SetValue) -> tuple[Any, ...]:
    """The keys of a set's entries in the order that Python gives.

    Raises:
        GraphBreak: the order depends on addresses, or on what happened before the call.
    """
    entries = set_entries(machine, value)
    if len(entries) <= 1:
        return tuple(entries)
    is_changed = machine.heap.is_adopted(value.identity) and machine.heap.is_changed(value.identity)
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


def set_operand(machine: Machine, value: Any) -> Operand:
    """A set, frozenset or dict view as an operand.

    Raises:
        GraphBreak: members are compared by methods of their own.
    """
    found = _operand(machine, value)
    _refuse_user_keys(found.members, value)
    return found


def _refuse_user_keys(members: Members, value: Value) -> None:
    if any(isinstance(token, UserKey) for token in members):
        raise unsupported("an operation on a set of objects with an __eq__ of their own", value)


def _operand(machine: Machine, value: Any) -> Operand:
    if isinstance(value, SetValue):
        members = set_entries(machine, value)
        is_changed = machine.heap.is_adopted(value.identity) and machine.heap.is_changed(
            value.identity
        )
        return Operand(members, members.real, members.is_ordered and not is_changed)
    if isinstance(value, Constant):
        machine.recorder.use(value)
        literal = value.value
        return Operand({item: constant(item) for item in literal}, lambda: literal, True)
    entries = dict_entries(machine, value.dictionary)
    if value.kind == "keys":
        keys = {token: key for token, (key, _) in entries.items()}
        known = all(is_known(key) for key in keys.values())
        return Operand(keys, lambda: dict.fromkeys(keys).keys(), known)
    try:
        pairs: Members = {
            hashable(machine, TupleValue(pair)): TupleValue(pair) for pair in entries.values()
        }
    except Raised:  # a comparison looks keys up instead of hashing the items
        raise unsupported("an operation on items that cannot be hashed", value) from None
    known = all(is_known(pair) for pair in pairs.values())
    return Operand(pairs, lambda: dict(iter(pairs)).items(), known)


def operand_of_iterable(machine: Machine, value: Value) -> Steps[Operand]:
    """Any iterable as the argument of a method such as `union`."""
    inner = storage_of(machine, value)
    value = inner if isinstance(inner, SetValue) else value
    if isinstance(value, SetValue) or _is_frozenset(value):
        return set_operand(machine, value)
    items = yield from machine.to_items(value)
    members: Members = {}
    for item in items:
        members.setdefault(hashable(machine, item), item)
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


def combine(machine: Machine, function: Callable[..., Any], operands: list[Operand]) -> Value:
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
    return SetValue(machine.heap.allocate(entries), set)


def _all_known(operands: list[Operand]) -> bool:
    return all(is_known(item) for part in operands for item in part.members.values())


def change(
    machine: Machine, target: SetValue, function: Callable[..., Any], operands: list[Operand]
) -> None:
    """`function(target, ...)`, which changes a set in place."""
    entries = set_entries(machine, target)
    own = Operand(entries, entries.real, entries.is_ordered)

    def step(real: set[Any]) -> None:
        function(real, *(part.real() for part in operands))

    result = entries.real()
    step(result)
    is_ordered = entries.is_ordered and all(part.is_ordered for part in operands)
    known = entries.is_known and _all_known(operands)
    members = merged(result, [own, *operands])
    if len(members) != len(entries) or any(token not in members for token in entries):
        removed(machine, target)
    steps = (*entries.steps, step)
    machine.heap.write(
        target.identity, SetEntries(members, entries.start, steps, is_ordered, known)
    )
