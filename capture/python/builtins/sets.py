"""Methods of sets, frozensets and dict views. Handlers of `capture.python.builtins.methods`; see
there."""

import itertools
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import at_once, is_known
from dynajit.capture.python.containers import boolean, frozen_if_set
from dynajit.capture.python.contents import new_set, set_entries, with_added
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.keys import key_token
from dynajit.capture.python.objects.removals import removed
from dynajit.capture.python.sets import (
    change,
    combine,
    operand_of_iterable,
    set_in_order,
    set_operand,
)
from dynajit.capture.values.containers import ListValue, SetEntries, SetValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Value

#: Methods of a set: fewest and most arguments (None: any number).
ARITY: Final[dict[str, tuple[int, int | None]]] = {
    "add": (1, 1), "discard": (1, 1), "remove": (1, 1), "pop": (0, 0), "clear": (0, 0),
    "copy": (0, 0), "isdisjoint": (1, 1), "issubset": (1, 1), "issuperset": (1, 1),
    "symmetric_difference": (1, 1), "symmetric_difference_update": (1, 1),
}  # fmt: skip

NEW: Final = ("union", "intersection", "difference", "symmetric_difference")
QUESTIONS: Final = ("isdisjoint", "issubset", "issuperset")
CHANGES: Final = (
    "update", "intersection_update", "difference_update", "symmetric_difference_update",
)  # fmt: skip


def set_method(
    machine: Machine, value: Any, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A method of a set, or of a frozenset with an argument that is not known."""
    kind = value.python_type
    low, high = ARITY.get(name, (0, None))
    if keywords or not low <= len(args) <= (len(args) if high is None else high):
        refuse(machine, name, getattr(kind(), name), args, keywords)
    if name in _HANDLERS:
        return (yield from _HANDLERS[name](machine, value, args))
    operands = []
    for other in args:
        operands.append((yield from operand_of_iterable(machine, other)))
    function = getattr(kind, name)
    if name in QUESTIONS:
        real = function(set_operand(machine, value).real(), *(part.real() for part in operands))
        return boolean(real)
    if name in NEW:
        return combine(machine, function, [set_operand(machine, value), *operands])
    change(machine, value, function, operands)
    return NONE


def _add(machine: Machine, value: SetValue, args: list[Value]) -> Steps[Value]:
    entries = set_entries(machine, value)
    token = yield from key_token(machine, entries, args[0])
    after = with_added(machine, entries, args, [token])
    if after is not entries:
        machine.heap.write(value.identity, after)
    return NONE


def _replace(machine: Machine, value: SetValue, members: Any, steps: Any) -> None:
    before = set_entries(machine, value)
    after = SetEntries(members, before.start, steps, before.is_ordered, before.is_known)
    machine.heap.write(value.identity, after)


def _drop(machine: Machine, value: SetValue, token: Any) -> None:
    entries = set_entries(machine, value)
    members = dict(entries)
    removed(machine, value)
    del members[token]
    steps = (*entries.steps, lambda real: set.discard(real, token))
    machine.heap.write(
        value.identity,
        SetEntries(members, entries.start, steps, entries.is_ordered, entries.is_known),
    )


def _discard(machine: Machine, value: SetValue, args: list[Value]) -> Steps[Value]:
    token = yield from key_token(
        machine, set_entries(machine, value), frozen_if_set(machine, args[0])
    )
    if token in set_entries(machine, value):
        _drop(machine, value, token)
    return NONE


def _remove(machine: Machine, value: SetValue, args: list[Value]) -> Steps[Value]:
    token = yield from key_token(
        machine, set_entries(machine, value), frozen_if_set(machine, args[0])
    )
    if token not in set_entries(machine, value):
        raise_python(machine, KeyError, args[0])
    _drop(machine, value, token)
    return NONE


@at_once
def _pop(machine: Machine, value: SetValue, args: list[Value]) -> Value:
    members = set_in_order(machine, value)
    if not members:
        raise_python(machine, KeyError, "pop from an empty set")
    entries = set_entries(machine, value)
    if len(members) == 1:
        item, token = members[0], next(iter(entries))
    else:
        token = entries.real().pop()
        item = entries[token]
    removed(machine, value)
    rest = {key: member for key, member in entries.items() if key is not token}
    steps = (*entries.steps, lambda real: set.pop(real))
    machine.heap.write(
        value.identity, SetEntries(rest, entries.start, steps, entries.is_ordered, entries.is_known)
    )
    return item


@at_once
def _clear(machine: Machine, value: SetValue, args: list[Value]) -> Value:
    entries = set_entries(machine, value)
    removed(machine, value)
    steps = (*entries.steps, lambda real: set.clear(real))
    machine.heap.write(
        value.identity, SetEntries({}, entries.start, steps, entries.is_ordered, entries.is_known)
    )
    return NONE


@at_once
def _copy(machine: Machine, value: Any, args: list[Value]) -> Value:
    return combine(machine, lambda real: real.copy(), [set_operand(machine, value)])


_HANDLERS: Final[dict[str, Callable[[Machine, Any, list[Value]], Steps[Value]]]] = {
    "add": _add, "discard": _discard, "remove": _remove, "pop": _pop, "clear": _clear,
    "copy": _copy,
}  # fmt: skip

#: Every method that `set_method` knows.
SET_METHODS: Final = frozenset(itertools.chain(_HANDLERS, NEW, QUESTIONS, CHANGES))


def set_of(machine: Machine, args: list[Value]) -> Steps[Value]:
    """`set(iterable)`."""
    if not args:
        return new_set(machine, [])
    if isinstance(args[0], (ListValue, TupleValue)):
        made = new_set(machine, [])
        for item in (yield from machine.to_items(args[0])):
            yield from _add(machine, made, [item])
        return made
    found = yield from operand_of_iterable(machine, args[0])
    return combine(machine, set, [found])


def frozenset_of(machine: Machine, args: list[Value]) -> Steps[Value]:
    """`frozenset(iterable)`."""
    if args and is_known(args[0]) and isinstance(getattr(args[0], "value", None), frozenset):
        return args[0]
    found = (yield from operand_of_iterable(machine, args[0])) if args else None
    return combine(machine, frozenset, [] if found is None else [found])
