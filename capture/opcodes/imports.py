"""Import statements: a module that is loaded is a value; one that is not ends the graph.

Contract: what Python's own `__import__` finds in `sys.modules` is guarded by name, so that another
module under the name, or none, is met by the next call. Where a program has an `__import__` of its
own, the statement is left to it.
"""

import builtins
import sys
from types import BuiltinFunctionType, ModuleType
from typing import Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python
from dynajit.capture.values.containers import HeapValue, TupleValue
from dynajit.capture.values.symbolic import Known

_NO_MODULE: Final = "an import of {} finds an object that is no module"
_MODULES: Final = sources.Constant(sys.modules, "sys.modules")


def import_name(machine: Machine, frame: Frame, name: str) -> None:
    """`import name` of modules that are loaded: what Python finds in `sys.modules`, guarded."""
    level, names = frame.pop_many(2)
    _rely_on_pythons_import(machine, frame)
    depth = as_python(machine, level)
    full = _resolved(_package(machine, frame), depth, name) if depth else name
    module = _loaded(machine, full)
    if not isinstance(names, TupleValue) or not names.items:
        frame.push(module if depth else _loaded(machine, full.partition(".")[0]))
        return
    for wanted in as_python(machine, names):
        if hasattr(module.object, "__path__") and not _has(module.object, wanted):
            raise GraphBreak(breaks.IMPORT, f"{full}.{wanted}")
    frame.push(module)


def import_from(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """`from module import name`: an attribute, else a module of a package."""
    module = frame.stack[-1]
    if not isinstance(module, Known) or not isinstance(module.object, ModuleType):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, _NO_MODULE.format(name))
    if name in vars(module.object):
        frame.push((yield from machine.get_attribute(module, name)))
        return
    found = f"{module.object.__name__}.{name}"
    if not _has(module.object, name) or "__getattr__" in vars(module.object):
        raise GraphBreak(breaks.IMPORT, found)
    machine.recorder.guard(sources.Constant(module.object), Kind.INSTANCE_LACKS, name, "import")
    frame.push(_loaded(machine, found))


def _rely_on_pythons_import(machine: Machine, frame: Frame) -> None:
    """An import statement calls the `__import__` of its frame's builtins."""
    namespace = frame.namespace
    if namespace.is_fixed:
        return
    found = namespace.builtins.get("__import__")
    if not _is_pythons(found):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "the program replaced __import__")
    place = sources.Key(sources.PartOf(namespace.base, "__builtins__"), "__import__")
    machine.recorder.guard(place, Kind.IDENTITY, found, "import")


def _is_pythons(function: object) -> bool:
    """True for the `__import__` of the interpreter."""
    if type(function) is not BuiltinFunctionType:
        return False
    return function.__self__ is builtins and function.__name__ == "__import__"


def _package(machine: Machine, frame: Frame) -> str:
    """What relative imports of a frame are relative to."""
    namespace = frame.namespace
    package = namespace.globals.get("__package__")
    written = machine.global_write(namespace.globals, "__package__")
    if type(package) is not str or written is not None:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a relative import without __package__")
    if not namespace.is_fixed:
        place = sources.Global("__package__", namespace.base)
        machine.recorder.guard(place, Kind.EQUALS, package, "import")
    return package


def _resolved(package: str, depth: int, name: str) -> str:
    """The full name of a module that a relative import names."""
    parts = package.split(".")
    if depth > len(parts):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a relative import beyond its package")
    parts = parts[: len(parts) - depth + 1]
    return ".".join([*parts, name] if name else parts)


def _loaded(machine: Machine, full: str) -> Known:
    """The module that is found under a name as long as it is found there.

    Raises:
        GraphBreak: there is none, or something else, or captured code changed `sys.modules`.
    """
    if machine.recorder.is_met(sys.modules) and _are_changed(machine):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "an import after sys.modules was changed")
    module = sys.modules.get(full)
    if module is None:
        raise GraphBreak(breaks.IMPORT, full)
    found = machine.recorder.wrap(module, None)
    if not isinstance(found, Known) or not isinstance(module, ModuleType):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, _NO_MODULE.format(full))
    machine.recorder.guard(sources.Key(_MODULES, full), Kind.IDENTITY, module, "import")
    return found


def _are_changed(machine: Machine) -> bool:
    """Whether the captured code has written to `sys.modules`, which it has met."""
    modules = machine.recorder.wrap(sys.modules, _MODULES)
    assert isinstance(modules, HeapValue)
    return machine.heap.is_changed(modules.identity)


def _has(module: ModuleType, name: str) -> bool:
    """True if a module has an attribute, or a package a module that is loaded."""
    return name in vars(module) or f"{module.__name__}.{name}" in sys.modules


HANDLERS: Final[dict[str, Handler]] = {
    "IMPORT_NAME": import_name,
    "IMPORT_FROM": import_from,
}
