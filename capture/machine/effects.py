"""Writes to replay after the launch: the difference between the heap at entry and at the end.

Each effect is frozen data: `values` must be rebuilt for it, `replay(emitter)` writes it and leaves
the stack as it was. Every object that existed before keeps its identity.
"""

import functools
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar

from dynajit.capture.places import sources
from dynajit.capture.values.containers import (
    EVERY_KEY,
    DictValue,
    Grown,
    IteratorValue,
    ListValue,
    SetEntries,
    SetValue,
)
from dynajit.capture.values.functions import CellValue
from dynajit.capture.values.hashed import Hashes, hashes_of, store
from dynajit.capture.values.objects import DELETED, ObjectValue
from dynajit.capture.values.storage import DequeItems, DictStorage, ListStorage
from dynajit.capture.values.symbolic import UNBOUND, Constant, Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.eager import Tensor
from dynajit.eager._tensor import bump_version, write_held
from dynajit.eager.backward.compiled import note_written
from dynajit.eager.operations.writes.commit import write_back
from dynajit.ops.table import overriding


class Effect:
    """Base of all effects."""

    __slots__ = ()

    @property
    def values(self) -> list[Value]:
        """What must be rebuilt to replay it."""
        raise NotImplementedError

    def replay(self, emitter: Any) -> None:
        """Write the instructions."""
        raise NotImplementedError


@record
class ListEffect(Effect):
    """`target[:] = items`."""

    target: ListValue
    items: tuple[Value, ...]

    @property
    def values(self) -> list[Value]:
        return [self.target, *self.items]

    def replay(self, emitter: Any) -> None:
        items = functools.partial(emitter.build_of, "list", self.items)
        if isinstance(self.target, ListStorage):
            push = functools.partial(emitter.load_value, self.target)
            whole = functools.partial(emitter.load_constant, slice(None))
            emitter.call(list.__setitem__, push, whole, items)
            emitter.pop()
            return
        items()
        emitter.load_value(self.target)
        emitter.load_constant(slice(None))
        emitter.store_item()


@record
class GrowEffect(ListEffect):
    """`target.extend(items)`: whatever the list holds by then."""

    grow: ClassVar[Any] = list.extend

    def replay(self, emitter: Any) -> None:
        items = functools.partial(emitter.build_of, "tuple", self.items)
        emitter.call(type(self).grow, lambda: emitter.load_value(self.target), items)
        emitter.pop()


@record
class DequeEffect(ListEffect):
    """The items of a deque. That others take their places, what goes over it does not notice."""

    def replay(self, emitter: Any) -> None:
        items = functools.partial(emitter.build_of, "list", self.items)
        emitter.call(_refill, functools.partial(emitter.load_value, self.target), items)
        emitter.pop()


def _refill(changed: Any, items: list[Any]) -> None:
    if len(changed) != len(items):
        changed.clear()
        changed.extend(items)
        return
    for position, item in enumerate(items):
        if changed[position] is not item:
            changed[position] = item


@record
class DequeGrowEffect(GrowEffect):
    """The same at the end of a deque."""

    grow: ClassVar[Any] = deque.extend


@record
class NoticeEffect(Effect):
    """What goes over a deque notices that it has changed, although it has the same items."""

    target: ObjectValue

    @property
    def values(self) -> list[Value]:
        return [self.target]

    def replay(self, emitter: Any) -> None:
        emitter.call(_touch, functools.partial(emitter.load_value, self.target))
        emitter.pop()


def _touch(changed: Any) -> None:
    items = list(changed) or [None]
    is_empty = not changed
    changed.clear()
    changed.extend(items)
    if is_empty:
        changed.clear()


@record
class DictEffect(Effect):
    """Keys deleted and stored; with `clear`, everything is stored anew (the order changed).

    Args:
        hashes: those of new keys with a `__hash__` of the user's; see `capture.values.hashed`.
    """

    target: DictValue
    clear: bool
    deleted: tuple[Value, ...]
    stored: tuple[tuple[Value, Value], ...]
    hashes: Hashes | None = None

    @property
    def values(self) -> list[Value]:
        stored = [part for pair in self.stored for part in pair]
        return [self.target, *self.deleted, *stored]

    def replay(self, emitter: Any) -> None:
        if self.clear:
            # An OrderedDict keeps an order of its own, which dict.clear does not know.
            clear = OrderedDict.clear if self.target.cls is OrderedDict else dict.clear
            emitter.call(clear, lambda: emitter.load_value(self.target))
            emitter.pop()
        is_storage = isinstance(self.target, DictStorage)
        native: Any = self.target.cls
        for key in self.deleted:
            if is_storage:
                _call_native(emitter, native.__delitem__, self.target, key)
                continue
            emitter.load_value(self.target)
            emitter.load_value(key)
            emitter.delete_item()
        if self.hashes is not None:
            keys, items = zip(*self.stored, strict=True)
            _store_hashed(emitter, self.target, self.hashes, keys, items)
            return
        for key, item in self.stored:
            if is_storage:
                _call_native(emitter, native.__setitem__, self.target, key, item)
                continue
            emitter.load_value(item)
            emitter.load_value(self.target)
            emitter.load_value(key)
            emitter.store_item()


def _call_native(emitter: Any, method: Any, *values: Value) -> None:
    """A method of the built-in class, whatever a derived class has made of it."""
    emitter.call(method, *(functools.partial(emitter.load_value, value) for value in values))
    emitter.pop()


def _store_hashed(
    emitter: Any, target: Value, hashes: Hashes, keys: tuple[Value, ...], items: tuple[Value, ...]
) -> None:
    """Write a call of `capture.values.hashed.store`."""
    emitter.call(
        functools.partial(store, hashes),
        functools.partial(emitter.load_value, target),
        functools.partial(emitter.build_of, "tuple", keys),
        functools.partial(emitter.build_of, "tuple", items),
    )
    emitter.pop()


def dict_effect(
    target: DictValue, before: Any, after: Any, removed: Collection[Any] = ()
) -> DictEffect:
    """The writes that make `before` into `after`, order included.

    Args:
        removed: keys (tokens) removed at any time, EVERY_KEY where all were at once. One
            that came back is removed and stored: an iterator over the dict notices.
    """
    gone = set(removed)
    again = hashes_of(before) is None
    kept = [token for token in before if token in after and not (again and token in gone)]
    in_order = list(after)[: len(kept)] == kept
    if not in_order or EVERY_KEY in gone:
        return DictEffect(target, True, (), tuple(after.values()), hashes_of(after))
    known = set(kept)
    deleted = tuple(before[token][0] for token in before if token not in known)
    stored = {
        token: pair
        for token, pair in after.items()
        if token not in known or before[token][1] is not pair[1]
    }
    return DictEffect(target, False, deleted, tuple(stored.values()), hashes_of(stored))


@record
class SetEffect(Effect):
    """What was done to a set, done again; where its order is not known, its members are stored."""

    target: SetValue
    entries: SetEntries

    @property
    def values(self) -> list[Value]:
        return [self.target, *self.entries.values()]

    def replay(self, emitter: Any) -> None:
        push = functools.partial(emitter.load_value, self.target)
        if self.entries.is_known:
            emitter.call(self.entries.apply, push)
            emitter.pop()
            return
        emitter.call(set.clear, push)
        emitter.pop()
        hashes = hashes_of(self.entries)
        if hashes is not None:
            _store_hashed(emitter, self.target, hashes, tuple(self.entries.values()), ())
            return
        for member in self.entries.values():
            emitter.call(set.add, push, functools.partial(emitter.load_value, member))
            emitter.pop()


@record
class ObjectEffect(Effect):
    """Instance attributes stored (or deleted), without the class's `__setattr__`."""

    target: ObjectValue
    stored: tuple[tuple[str, Value], ...]

    @property
    def values(self) -> list[Value]:
        items = [item for _, item in self.stored if item is not DELETED]
        return [self.target, *items]

    def replay(self, emitter: Any) -> None:
        for name, item in self.stored:
            pushers = [
                lambda: emitter.load_value(self.target),
                functools.partial(emitter.load_constant, name),
            ]
            store, delete = field_access(self.target.cls, name)
            if item is DELETED:
                emitter.call(delete, *pushers)
            else:
                pushers.append(functools.partial(emitter.load_value, item))
                emitter.call(store, *pushers)
            emitter.pop()


def field_access(cls: type, name: str) -> tuple[Any, Any]:
    """Functions that store and delete an instance's own `name`, past any descriptor."""
    for base in cls.__mro__:
        if name not in base.__dict__:
            continue
        raw = base.__dict__[name]
        is_field = isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType))
        if hasattr(type(raw), "__set__") and not is_field:
            return _store_field, _delete_field
        break
    return object.__setattr__, object.__delattr__


def _store_field(target: Any, name: str, item: Any) -> None:
    object.__getattribute__(target, "__dict__")[name] = item


def _delete_field(target: Any, name: str) -> None:
    del object.__getattribute__(target, "__dict__")[name]


@record
class IteratorEffect(Effect):
    """An iterator over a list or tuple that has given more items; None: all of them."""

    target: IteratorValue
    position: int | None

    @property
    def values(self) -> list[Value]:
        return [self.target]

    def replay(self, emitter: Any) -> None:
        position = functools.partial(emitter.load_constant, self.position)
        emitter.call(_move, lambda: emitter.load_value(self.target), position)
        emitter.pop()


def _move(iterator: Any, position: int | None) -> None:
    if position is not None:
        iterator.__setstate__(position)
        return
    for _ in iterator:
        pass


@record
class CellEffect(Effect):
    """Contents of a closure cell that existed before."""

    target: CellValue
    contents: Value

    @property
    def values(self) -> list[Value]:
        return [self.target] if self.contents is UNBOUND else [self.target, self.contents]

    def replay(self, emitter: Any) -> None:
        if self.contents is UNBOUND:
            emitter.load_value(self.target)
            emitter.delete_attribute("cell_contents")
            return
        emitter.load_value(self.contents)
        emitter.load_value(self.target)
        emitter.store_attribute("cell_contents")


@record
class GlobalEffect(Effect):
    """Global variables stored; `namespace` is None for the root function's globals."""

    namespace: dict[str, Any] | None
    stored: tuple[tuple[str, Value], ...]

    @property
    def values(self) -> list[Value]:
        return [item for _, item in self.stored if item is not DELETED]

    def replay(self, emitter: Any) -> None:
        for name, item in self.stored:
            if item is DELETED:
                self._delete(name, emitter)
                continue
            emitter.load_value(item)
            if self.namespace is None:
                emitter.store_global(name)
            else:
                emitter.load_source(sources.Constant(self.namespace))
                emitter.load_constant(name)
                emitter.store_item()

    def _delete(self, name: str, emitter: Any) -> None:
        """Without an error: the name may have been made by the captured code."""
        if self.namespace is None:
            emitter.load_value(Constant(None))
            emitter.store_global(name)
            emitter.delete_global(name)
            return
        namespace = sources.Constant(self.namespace)
        emitter.call(
            dict.pop,
            lambda: emitter.load_source(namespace),
            lambda: emitter.load_constant(name),
            lambda: emitter.load_constant(None),
        )
        emitter.pop()


@record
class ModeEffect(Effect):
    """A mode of the library that the region leaves behind.

    Args:
        change: sets the mode.
        mode: grad mode, the autocast word or inference mode.
    """

    change: Callable[[Any], Any]
    mode: int

    @property
    def values(self) -> list[Value]:
        return []

    def replay(self, emitter: Any) -> None:
        emitter.call(self.change, lambda: emitter.load_constant(self.mode))
        emitter.pop()


@record
class TensorEffect(Effect):
    """Elements, and perhaps the history, of a tensor that existed before.

    Args:
        result: a tensor that holds the elements.
        bumps: by how much the tensor's version grows.
        has_history: the tensor gets the history of `result`.
    """

    target: TensorValue
    result: TensorValue
    bumps: int
    has_history: bool

    @property
    def values(self) -> list[Value]:
        return [self.target, self.result]

    def replay(self, emitter: Any) -> None:
        write: Any = _write_with_history if self.has_history else _write
        if self.target.cls is not Tensor:
            write = functools.partial(_unasked, write)
        given: list[Any] = [
            functools.partial(emitter.load_value, self.target),
            functools.partial(emitter.load_value, self.result),
            functools.partial(emitter.load_constant, self.bumps),
        ]
        if self.has_history:
            emitter.call(write, *given)
        else:
            emitter.call(write_held, *given, functools.partial(emitter.load_constant, write))
        emitter.pop()


def _write(target: Any, result: Any, bumps: int) -> None:
    """Write what the launch has computed."""
    write_back(target, result, bumps, False)


def _write_with_history(target: Any, result: Any, bumps: int) -> None:
    """The same, and let its node know of it."""
    write_back(target, result, bumps, True)
    note_written(target, result)


def _unasked(write: Any, target: Any, result: Any, bumps: int) -> None:
    """The same for a tensor of a class that overrides functions."""
    with overriding.classes_unasked():
        write(target, result, bumps)


@record
class AttributeEffect(Effect):
    """Attributes stored in a tensor that existed before."""

    target: TensorValue
    stored: tuple[tuple[str, Value], ...]

    @property
    def values(self) -> list[Value]:
        return [self.target, *(item for _, item in self.stored)]

    def replay(self, emitter: Any) -> None:
        for name, item in self.stored:
            emitter.load_value(item)
            emitter.load_value(self.target)
            emitter.store_attribute(name)


@record
class DataEffect(Effect):
    """`target.data = view` of each, all views taken before.

    Args:
        stored: (target, view, writes that count in the target's version from then on).
    """

    stored: tuple[tuple[TensorValue, Value, int], ...]

    @property
    def values(self) -> list[Value]:
        return [value for target, view, _ in self.stored for value in (target, view)]

    def replay(self, emitter: Any) -> None:
        counts = tuple(count for _, _, count in self.stored)
        given = [functools.partial(emitter.load_value, value) for value in self.values]
        emitter.call(_set_data, lambda: emitter.load_constant(counts), *given)
        emitter.pop()


def _set_data(counts: tuple[int, ...], *pairs: Any) -> None:
    for target, view, count in zip(pairs[::2], pairs[1::2], counts, strict=True):
        target.data = view
        for _ in range(count):
            bump_version(target)


def of_memory(recorder: Any, memory: MemoryContents) -> TensorEffect:
    """The write that gives an existing tensor what its memory holds at the end."""
    held = memory.value if memory.has_history else memory.elements
    result = TensorValue(recorder.heap.allocate(TensorContents(held)), Tensor)
    return TensorEffect(memory.base, result, memory.bumps, memory.has_history)


def _holds(existing: Any, name: str) -> bool:
    """True if an instance has an attribute of its own, in its dict or a slot."""
    try:
        if name in object.__getattribute__(existing, "__dict__"):
            return True
    except AttributeError:
        pass  # no dict
    for base in type(existing).__mro__:
        member = base.__dict__.get(name)
        if isinstance(member, types.MemberDescriptorType):
            try:
                member.__get__(existing, type(existing))
            except AttributeError:
                return False
            return True
    return False


def _list_effect(target: ListValue, before: Any, after: Any) -> Effect:
    """Where the items at entry are still the first ones, whatever they are, the rest is added.

    Those items may have been read only behind the place where the region ends: then nothing
    guards how many they are.
    """
    kept = len(before)
    is_deque = isinstance(target, DequeItems)
    if len(after) >= kept and all(map(operator.is_, before, after)):
        return (DequeGrowEffect if is_deque else GrowEffect)(target, after[kept:])
    return DequeEffect(target, after) if is_deque else ListEffect(target, after)


def of_object(
    target: Any, before: Any, after: Any, removed: Collection[Any] = ()
) -> Iterator[Effect]:
    """The effects that make an existing object's contents `before` into `after`.

    Args:
        removed: of a dict, as in `dict_effect`.
    """
    if isinstance(after, Grown):
        grow = DequeGrowEffect if isinstance(target, DequeItems) else GrowEffect
        yield grow(target, after.appended)
    elif isinstance(target, ListValue):
        yield _list_effect(target, before, after)
    elif isinstance(target, DictValue):
        yield dict_effect(target, before, after, removed)
    elif isinstance(target, SetValue):
        yield SetEffect(target, after)
    elif isinstance(target, CellValue):
        yield CellEffect(target, after)
    elif isinstance(target, IteratorValue):
        yield IteratorEffect(target, getattr(after, "position", None))
    elif isinstance(target, TensorValue):
        stored = tuple((name, item) for name, item in after.attributes.items() if name != "data")
        if stored:
            yield AttributeEffect(target, stored)
    elif isinstance(target, ObjectValue) and type(after.existing) is deque:
        yield NoticeEffect(target)
    elif isinstance(target, ObjectValue):
        stored = tuple(
            (name, item)
            for name, item in after.written.items()
            if item is not DELETED or _holds(after.existing, name)
        )
        yield ObjectEffect(target, stored)
