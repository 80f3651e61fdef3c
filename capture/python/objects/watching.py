"""Objects whose end does something, watched while instructions run.

A finalizer, the callback of a weak reference, the `finally` of a suspended generator: plain Python
runs it by the instruction that lets go of the last reference. An instruction after which a
watched value cannot be reached any more is therefore a break in front of it: it runs for real.
Whether others hold the object makes no difference to that.
"""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.instruction_set import OPERATIONS
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import describe
from dynajit.capture.values.containers import SetEntries
from dynajit.capture.values.plain_classes import namespace
from dynajit.capture.values.symbolic import Constant, Value

#: Instructions that only push, or move control: they let go of nothing.
_HARMLESS: Final = frozenset(row.name for row in OPERATIONS.values() if not row.lets_go)

#: Fields that hold no values.
_PLAIN: Final = frozenset(
    {"body", "code", "namespace", "object", "existing", "source", "tensor", "given"}
)

Keys = set[Any]


def is_harmless(operation: str) -> bool:
    """True if an instruction lets go of nothing."""
    return operation in _HARMLESS


def reachable(machine: Machine) -> Keys:
    """Sources of existing values, and heap ids, that the frames and the world outside hold."""
    return reached(machine, None).found


def reached(machine: Machine, wanted: Collection[Any] | None) -> "Search":
    """Which of these keys the frames and the world outside hold.

    Args:
        machine: the symbolic machine.
        wanted: see Search.
    """
    recorder = machine.recorder
    search = Search(wanted, recorder.heap)
    # Nearly always a frame holds it; what the world outside holds is more.
    search.look([(f.stack, f.locals, f.cells) for f in machine.frames])
    search.look([recorder.heap[f.handled] for f in machine.frames if recorder.heap.has(f.handled)])
    search.look([machine.result, *machine.generator_results.values()])
    search.look([recorder.heap[identity] for identity, _ in machine.global_ids.values()])
    if not search.is_over:
        handles = [handle for handle in recorder.handles() if is_held_outside(handle.source)]
        search.look([recorder.heap[handle.identity] for handle in handles])
    return search


def held_by(
    values: Iterable[Value | None], heap: Any, wanted: Collection[Any] | None = None
) -> Keys:
    """The same of what these values hold, and of the values themselves."""
    search = Search(wanted, heap)
    search.look(list(values))
    return search.found


class Search:
    """Looks for keys in values and what they hold, until all are found. Mutable.

    Args:
        wanted: sources of existing values, and heap ids; None: all that there are.
        heap: of the recorder.
    """

    def __init__(self, wanted: Collection[Any] | None, heap: Any) -> None:
        self.wanted = None if wanted is None else frozenset(wanted)
        self.heap = heap
        self.found: Keys = set()
        self.looked_at = 0
        self._seen: set[int] = set()
        self._entered: set[int] = set()
        self._roots: list[Any] = []  # kept, so that no other object gets an id that was seen

    @property
    def is_over(self) -> bool:
        """True if nothing is left to be found."""
        return self.wanted is not None and len(self.found) == len(self.wanted)

    def look(self, work: list[Any]) -> None:
        """Go through values, and lists of them, and then what they hold: what is near comes first.

        `work` grows meanwhile.
        """
        seen = self._seen
        self._roots += work
        for item in work:
            if self.is_over:
                break
            if id(item) in seen:
                continue
            seen.add(id(item))
            kind = type(item)
            if issubclass(kind, Value):
                self.enter(item, work)
            if kind is tuple or kind is list:
                work.extend(item)
            elif issubclass(kind, dict) or kind is SetEntries:  # locals of a turn are a subclass
                work.extend(item.values())
            elif names := _holding_fields(kind):
                work.extend([getattr(item, name) for name in names])
        self.looked_at = len(seen)

    def enter(self, value: Value, work: list[Any]) -> None:
        """A value counts under its source and its heap id; its contents are looked at next."""
        source = getattr(value, "source", None)
        if source is not None:
            self._find(source)
        identity = value.object_id
        if identity is None or identity in self._entered or not self.heap.has(identity):
            return
        self._entered.add(identity)
        self._find(identity)
        work.append(self.heap.held(identity))

    def _find(self, key: Any) -> None:
        if self.wanted is None or key in self.wanted:
            self.found.add(key)


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
