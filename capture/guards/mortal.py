"""Classes and functions that compiled code must not keep alive.

Code refers to the classes and functions of the program by constants. Those that are found by their
name in a module live anyway; one that was made in a function ends when the program lets go of it,
and the code then reads it through a weak reference. The guards refer to it weakly, too: where the
code runs, it lives. Properties, static and class methods have no weak references, and hold
functions that hold the class: they are found in their class.

Used by `capture.emit.emit` and `capture.guards.tree`. Runs no user code.
"""

import sys
import types
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from dynajit.capture._capture import class_member, is_held_weakly
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.values.plain_classes import bases_in_order, namespace, qualified_name

_KINDS: Final = (type, types.FunctionType, types.BuiltinFunctionType)
_OF_OBJECTS: Final = (Kind.IDENTITY, Kind.TYPE_IS, Kind.CLASS_UNCHANGED)
_DESCRIPTORS: Final = (property, staticmethod, classmethod)


def guarded(guards: Iterable[Guard]) -> frozenset[int]:
    """The ids of the mortal objects without which these guards do not hold."""
    found = set()
    for guard in guards:
        root = guard.source.root
        expected = (guard.expected,) if guard.kind in _OF_OBJECTS else ()
        if guard.kind is Kind.SUBCLASSES:
            expected = guard.expected
        for obj in (*expected, root.value if isinstance(root, sources.Constant) else None):
            if id(obj) not in found and is_mortal(obj):
                found.add(id(obj))
    return frozenset(found)


def members(guards: Iterable[Guard]) -> dict[int, sources.Member]:
    """Where the descriptors in mortal classes are found, by their ids."""
    found: dict[int, sources.Member] = {}
    for guard in guards:
        if guard.kind is not Kind.CLASS_UNCHANGED or not is_mortal(guard.expected):
            continue
        stored: dict[Any, Any] = {}
        for cls in reversed(bases_in_order(guard.expected)):
            items = namespace(cls).items()
            stored.update({name: member for name, member in items if type(name) is str})
        place = sources.Constant(guard.expected)
        for name, member in stored.items():
            if type(member) in _DESCRIPTORS:
                found.setdefault(id(member), sources.Member(place, name))
    return found


def in_class(source: sources.Source, found: dict[int, sources.Member]) -> sources.Source:
    """The same place, reached from the class that stores the descriptor at its root."""
    if isinstance(source, sources.Constant):
        return found.get(id(source.value), source)
    if source.parent is None:
        return source
    base = in_class(source.parent, found)
    if base is source.parent:
        return source
    changed: dict[str, Any] = {"base": base}
    return replace(source, **changed)


def is_mortal(obj: Any) -> bool:
    """True for a class or function that is not found by its name in a module."""
    if not issubclass(type(obj), _KINDS) or not is_held_weakly(obj):
        return False
    try:
        module, name = _names(obj)
        return type(module) is not str or type(name) is not str or _find(module, name) is not obj
    except LookupError:  # a class has keys that are no strings: asking runs their `__eq__`
        return True


def _find(module: str, path: str) -> Any:
    """What stands under a qualified name; None: nothing."""
    found: Any = sys.modules.get(module)
    first, *others = path.split(".")
    found = vars(found).get(first) if type(found) is types.ModuleType else None
    for name in others:
        if not issubclass(type(found), type):
            return None
        found = class_member(found, name, None)
    return found


def _names(obj: Any) -> tuple[Any, Any]:
    if issubclass(type(obj), type):
        return class_member(obj, "__module__", None), qualified_name(obj)
    return obj.__module__, obj.__qualname__
