"""Tuples, lists, dicts and objects that variables hold, as the parts that they are built of: a turn
of a loop that makes one anew (`state = cell(x, state)`, `weights = [w - rate * g for ...]`) hands
on what it holds.

Contract: the parts of a variable have names of their own, by which they stand among the locals in
its place. In front of a turn the object is the one of before, with other parts; a tuple whose parts
are the same is the same tuple. Whether somebody else knows such an object is asked elsewhere.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any, Final

from dynajit.capture.execution.slots import is_alike, slots_of, with_values
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.lifetimes import has_finalizer
from dynajit.capture.values.containers import DictValue, HeapValue, ListValue, TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.plain_classes import namespace
from dynajit.capture.values.symbolic import Value

#: Between the name of a variable and the place of a part: no name has it.
_AT: Final = "@"

#: Parts of what one variable holds.
MOST_PARTS: Final = 256


def _items_of(heap: Heap, value: Value | None) -> dict[Hashable, Value] | None:
    """What a tuple or an object that the captured code has made is built of; None: it is another
    value."""
    if isinstance(value, TupleValue):
        is_plain = value.cls is tuple or hasattr(value.cls, "_fields")
        return dict(enumerate(value.items)) if is_plain and value.source is None else None
    if not isinstance(value, HeapValue) or not _is_container(heap, value):
        return None
    return slots_of(heap[value.identity])


def _is_container(heap: Heap, value: HeapValue) -> bool:
    if not heap.has(value.identity):
        return False  # it was undone since
    if heap.is_adopted(value.identity) or heap.unread(value.identity) is not None:
        return False
    if type(value) is ListValue:
        return value.cls is list
    if type(value) is DictValue:
        return value.cls is dict
    if type(value) is not ObjectValue or has_finalizer(value.cls):
        return False
    contents: ObjectContents = heap[value.identity]
    module = str(namespace(value.cls).get("__module__"))
    is_own = contents.existing is None and contents.storage is None
    return is_own and not module.startswith("dynajit.")


def is_structure(heap: Heap, value: Value | None) -> bool:
    """Whether a value has parts, and not too many."""
    items = _items_of(heap, value)
    return items is not None and len(items) <= MOST_PARTS


def is_built_alike(heap: Heap, a: Value | None, b: Value | None) -> bool:
    """Whether two values are structures of a class with the same places, and so on in these; or are
    none."""
    first, second = _items_of(heap, a), _items_of(heap, b)
    if first is None or second is None:
        return first is second
    if type(a) is not type(b) or getattr(a, "cls", None) is not getattr(b, "cls", None):
        return False
    if isinstance(a, HeapValue) and isinstance(b, HeapValue):
        if not is_alike(heap[a.identity], heap[b.identity]):
            return False
    elif list(first) != list(second):
        return False
    return all(is_built_alike(heap, item, second[key]) for key, item in first.items())


def objects_in(heap: Heap, value: Value) -> Iterator[int]:
    """Heap ids of the lists, dicts and objects that a value is built of."""
    items = _items_of(heap, value)
    if items is None:
        return
    if isinstance(value, HeapValue):
        yield value.identity
    for item in items.values():
        yield from objects_in(heap, item)


def parts_of(heap: Heap, name: str, value: Value) -> dict[str, Value]:
    """What a structure is built of, by names that say whose part it is; of another value itself."""
    items = _items_of(heap, value)
    if items is None:
        return {name: value}
    found: dict[str, Value] = {}
    for place, item in enumerate(items.values()):
        found |= parts_of(heap, f"{name}{_AT}{place}", item)
    return found


def root_of(name: str) -> str:
    """The variable of which something of this name is a part, or is all."""
    return name.partition(_AT)[0]


def with_parts(heap: Heap, locals: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Some locals, with parts in the place of these structures."""
    found = {name: value for name, value in locals.items() if name not in names}
    for name in names:
        found |= parts_of(heap, name, locals[name])
    return found


def with_structures(
    heap: Heap, locals: Mapping[str, Value], templates: Mapping[str, Value]
) -> dict[str, Value]:
    """Some locals, with structures in the place of parts, and these written into their objects;
    without a structure of which a part is missing.

    Args:
        templates: variable -> what it holds in front of the turn.
    """
    found = dict(locals)
    for name, template in templates.items():
        parts = parts_of(heap, name, template)
        held = {part: found.pop(part, None) for part in parts}
        if None not in held.values():
            found[name] = _made(heap, name, template, held)
    return found


def _made(heap: Heap, name: str, template: Value, parts: Mapping[str, Any]) -> Any:
    items = _items_of(heap, template)
    if items is None:
        return parts[name]
    made = {
        key: _made(heap, f"{name}{_AT}{place}", item, parts)
        for place, (key, item) in enumerate(items.items())
    }
    changed = {key: item for key, item in made.items() if item is not items[key]}
    if isinstance(template, TupleValue):
        return TupleValue(tuple(made.values()), template.cls) if changed else template
    assert isinstance(template, HeapValue)
    if changed:
        contents = heap[template.identity]
        heap.write(template.identity, with_values(contents, changed))
    return template


__all__ = [
    "is_built_alike",
    "is_structure",
    "objects_in",
    "parts_of",
    "root_of",
    "with_parts",
    "with_structures",
]
