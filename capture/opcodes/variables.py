"""Constants, locals, cells, globals, stack shuffling."""

import builtins
from typing import Any, Final

from dynajit.capture import _capture, breaks
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.places import sources
from dynajit.capture.python.generators import drop
from dynajit.capture.values.functions import GeneratorValue
from dynajit.capture.values.objects import DELETED
from dynajit.capture.values.symbolic import UNBOUND, Known, Value


def load_const(machine: Machine, frame: Frame, argument: Any) -> None:
    """Push a constant of the code object."""
    frame.push(machine.constant_value(argument))


def load_fast(machine: Machine, frame: Frame, name: str) -> None:
    """Push a local."""
    value = frame.locals.get(name)
    if value is None:
        raise_python(
            machine, UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )  # fmt: skip
    frame.push(value)


def load_fast_and_clear(machine: Machine, frame: Frame, name: str) -> None:
    """Push a local or NULL, and unbind it."""
    frame.push(frame.locals.pop(name, None))


def store_fast(machine: Machine, frame: Frame, name: str) -> Steps[None] | None:
    """Pop into a local; NULL unbinds."""
    value = frame.pop()
    before = dict.get(frame.locals, name)  # no read: see `capture.execution.tried_turns`
    if value is None:
        frame.locals.pop(name, None)
    else:
        frame.locals[name] = value
    return None if before is value else _let_go(machine, before)


def delete_fast(machine: Machine, frame: Frame, name: str) -> Steps[None] | None:
    """`del name`."""
    value = frame.locals.pop(name, None)
    if value is None:
        raise_python(
            machine, UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )  # fmt: skip
    return _let_go(machine, value)


def make_cell(machine: Machine, frame: Frame, name: str) -> None:
    """Make the cell of a captured local."""
    initial = frame.locals.pop(name, UNBOUND)
    frame.cells[name] = machine.new_cell(initial)


def load_cell_and_clear(machine: Machine, frame: Frame, name: str) -> None:
    """Push a cell or NULL, and empty its place: a comprehension's variable gets a new one."""
    frame.push(frame.cells.pop(name, None))


def store_cell(machine: Machine, frame: Frame, name: str) -> None:
    """Pop a cell into the place of a captured variable; NULL empties it."""
    value = frame.pop()
    if value is None:
        frame.cells.pop(name, None)
    else:
        frame.cells[name] = value


def load_closure(machine: Machine, frame: Frame, name: str) -> None:
    """Push a cell."""
    frame.push(frame.cells[name])


def _raise_unbound(machine: Machine, frame: Frame, name: str) -> None:
    is_own = name in frame.code.co_cellvars
    kind, cls = ("local", UnboundLocalError) if is_own else ("free", NameError)
    text = f"cannot access {kind} variable '{name}' where it is not associated with a value"
    if kind == "free":
        text += " in enclosing scope"
    raise_python(machine, cls, text, **({} if is_own else {"name": name}))


def load_deref(machine: Machine, frame: Frame, name: str) -> None:
    """Push the contents of a cell."""
    contents = machine.cell_contents(frame.cells[name])
    if contents is UNBOUND:
        _raise_unbound(machine, frame, name)
    frame.push(contents)


def store_deref(machine: Machine, frame: Frame, name: str) -> None:
    """Pop into a cell."""
    value = frame.pop()
    machine.heap.write(frame.cells[name].identity, value)


def delete_deref(machine: Machine, frame: Frame, name: str) -> None:
    """`del name` of a cell variable."""
    if machine.cell_contents(frame.cells[name]) is UNBOUND:
        _raise_unbound(machine, frame, name)
    machine.heap.write(frame.cells[name].identity, UNBOUND)


def load_global(machine: Machine, frame: Frame, name: str) -> None:
    """Push a global or a builtin."""
    namespace = frame.namespace
    if namespace.is_fixed:
        mapping = namespace.globals if name in namespace.globals else namespace.builtins
        frame.push(machine.recorder.wrap(mapping[name], None))
        return
    _refuse_asking(namespace.globals, name)
    written = machine.global_write(namespace.globals, name)
    if written is not None and written is not DELETED:
        frame.push(written)
        return
    if name in namespace.globals and written is None:
        source = sources.Global(name, namespace.base)
        frame.push(machine.recorder.wrap(namespace.globals[name], source))
        return
    mapping = namespace.builtins
    _refuse_asking(mapping, name)
    if name not in mapping:
        if written is None:
            _rely_on_missing(machine, namespace, "__globals__", name)
        _rely_on_missing(machine, namespace, "__builtins__", name)
        raise_python(machine, NameError, f"name '{name}' is not defined", name=name)
    frame.push(machine.recorder.wrap(mapping[name], sources.Builtin(name, namespace.base)))


def _rely_on_missing(machine: Machine, namespace: Namespace, part: str, name: str) -> None:
    place = sources.PartOf(namespace.base, part)
    machine.recorder.guard(place, Kind.HAS_NO_KEY, name, "missing name")


def _refuse_asking(mapping: dict[str, Any], name: str) -> None:
    """Leave a namespace to Python whose look-up would run the `__eq__` of a key."""
    if not _capture.is_quiet_lookup(mapping, name):
        detail = f"looking up {name!r} asks a key of the namespace that is no string"
        raise breaks.GraphBreak(breaks.UNSUPPORTED_OPERATION, detail)


def store_global(machine: Machine, frame: Frame, name: str) -> None:
    """`global name; name = value`."""
    machine.write_global(frame.namespace, name, frame.pop())


def delete_global(machine: Machine, frame: Frame, name: str) -> None:
    """`global name; del name`."""
    namespace = frame.namespace
    _refuse_asking(namespace.globals, name)
    written = machine.global_write(namespace.globals, name)
    is_missing = written is None and name not in namespace.globals
    if is_missing:
        _rely_on_missing(machine, namespace, "__globals__", name)
    if is_missing or written is DELETED:
        raise_python(machine, NameError, f"name '{name}' is not defined", name=name)
    if written is None:
        machine.recorder.guard_exists(sources.Global(name, namespace.base), "deleted variable")
    machine.write_global(namespace, name, DELETED)


def load_common_constant(machine: Machine, frame: Frame, argument: Any) -> None:
    """Push an object of the interpreter, such as AssertionError."""
    frame.push(Known(argument))


def load_build_class(machine: Machine, frame: Frame, argument: Any) -> None:
    """A class statement; calling it is what breaks."""
    frame.push(Known(builtins.__build_class__))


def push_null(machine: Machine, frame: Frame, argument: Any) -> None:
    """Push an empty slot."""
    frame.push(None)


def pop_top(machine: Machine, frame: Frame, argument: Any) -> Steps[None] | None:
    """Drop the top; a generator that nobody else holds is closed."""
    return _let_go(machine, frame.pop())


def _let_go(machine: Machine, value: Value | None) -> Steps[None] | None:
    return drop(machine, value) if isinstance(value, GeneratorValue) else None


def copy(machine: Machine, frame: Frame, depth: int) -> None:
    """Push again the value at a depth."""
    frame.push(frame.stack[-depth])


def swap(machine: Machine, frame: Frame, depth: int) -> None:
    """Swap the top with the value at a depth."""
    stack = frame.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


HANDLERS: Final[dict[str, Handler]] = {
    "LOAD_CONST": load_const,
    "LOAD_FAST": load_fast,
    "LOAD_FAST_AND_CLEAR": load_fast_and_clear,
    "STORE_FAST": store_fast,
    "DELETE_FAST": delete_fast,
    "MAKE_CELL": make_cell,
    "LOAD_CELL_AND_CLEAR": load_cell_and_clear,
    "STORE_CELL": store_cell,
    "LOAD_CLOSURE": load_closure,
    "LOAD_DEREF": load_deref,
    "STORE_DEREF": store_deref,
    "DELETE_DEREF": delete_deref,
    "LOAD_GLOBAL": load_global,
    "STORE_GLOBAL": store_global,
    "LOAD_COMMON_CONSTANT": load_common_constant,
    "DELETE_GLOBAL": delete_global,
    "LOAD_BUILD_CLASS": load_build_class,
    "PUSH_NULL": push_null,
    "POP_TOP": pop_top,
    "COPY": copy,
    "SWAP": swap,
}
