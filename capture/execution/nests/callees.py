"""Functions of the program that a loop nest calls: their code, and their parameters.

Contract: `Callees.frame_of` is where the blocks of a function begin, `Callees.bound` what its
parameters hold; `*args` is a tuple. A function that capture would not follow either, or that has
`**kwargs`, raises `NotNest`.
"""

import inspect
from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dynajit.capture import control
from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.values import Group, NotNest
from dynajit.capture.guards.parts import part, place_of, rely_on_code, rely_on_defaults
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python
from dynajit.capture.python.calls import is_library
from dynajit.capture.python.contents import dict_entries
from dynajit.capture.python.tensors.tensors import is_library_function, why_not_inlined
from dynajit.capture.values.containers import DictValue
from dynajit.capture.values.functions import FunctionContents, FunctionValue
from dynajit.capture.values.symbolic import Known

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

_OWN: Final = "dynajit."
_NOT_PLAIN: Final = (
    inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)

#: A function that was there before the capture, or one that the captured code has made.
Callee: TypeAlias = Known | FunctionValue


class Callees:
    """The functions that one nest calls. Mutable: each is looked at once.

    Args:
        machine: that captures.
        inputs: of the nest.
    """

    def __init__(self, machine: "Executor", inputs: Inputs) -> None:
        self._machine, self._inputs = machine, inputs
        self._frames: dict[tuple[bool, int], Frame] = {}
        self._defaults: dict[tuple[bool, int], Any] = {}

    def frame_of(self, callee: Callee) -> Frame:
        """The frame of a call.

        Raises:
            NotNest: it is none that a nest has.
        """
        key = _key(callee)
        if key not in self._frames:
            self._frames[key] = (
                self._made_frame(callee)
                if isinstance(callee, FunctionValue)
                else self._found_frame(callee)
            )
        return self._frames[key]

    def _found_frame(self, callee: Known) -> Frame:
        """Of a function that was there before the capture."""
        function, machine = callee.object, self._machine
        if is_library(function) or is_library_function(machine, function):
            raise NotNest
        if str(function.__globals__.get("__name__")).startswith(_OWN):
            raise NotNest  # it may mean something else while a function is captured
        if control.is_disabled(function) or why_not_inlined(machine, function) is not None:
            raise NotNest
        rely_on_code(machine, callee)
        body = _plain_body(function.__code__)
        base = place_of(machine, callee)
        namespace = machine.root.namespace
        if function.__globals__ is not namespace.globals:
            namespace = Namespace.of(function, base)
        cells = machine.recorder.cells_of(function, base)
        found = Frame(body, function.__code__, namespace, {}, cells)
        found.bind_free_cells()
        return found

    def _made_frame(self, callee: FunctionValue) -> Frame:
        """Of a function that the captured code has made. No nest writes to its variables."""
        contents = self._contents_of(callee)
        body = _plain_body(contents.code)
        found = Frame(body, contents.code, contents.namespace, {}, contents.closure)
        found.bind_free_cells()
        return found

    def _contents_of(self, callee: FunctionValue) -> FunctionContents:
        contents = self._machine.heap[callee.identity]
        assert isinstance(contents, FunctionContents)
        return contents

    def bound(self, callee: Callee, arguments: list[Any], names: Sequence[str]) -> dict[str, Any]:
        """The parameters of a function as a call binds them.

        Args:
            names: of the last arguments.

        Raises:
            NotNest: it does not.
        """
        code = self.frame_of(callee).code
        first = len(arguments) - len(names)
        named = dict(zip(names, arguments[first:], strict=True))
        count = code.co_argcount + code.co_kwonlyargcount
        parameters, by_name = code.co_varnames[: code.co_argcount], code.co_varnames[:count]
        found = dict(zip(parameters, arguments[:first], strict=False))
        accepted = by_name[code.co_posonlyargcount :]
        further = arguments[len(parameters) : first]
        has_further = bool(code.co_flags & inspect.CO_VARARGS)
        is_bound = has_further or not further
        if not is_bound or any(n in found or n not in accepted for n in named):
            raise NotNest
        found |= named
        if any(name not in found for name in parameters):
            defaults = self._defaults_of(callee)
            if len(defaults) > len(parameters):
                raise NotNest
            behind = parameters[len(parameters) - len(defaults) :]
            found = dict(zip(behind, defaults, strict=True)) | found
        if any(name not in found for name in by_name[code.co_argcount :]):
            found = self._named_defaults_of(callee) | found
        if any(name not in found for name in by_name):
            raise NotNest
        if has_further:
            found[code.co_varnames[count]] = Group(tuple(further))
        return found

    def _named_defaults_of(self, callee: Callee) -> dict[str, Any]:
        """What a function has for parameters by keyword alone that a call leaves out."""
        if isinstance(callee, FunctionValue):
            named = self._contents_of(callee).keyword_defaults
            if not isinstance(named, DictValue):
                return {}
            entries = dict_entries(self._machine, named).values()
            return {
                as_python(self._machine, key): self._inputs.convert(item) for key, item in entries
            }
        rely_on_defaults(self._machine, callee, callee.object.__code__.co_argcount, ())
        place, recorder = place_of(self._machine, callee), self._machine.recorder
        stored = callee.object.__kwdefaults__ or {}
        return {
            name: self._inputs.convert(recorder.wrap(value, sources.DefaultOf(place, name)))
            for name, value in stored.items()
        }

    def _defaults_of(self, callee: Callee) -> Sequence[Any]:
        """What a function has for parameters that a call leaves out."""
        key = _key(callee)
        if key not in self._defaults:
            if isinstance(callee, FunctionValue):
                placed = self._contents_of(callee).defaults
            else:
                placed = part(self._machine, callee, "__defaults__")
                self._machine.recorder.use(placed)
            self._defaults[key] = None if placed is None else self._inputs.convert(placed)
        known = self._defaults[key]
        return known.items if isinstance(known, Group) else ()


def _key(callee: Callee) -> tuple[bool, int]:
    """What tells callees apart: functions that are made, and those that are there."""
    if isinstance(callee, FunctionValue):
        return True, callee.identity
    return False, id(callee.object)


def _plain_body(code: CodeType) -> Body:
    """The instructions of a function without `**kwargs`.

    Raises:
        NotNest: it has them, or is a generator, or is not understood.
    """
    body = decode(code)
    if code.co_flags & _NOT_PLAIN or body.unsupported is not None:
        raise NotNest
    return body


__all__ = ["Callee", "Callees"]
