"""Makes instances of classes derived from built-in ones: `base.__new__`, then what is in them.

Methods of the built-in class fill the instance, so that nothing of the derived class runs. Called
by `capture.region.rebuild`.
"""

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from dynajit.capture.machine.heap import Heap
from dynajit.capture.values.containers import DictValue, ListValue, SetEntries, SetValue, TupleValue
from dynajit.capture.values.hashed import hashes_of, store
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.storage import native_base
from dynajit.capture.values.symbolic import Value


def parts(storage: Value | None, heap: Heap) -> list[Value]:
    """The values that an instance's storage is made of."""
    if storage is None:
        return []
    if isinstance(storage, DictValue):
        return [part for pair in heap[storage.identity].values() for part in pair]
    if isinstance(storage, SetValue):
        return list(heap[storage.identity].values())
    if isinstance(storage, ListValue):
        return list(heap[storage.identity])
    return [storage]


def make_with_storage(
    rebuilder: Any, value: ObjectValue, contents: ObjectContents, emitter: Any
) -> None:
    """Push a new instance with its storage, and name it."""
    base: Any = native_base(value.cls)
    storage: Any = contents.storage
    if not isinstance(storage, (DictValue, ListValue, SetValue)):
        rebuilder.call(emitter, base.__new__, value.cls, storage)
        emitter.memoise(value)
        return
    rebuilder.call(emitter, base.__new__, value.cls)
    emitter.memoise(value)
    if base is defaultdict and "default_factory" in contents.state:
        rebuilder.call(emitter, base.__init__, value, contents.state["default_factory"])
        emitter.pop()
    held = rebuilder.heap[storage.identity]
    hashes = hashes_of(held) if isinstance(storage, (DictValue, SetValue)) else None
    if hashes is not None:
        pairs = held.values() if isinstance(storage, DictValue) else [(m, m) for m in held.values()]
        keys, items = zip(*pairs, strict=True)
        fill = functools.partial(store, hashes)
        rebuilder.call(emitter, fill, value, TupleValue(keys), TupleValue(items))
        emitter.pop()
    elif isinstance(storage, SetValue):
        _fill_set(rebuilder, value, held, emitter)
    elif isinstance(storage, ListValue):
        _fill(rebuilder, list.extend, value, list(held), "list", emitter)
    elif base is OrderedDict:
        for key, item in held.values():
            rebuilder.call(emitter, base.__setitem__, value, key, item)
            emitter.pop()
    else:
        parts = [part for pair in held.values() for part in pair]
        _fill(rebuilder, dict.update, value, parts, "dict", emitter)


def _fill(
    rebuilder: Any,
    method: Callable[..., Any],
    value: ObjectValue,
    items: list[Value],
    kind: str,
    emitter: Any,
) -> None:
    def push() -> None:
        for item in items:
            emitter.load_value(item)
        emitter.build(kind, len(items) // 2 if kind == "dict" else len(items))

    if items:
        emitter.call(method, rebuilder.pusher(value, emitter), push)
        emitter.pop()


def _fill_set(rebuilder: Any, value: ObjectValue, held: SetEntries, emitter: Any) -> None:
    """Members one by one, or what was done to the set done again."""
    if held.is_ordered and held.start is set:
        emitter.call(held.apply, rebuilder.pusher(value, emitter))
        emitter.pop()
        return
    for member in held.values():
        rebuilder.call(emitter, set.add, value, member)
        emitter.pop()
