"""`inspect.signature` of functions that are known: what their code and their defaults say.

Contract: a signature is known by the function, whose code and defaults are guarded; its parameters
are a dict of known objects that nothing changes. Functions that say another signature
(`__wrapped__`, `__signature__`), classes and other callables are left to Python.
"""

import inspect
import types
from typing import Final

from dynajit.capture.guards.parts import part, rely_on_code
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, at_once, is_known, unsupported
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import dict_entries, new_dict
from dynajit.capture.values.containers import DictValue, TupleValue
from dynajit.capture.values.functions import BoundMethod
from dynajit.capture.values.symbolic import Known, Value, constant

#: What is read of a parameter as it is.
_PLAIN: Final = ("name", "kind", "default", "annotation")


@special(inspect.signature)
@at_once
def _signature(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    target = args[0] if len(args) == 1 and not keywords else None
    is_method = isinstance(target, BoundMethod)
    function = target.function if isinstance(target, BoundMethod) else target
    if (
        not isinstance(function, Known)
        or not isinstance(function.object, types.FunctionType)
        or not {"__wrapped__", "__signature__"}.isdisjoint(function.object.__dict__)
    ):
        raise unsupported("inspect.signature", *args)
    rely_on_code(machine, function)
    _rely_on_defaults(machine, function)
    found = inspect.signature(function.object)
    if is_method:
        parameters = list(found.parameters.values())
        if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise unsupported("inspect.signature", *args)
        if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            found = found.replace(parameters=parameters[1:])
    return Known(found)


def _rely_on_defaults(machine: Machine, function: Known) -> None:
    placed, named = (
        part(machine, function, "__defaults__"),
        part(machine, function, "__kwdefaults__"),
    )
    machine.recorder.use(placed)
    machine.recorder.use(named)
    items = list(placed.items) if isinstance(placed, TupleValue) else []
    if isinstance(named, DictValue):
        items += [item for _, item in dict_entries(machine, named).values()]
    for item in items:
        if is_known(item):
            as_python(machine, item)
        else:
            machine.recorder.use(item)


def signature_attribute(machine: Machine, value: Known, name: str) -> Value | None:
    """An attribute of a signature or of a parameter; None for those of other objects."""
    obj = value.object
    if type(obj) is inspect.Signature and name == "parameters":
        pairs = [(constant(key), Known(found)) for key, found in obj.parameters.items()]
        made: Value = new_dict(machine, pairs, dict)
        return made
    if type(obj) is inspect.Signature and name == "_parameters":
        return signature_attribute(machine, value, "parameters")
    if type(obj) in (inspect.Signature, inspect.Parameter):
        raw = vars(type(obj)).get(name)
        if isinstance(raw, types.FunctionType):
            return BoundMethod(Known(raw), value)
    if type(obj) is inspect.Signature and name == "return_annotation":
        return machine.recorder.wrap(obj.return_annotation, sources.Constant(obj.return_annotation))
    if type(obj) is inspect.Parameter and name in _PLAIN:
        found = getattr(obj, name)
        return machine.recorder.wrap(found, sources.Constant(found))
    return None
