"""Objects whose end does something, watched while instructions run.

A finalizer, the callback of a weak reference, the `finally` of a suspended generator: plain Python
runs it by the instruction that lets go of the last reference. An instruction after which a
watched value cannot be reached any more is therefore a break in front of it: it runs for real.
Whether others hold the object makes no difference to that.

Called by `capture.executor` around each instruction while the recorder knows such an object.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from dynajit.capture import breaks, sources
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.operations_basic import describe
from dynajit.capture.plain_classes import namespace
from dynajit.capture.values import Constant, Value
from dynajit.capture.values_containers import SetEntries

#: Instructions that only push, or move control: they let go of nothing.
_HARMLESS: Final = frozenset(
    {"LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "LOAD_GLOBAL", "PUSH_NULL", "COPY",
     "SWAP", "JUMP", "MAKE_CELL", "NOP", "LOAD_COMMON_CONSTANT", "LOAD_BUILD_CLASS"}
)  # fmt: skip

#: Fields that hold no values.
_PLAIN: Final = frozenset(
    {"body", "code", "namespace", "object", "existing", "source", "tensor", "given"}
)

Keys = set[Any]


def is_harmless(operation: str) -> bool:
    """True if an instruction lets go of nothing."""
    return operation in _HARMLESS


def reachable(x: Any) -> Keys:
    """Sources of existing values, and heap ids, that the frames and the world outside hold."""
    recorder = x.recorder
    work: list[Any] = [(f.stack, f.locals, f.cells) for f in x.frames]
    work += [recorder.heap[f.handled] for f in x.frames if recorder.heap.has(f.handled)]
    work += [recorder.heap[identity] for identity, _ in x.global_ids.values()]
    work += [x.result, *x.generator_results.values()]
    for handle in recorder.handles():
        if is_held_outside(handle.source):
            work.append(recorder.heap[handle.identity])
    return _closure(work, recorder.heap)


def held_by(values: Iterable[Value | None], heap: Any) -> Keys:
    """The same of what these values hold, and of the values themselves."""
    return _closure(list(values), heap)


def _closure(work: list[Any], heap: Any) -> Keys:
    found: Keys = set()
    seen: set[int] = set()
    while work:
        item = work.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        kind = type(item)
        if issubclass(kind, Value):
            _enter(item, found, work, heap)
        if kind is tuple or kind is list:
            work.extend(item)
        elif kind is dict or kind is SetEntries:
            work.extend(item.values())
        elif names := _holding_fields(kind):
            work.extend([getattr(item, name) for name in names])
    return found


#: id of a class of capture's -> names of its fields that may hold values. Such classes never end.
_HOLDING_FIELDS: Final[dict[int, tuple[str, ...]]] = {}


def _holding_fields(kind: type) -> tuple[str, ...]:
    names = _HOLDING_FIELDS.get(id(kind))
    if names is not None:
        return names
    module = namespace(kind).get("__module__")
    if kind is Constant or type(module) is not str or not module.startswith("dynajit.capture."):
        return ()
    if not dataclasses.is_dataclass(kind):
        return ()
    names = tuple(field.name for field in dataclasses.fields(kind) if field.name not in _PLAIN)
    _HOLDING_FIELDS[id(kind)] = names
    return names


def _enter(value: Value, found: Keys, work: list[Any], heap: Any) -> None:
    source = getattr(value, "source", None)
    if source is not None:
        found.add(source)
    identity = value.object_id
    if identity is not None and identity not in found and heap.has(identity):
        found.add(identity)
        work.append(heap[identity])


def is_held_outside(source: sources.Source) -> bool:
    """True for a place that is not reached from an argument through containers alone."""
    return not all(isinstance(step, (sources.Local, sources.Item)) for step in source.chain())


def refuse_end(before: Keys, after: Keys, watched: Iterable[tuple[Any, Value]]) -> None:
    """Refuse an instruction that lets go of a watched value.

    Args:
        before: what could be reached before it.
        after: what can be reached after it.
        watched: key and value.

    Raises:
        GraphBreak: the instruction must run for real.
    """
    for key, value in watched:
        if key in before and key not in after:
            raise GraphBreak(breaks.OBJECT_ENDS, describe(value))
