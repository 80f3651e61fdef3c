"""Places outside of variables that hold one value each: what a cell holds, attributes of objects,
items of lists and dicts, global variables, what tensors have by name (`w.grad`).

A turn of a loop that changes such places alone is one whose objects are built as before: these
values can be carried from turn to turn, as those of variables are.

Contract: `slots_of` takes contents of a heap object apart, `with_values` puts other values into
them, and `is_alike` says whether two contents differ in such values only. Contents of an existing
instance lack attributes that nobody has written yet: `with_fields` reads them.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.execution.memories import is_read_again
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.objects.fields import instance_value
from dynajit.capture.values.objects import DELETED, ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import UNBOUND, Value
from dynajit.capture.values.tensors import TensorContents
from dynajit.core.records import record

#: The key of what a cell holds.
WHOLE: Final = "whole"

#: What a tensor has by this name says which memory it looks at.
DATA: Final = "data"


@record
class Slot:
    """One place.

    Args:
        identity: heap id of the object.
        key: which of its places: a position, the token of a dict's key, a name, or `WHOLE`.
    """

    identity: int
    key: Hashable

    def read(self, heap: Heap) -> Value:
        """What it holds now; UNBOUND: there is no such place."""
        return self.of(heap[self.identity])

    def write(self, heap: Heap, value: Value) -> None:
        """Let it hold another value."""
        heap.write(self.identity, with_values(heap[self.identity], {self.key: value}))

    def of(self, contents: Any) -> Value:
        """What it holds where the object has these contents; UNBOUND: there is no such place."""
        return (slots_of(contents) or {}).get(self.key, UNBOUND)


def slots_of(contents: Any) -> dict[Hashable, Value] | None:
    """What the places of an object hold, by key; None: it has no such places."""
    if isinstance(contents, Value):
        return {} if contents is UNBOUND else {WHOLE: contents}
    if isinstance(contents, TensorContents):
        return {name: item for name, item in contents.attributes.items() if name != DATA}
    if isinstance(contents, ObjectContents):
        return {name: item for name, item in contents.written.items() if item is not DELETED}
    if type(contents) is tuple:
        return dict(enumerate(contents)) if _are_values(contents) else None
    if type(contents) is dict:
        items = contents.values()
        if _are_values(items):
            return dict(contents)
        is_of_pairs = all(type(item) is tuple and len(item) == 2 for item in items)
        return {token: item for token, (_, item) in contents.items()} if is_of_pairs else None
    return None


def _are_values(items: Any) -> bool:
    return all(isinstance(item, Value) for item in items)


def with_values(contents: Any, values: Mapping[Hashable, Value]) -> Any:
    """The contents of an object, with other values in some of its places.

    Args:
        contents: for which `slots_of` gives places.
    """
    if not values:
        return contents
    if isinstance(contents, Value):
        return values[WHOLE]
    if isinstance(contents, TensorContents):
        given = {str(name): value for name, value in values.items()}
        return replace(contents, attributes={**contents.attributes, **given})
    if isinstance(contents, ObjectContents):
        names = {str(name): value for name, value in values.items()}
        return replace(contents, written={**contents.written, **names})
    if type(contents) is tuple:
        return tuple(values.get(place, item) for place, item in enumerate(contents))
    return {
        token: (item[0], values.get(token, item[1]))
        if type(item) is tuple
        else values.get(token, item)
        for token, item in contents.items()
    }


def is_alike(before: Any, now: Any) -> bool:
    """Whether contents of an object differ in nothing but what its places hold."""
    held, other = slots_of(before), slots_of(now)
    if held is None or other is None or list(held) != list(other):
        return False
    if isinstance(before, Value):
        return isinstance(now, Value)
    if type(before) is not type(now):
        return False
    if isinstance(before, TensorContents):
        is_same_data = before.attributes.get(DATA) is now.attributes.get(DATA)
        return is_same_data and is_read_again(replace(before, attributes=now.attributes), now)
    if not isinstance(before, ObjectContents):
        return True
    is_same_rest = bool(replace(now, written=before.written) == before)
    return is_same_rest and list(before.written) == list(now.written)


def gained(before: Any, now: Any) -> tuple[str, ...]:
    """Attributes of an existing instance that were written for the first time, in order."""
    is_existing = isinstance(before, ObjectContents) and before.existing is not None
    if not is_existing or not isinstance(now, ObjectContents):
        return ()
    return tuple(name for name in now.written if name not in before.written)


def with_fields(machine: Machine, identity: int, names: Collection[str]) -> Any:
    """The contents of an existing instance, now, with these attributes of its own among what was
    written; without those that it does not have."""
    contents = machine.heap[identity]
    if not names:
        return contents
    handles = (h for h in machine.recorder.handles() if h.identity == identity)
    value = next((h for h in handles if isinstance(h, ObjectValue)), None)
    if value is None:
        return contents
    found = {name: instance_value(machine, value, name) for name in names}
    held = {name: item for name, item in found.items() if item is not None}
    return replace(contents, written={**contents.written, **held})


def changed(before: Any, now: Any) -> dict[Hashable, tuple[Value, Value]]:
    """The places of an object that hold other values, and those before and now; none where it is
    not alike."""
    if before is now or not is_alike(before, now):
        return {}
    old, new = slots_of(before) or {}, slots_of(now) or {}
    return {key: (old[key], item) for key, item in new.items() if old.get(key) is not item}
