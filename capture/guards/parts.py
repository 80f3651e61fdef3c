"""What functions, classes and descriptors are made of: fields that no dict holds.

A function's code, defaults and names, a class's names, what a property or a static method wraps:
each can be replaced while the object stays the same, so it is guarded where it is relied on. So is
which classes are registered with abstract ones. Nothing of a user runs.
"""

import abc
import types
from typing import TYPE_CHECKING, Any

from dynajit.capture.guards.facts import FunctionFacts
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.places.sources import PartOf, Source
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.users_code import lookup

if TYPE_CHECKING:
    from dynajit.capture.machine.machine import Machine


def place_of(machine: "Machine", owner: Known) -> Source:
    """Where the object is: an argument's place, or the object itself, which is guarded."""
    if owner.object is machine.root_function:
        return sources.Function(owner.object.__qualname__)
    if owner.source is not None and isinstance(owner.source.root, sources.Local):
        place: Source = owner.source
        return place
    return sources.Constant(owner.object)


def part(machine: "Machine", owner: Known, name: str) -> Value:
    """A field of a function, or `__name__` and `__qualname__` of a class."""
    found: Value = machine.recorder.wrap(
        getattr(owner.object, name), PartOf(place_of(machine, owner), name)
    )
    return found


def wrapped(descriptor: Any, name: str) -> Known:
    """What a property (`fget` ...), a static method or a class method (`__func__`) wraps."""
    return Known(getattr(descriptor, name), PartOf(sources.Constant(descriptor), name))


def is_wrapper(raw: Any, kind: type) -> bool:
    """True for a `staticmethod` or `classmethod` that binds as `kind` does, subclass or not."""
    if type(raw) is kind:
        return True
    return isinstance(raw, kind) and lookup(type(raw), "__get__") is vars(kind)["__get__"]


def rely_on_code(machine: "Machine", callee: Known) -> None:
    """A function is called: of an argument only the code matters, not the identity."""
    place = place_of(machine, callee)
    if not isinstance(place.root, sources.Local):
        machine.recorder.use(callee)
        place = callee.source or place
    facts = FunctionFacts(callee.object.__code__, callee.object.__qualname__)
    machine.recorder.guard(place, Kind.FUNCTION, facts)


def rely_on_defaults(machine: "Machine", callee: Known, given: int, keywords: Any) -> None:
    """Guard how many defaults there are, or of which names, where a call leaves out parameters."""
    code = callee.object.__code__
    names = code.co_varnames
    place = place_of(machine, callee)
    if any(name not in keywords for name in names[given : code.co_argcount]):
        _rely_on_positional(machine, callee.object.__defaults__, PartOf(place, "__defaults__"))
    named = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    if any(name not in keywords for name in named):
        _rely_on_named(machine, callee.object.__kwdefaults__, PartOf(place, "__kwdefaults__"))


def _rely_on_positional(
    machine: "Machine", defaults: tuple[Any, ...] | None, place: Source
) -> None:
    if defaults is not None and isinstance(place.root, sources.Local):
        machine.recorder.guard(place, Kind.LENGTH, len(defaults), "defaults")
    else:
        machine.recorder.guard(place, Kind.IDENTITY, defaults, "defaults")


def _rely_on_named(machine: "Machine", defaults: dict[str, Any] | None, place: Source) -> None:
    if defaults is None:
        machine.recorder.guard(place, Kind.IDENTITY, None, "defaults")
    else:
        machine.recorder.guard(place, Kind.DICT_KEYS, tuple(defaults), "defaults")


def rely_on_names(machine: "Machine", value: Value) -> None:
    """The text of a function or class was asked for: guard the names in it."""
    if isinstance(value, TupleValue):
        if value.cls is not tuple:
            machine.recorder.use(part(machine, Known(value.cls), "__name__"))
        for item in value.items:
            rely_on_names(machine, item)
    elif isinstance(value, Known) and has_names(value.object):
        machine.recorder.use(part(machine, value, "__qualname__"))


def has_names(obj: Any) -> bool:
    """True for functions, and for classes made at run time: their names can be replaced."""
    kind = type(obj)
    if issubclass(kind, type):
        return is_heap_type(obj)
    return kind is types.FunctionType


def rely_on_registrations(machine: "Machine") -> None:
    """A class is none of an abstract one so far: guard that none was registered since."""
    machine.recorder.guard(
        GRAD_MODE_SOURCE, Kind.REGISTRATIONS, abc.get_cache_token(), "abstract classes"
    )
