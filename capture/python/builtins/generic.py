"""Generic functions of `functools.singledispatch`: which implementation a class has, guarded.

The registry is the program's; the cache of `functools` and its weak references are not asked.
Handlers of `capture.python.builtins.table`; see there.
"""

import abc
import functools
import types
import weakref
from typing import Any

from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, at_once, is_known, type_of, unsupported
from dynajit.capture.python.builtins.table import SPECIAL_CODE
from dynajit.capture.python.contents import dict_entries
from dynajit.capture.values.containers import DictValue
from dynajit.capture.values.symbolic import Value


def _in_closure(
    function: types.FunctionType, place: sources.Source, name: str
) -> tuple[Any, sources.Source]:
    """A variable of the function around, and where it is."""
    index = function.__code__.co_freevars.index(name)
    assert function.__closure__ is not None
    return function.__closure__[index].cell_contents, sources.Closure(place, index, name)


def _implementation(
    machine: Machine, dispatch: types.FunctionType, place: sources.Source, kind: type
) -> Value:
    cache, _ = _in_closure(dispatch, place, "dispatch_cache")
    if type(cache) is not weakref.WeakKeyDictionary:
        raise unsupported("a generic function with a cache of the user's")
    registry, place = _in_closure(dispatch, place, "registry")
    known = machine.recorder.wrap(registry, place)
    assert isinstance(known, DictValue)
    entries = dict_entries(machine, known)
    if any(isinstance(cls, abc.ABCMeta) for cls in registry):
        raise unsupported("a generic function of abstract classes")
    chosen = next(cls for cls in kind.__mro__ if cls in registry)
    found: Value = next(item for key, item in entries.values() if as_python(machine, key) is chosen)
    return found


@at_once
def _dispatch(
    machine: Machine, function: types.FunctionType, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`generic.dispatch(cls)`."""
    if len(args) != 1 or keywords or not is_known(args[0]):
        raise unsupported("dispatch", *args)
    return _implementation(
        machine, function, sources.Constant(function), as_python(machine, args[0])
    )


def _generic(
    machine: Machine, wrapper: types.FunctionType, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """A call of a generic function: by the class of the first argument."""
    if not args:
        raise unsupported("a generic function without arguments")
    dispatch, place = _in_closure(wrapper, sources.Constant(wrapper), "dispatch")
    implementation = _implementation(machine, dispatch, place, type_of(machine, args[0]))
    return (yield from machine.call(implementation, args, keywords))


_example: Any = functools.singledispatch(lambda _: None)
SPECIAL_CODE[_example.__code__] = _generic
SPECIAL_CODE[_example.dispatch.__code__] = _dispatch
