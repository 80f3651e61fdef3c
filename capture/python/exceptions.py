"""Exception objects: construction, attributes kept in C fields, methods, text.

Functions of the machine (`capture.machine.machine`). A class of
exceptions is a built-in one (its `native` class) with Python classes on top; what the Python
classes define runs as ordinary captured code, what the native class does in C is written out here.
"""

import builtins
import types
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.parts import is_wrapper, wrapped
from dynajit.capture.machine.exceptions import (
    handled,
    native_state,
    new_exception,
    raise_python,
    write_state,
)
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    as_python,
    at_once,
    is_known,
    is_none,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.builtins.table import SPECIAL
from dynajit.capture.python.contents import list_items, new_list
from dynajit.capture.python.exceptions_in_c import (
    PARSING,
    check_field,
    field_that_is_not_set,
    fields,
    find,
    initialise_parsed,
    native_class,
    new_parsed,
    parsed_text,
)
from dynajit.capture.python.results import has_attribute
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.objects import (
    ENTRY_CONTEXT,
    ExceptionValue,
    InstanceDictValue,
    ObjectContents,
    TracebackValue,
)
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.symbolic import FALSE, NONE, TRUE, Known, Opaque, Value, constant
from dynajit.capture.values.users_code import inherits
from dynajit.core.errors import InternalError

_NAMED: Final = {AttributeError: ("name", "obj"), NameError: ("name",)}


# -- construction --------------------------------------------------------------------------------


def construct_exception(
    machine: Machine, callee: Known, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`cls(*args, **keywords)` for a class of exceptions."""
    cls = callee.object
    if type(cls).__call__ is not type.__call__:
        raise unsupported("class with a metaclass", callee)
    new = find(cls, "__new__")
    if is_wrapper(new, staticmethod):
        made = yield from machine.call(wrapped(new, "__func__"), [callee, *args], keywords)
        if not inherits(type_of(machine, made), cls):
            return made
        if not isinstance(made, ExceptionValue):
            raise unsupported("__init__", made)
    elif isinstance(new, types.BuiltinFunctionType):
        made = new_native(machine, cls, args, keywords)
    else:
        raise unsupported(f"{type(new).__name__} __new__", callee)
    initialise = find(made.cls, "__init__")
    if not isinstance(initialise, types.FunctionType):
        initialise_native(machine, made, args, keywords)
        return made
    result = yield from machine.call(Known(initialise), [made, *args], keywords)
    if not is_none(machine, result):
        kind = result.python_type.__name__
        raise_python(machine, TypeError, f"__init__() should return None, not '{kind}'")
    return made


def new_native(
    machine: Machine, cls: type, args: list[Value], keywords: dict[str, Value]
) -> ExceptionValue:
    """`BaseException.__new__(cls, *args)`: keeps the arguments."""
    native = native_class(cls)
    if issubclass(native, PARSING):
        return new_parsed(machine, cls, args, keywords)
    if issubclass(native, BaseExceptionGroup):
        return _new_group(machine, cls, args)
    return new_exception(machine, cls, tuple(args))


def initialise_native(
    machine: Machine, value: ExceptionValue, args: list[Value], keywords: dict[str, Value]
) -> None:
    """`BaseException.__init__(value, *args, **keywords)`, and what subclasses in C add."""
    native = native_class(value.cls)
    named = next((names for cls, names in _NAMED.items() if issubclass(native, cls)), ())
    if issubclass(native, PARSING):
        initialise_parsed(machine, value, args, keywords)
        return
    for name in keywords:
        if named and name not in named:
            raise_python(machine, TypeError, f"{_unexpected(native.__name__, name)}")
        if not named:
            text = f"{value.cls.__name__}() takes no keyword arguments"
            raise_python(machine, TypeError, text)
    _set_args(machine, value, tuple(args))
    for name, item in (*native_state(value.cls, tuple(args)).items(), *keywords.items()):
        write_state(machine, value, name, item)


def _unexpected(function: str, name: str) -> str:
    """The text of an argument parser in C for a keyword that it does not take."""
    try:
        AttributeError(**{name: None})
    except TypeError as error:
        return str(error).replace("AttributeError", function)
    return f"'{name}' is an invalid keyword argument for {function}()"


def _set_args(machine: Machine, value: ExceptionValue, args: tuple[Value, ...]) -> None:
    contents: ObjectContents = machine.heap[value.identity]
    changed = ObjectContents(contents.existing, contents.written, args, contents.state)
    machine.heap.write(value.identity, changed)


def _new_group(machine: Machine, cls: type, args: list[Value]) -> ExceptionValue:
    """`BaseExceptionGroup.__new__(cls, message, exceptions)`."""
    text = f"BaseExceptionGroup.__new__() takes exactly 2 arguments ({len(args)} given)"
    if len(args) != 2:
        raise_python(machine, TypeError, text)
    message, given = args
    if type_of(machine, message) is not str:
        kind = message.python_type.__name__
        text = f"BaseExceptionGroup.__new__() argument 1 must be str, not {kind}"
        raise_python(machine, TypeError, text)
    if not isinstance(given, (ListValue, TupleValue)):
        raise unsupported(f"{cls.__name__} of another sequence", given)
    items = list_items(machine, given) if isinstance(given, ListValue) else given.items
    if not items:
        text = "second argument (exceptions) must be a non-empty sequence"
        raise_python(machine, ValueError, text)
    for index, item in enumerate(items):
        if not issubclass(type_of(machine, item), BaseException):
            text = f"Item {index} of second argument (exceptions) is not an exception"
            raise_python(machine, ValueError, text)
    plain = all(issubclass(type_of(machine, item), Exception) for item in items)
    if cls is BaseExceptionGroup and plain:
        cls = ExceptionGroup
    elif issubclass(cls, Exception) and not plain:
        kind = "an ExceptionGroup" if cls is ExceptionGroup else f"'{cls.__name__}'"
        raise_python(machine, TypeError, f"Cannot nest BaseExceptions in {kind}")
    made = new_exception(machine, cls, tuple(args))
    write_state(machine, made, "message", message)
    write_state(machine, made, "exceptions", TupleValue(tuple(items)))
    return made


@at_once
def _new(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return new_native(machine, as_python(machine, args[0]), args[1:], keywords)


for _cls in vars(builtins).values():
    if isinstance(_cls, type) and issubclass(_cls, BaseException):
        SPECIAL[_cls.__new__] = _new


# -- attributes ----------------------------------------------------------------------------------


def is_native_field(raw: Any) -> bool:
    """True for a descriptor of a field that C code keeps."""
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return isinstance(raw, kinds) and not is_heap_type(raw.__objclass__)


def member(machine: Machine, value: ExceptionValue, name: str) -> Value:
    """What a C field of an exception holds."""
    contents: ObjectContents = machine.heap[value.identity]
    if name == "args":
        return TupleValue(contents.construct)
    if name == "__dict__":
        return InstanceDictValue(value.identity, dict, None, value)
    found = contents.state.get(name)
    if found is ENTRY_CONTEXT:
        uses_no_handled(machine)
        return NONE
    if found is not None:
        return found
    if name == "__suppress_context__":
        return FALSE
    if name == "code" and issubclass(value.cls, SystemExit):
        args = contents.construct
        return NONE if not args else args[0] if len(args) == 1 else TupleValue(args)
    if issubclass(value.cls, PARSING) and name in fields(native_class(value.cls)):
        return field_that_is_not_set(machine, value, name)
    return NONE


def set_member(machine: Machine, value: ExceptionValue, name: str, item: Value) -> Steps[None]:
    """`value.name = item` for a C field."""
    if name == "args":
        _set_args(machine, value, tuple((yield from machine.to_items(item))))
        return
    if name in ("__cause__", "__context__"):
        if not (issubclass(type_of(machine, item), BaseException) or is_none(machine, item)):
            what = name.strip("_")
            raise_python(
                machine, TypeError, f"exception {what} must be None or derive from BaseException"
            )
        if name == "__cause__":
            write_state(machine, value, "__suppress_context__", TRUE)
    if name == "__traceback__" and not (is_traceback(machine, item) or is_none(machine, item)):
        raise_python(machine, TypeError, "__traceback__ must be a traceback or None")
    if name == "__dict__":
        raise unsupported("__dict__ = ...", value)
    if not name.startswith("__") or name == "__suppress_context__":
        check_field(machine, value, name, item)
    write_state(machine, value, name, item)


def delete_member(machine: Machine, value: ExceptionValue, name: str) -> None:
    """`del value.name` for a C field."""
    if name == "__dict__":
        raise unsupported("del __dict__", value)
    check_field(machine, value, name, None)
    write_state(machine, value, name, None)


def is_traceback(machine: Machine, value: Value) -> bool:
    """True for a traceback of the captured code, and for one that existed before."""
    is_known_kind = isinstance(value, (TracebackValue, Opaque))
    return is_known_kind and type_of(machine, value) is types.TracebackType


def uses_no_handled(machine: Machine) -> None:
    """The region depends on the caller not handling an exception.

    Raises:
        GraphBreak: the caller is handling one now.
    """
    if machine.is_caller_handling:
        raise unsupported("the exception that the caller handles")
    machine.recorder.guard(GRAD_MODE_SOURCE, Kind.HANDLING, False, "exception context")


def current(machine: Machine) -> Value:
    """`sys.exception()`."""
    found = handled(machine)
    if found is None:
        uses_no_handled(machine)
        return NONE
    return found


def traceback_attribute(machine: Machine, value: TracebackValue, name: str) -> Value:
    """`tb_lineno`, `tb_next` of a traceback."""
    if name == "tb_lineno":
        return constant(value.entry.line)
    if name == "tb_next":
        return NONE if value.following is None else value.following
    raise unsupported(name, value)


# -- methods -------------------------------------------------------------------------------------


def exception_method(
    machine: Machine,
    value: ExceptionValue,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Steps[Value]:
    """A method that an exception inherits from a class written in C."""
    if name == "__init__":
        initialise_native(machine, value, args, keywords)
        return NONE
    if name in ("__str__", "__repr__") and not args:
        return constant((yield from native_text(machine, value, name)))
    if name == "with_traceback" and len(args) == 1:
        yield from set_member(machine, value, "__traceback__", args[0])
        return value
    if name == "add_note" and len(args) == 1:
        return (yield from _add_note(machine, value, args[0]))
    if name in ("__setattr__", "__delattr__", "__getattribute__"):
        return (yield from machine.call_object_method(name, value, args))
    if name in ("derive", "split", "subgroup") and len(args) == 1:
        return (yield from _group_method(machine, value, name, args[0]))
    raise unsupported(name, value, *args)


def _message(function: Callable[..., Any], *arguments: Any) -> str:
    """The text of the TypeError that a call raises; Python versions word it differently."""
    try:
        function(*arguments)
    except TypeError as error:
        return str(error)
    raise InternalError(f"{function.__name__} did not raise.")


_NO_NOTE: Final = _message(BaseException.add_note, BaseException(), object())


def _add_note(machine: Machine, value: ExceptionValue, note: Value) -> Steps[Value]:
    if not issubclass(type_of(machine, note), str):
        raise_python(machine, TypeError, _NO_NOTE.replace("object", type_name(note.python_type)))
    if not (yield from has_attribute(machine, value, "__notes__")):
        yield from machine.set_attribute(value, "__notes__", new_list(machine, []))
    notes = yield from machine.get_attribute(value, "__notes__")
    if not isinstance(notes, ListValue):
        raise_python(machine, TypeError, "Cannot add note: __notes__ is not a list")
    machine.heap.write(notes.identity, (*list_items(machine, notes), note))
    return NONE


# -- groups --------------------------------------------------------------------------------------


def matches(machine: Machine, value: Value, classes: Any) -> bool:
    """`except classes` takes `value`: by the real bases, no `__subclasscheck__`."""
    accepted = classes if isinstance(classes, tuple) else (classes,)
    return any(
        matches(machine, value, cls) if isinstance(cls, tuple) else inherits(value.python_type, cls)
        for cls in accepted
    )


def members_of(machine: Machine, group: ExceptionValue) -> tuple[Value, ...]:
    """`group.exceptions`."""
    found: tuple[Value, ...] = machine.heap[group.identity].state["exceptions"].items
    return found


def split(machine: Machine, group: Value, classes: Any) -> Steps[tuple[Value | None, Value | None]]:
    """(matching part, rest) of a group, each a value or None; by classes only."""
    if matches(machine, group, classes):
        return group, None
    if not issubclass(group.python_type, BaseExceptionGroup):
        return None, group
    if not isinstance(group, ExceptionValue):
        raise unsupported("split", group)
    inside: list[Value] = []
    outside: list[Value] = []
    for item in members_of(machine, group):
        first, second = yield from split(machine, item, classes)
        inside += [first] if first is not None else []
        outside += [second] if second is not None else []
    left = (yield from derive(machine, group, inside)) if inside else None
    right = (yield from derive(machine, group, outside)) if outside else None
    return left, right


def derive(machine: Machine, group: ExceptionValue, items: list[Value]) -> Steps[Value]:
    """A group like `group` with other members: same message, cause, context, notes, traceback."""
    method = find(group.cls, "derive")
    message = member(machine, group, "message")
    if isinstance(method, types.FunctionType):
        made = yield from machine.call(Known(method), [group, new_list(machine, items)], {})
        if not issubclass(type_of(machine, made), BaseExceptionGroup):
            raise_python(machine, TypeError, "derive must return an instance of BaseExceptionGroup")
        if not isinstance(made, ExceptionValue):
            raise unsupported("derive", made)
    else:
        made = _new_group(machine, BaseExceptionGroup, [message, new_list(machine, items)])
    state = machine.heap[group.identity].state
    for name in ("__traceback__", "__context__", "__cause__"):
        if name in state:
            write_state(machine, made, name, state[name])
    write_state(machine, made, "__suppress_context__", TRUE)  # PyException_SetCause does that
    if (yield from has_attribute(machine, group, "__notes__")):
        notes = yield from machine.get_attribute(group, "__notes__")
        if isinstance(notes, ListValue):
            yield from machine.set_attribute(
                made, "__notes__", new_list(machine, list_items(machine, notes))
            )
    return made


def _group_method(
    machine: Machine, value: ExceptionValue, name: str, argument: Value
) -> Steps[Value]:
    if name == "derive":
        return _new_group(
            machine, BaseExceptionGroup, [member(machine, value, "message"), argument]
        )
    if not is_known(argument):
        raise unsupported(name, value, argument)
    classes = as_python(machine, argument)
    if not isinstance(classes, (type, tuple)):
        raise unsupported(name, value, argument)
    first, second = yield from split(machine, value, classes)
    first = NONE if first is None else first
    if name == "subgroup":
        return first
    return TupleValue((first, NONE if second is None else second))


# -- text ----------------------------------------------------------------------------------------


def exception_text(machine: Machine, value: ExceptionValue, conversion: str) -> Steps[str]:
    """`str(value)`, `repr(value)` or `ascii(value)` as a Python str."""
    name = "__str__" if conversion == "str" else "__repr__"
    method = find(value.cls, name)
    if isinstance(method, types.FunctionType):
        result = yield from machine.call(Known(method), [value], {})
        if type_of(machine, result) is not str:
            kind = result.python_type.__name__
            raise_python(machine, TypeError, f"{name} returned non-string (type {kind})")
        text: str = as_python(machine, result)
    else:
        text = yield from native_text(machine, value, name)
    if conversion == "ascii" and not text.isascii():
        return text.encode("ascii", "backslashreplace").decode("ascii")
    return text


def native_text(machine: Machine, value: ExceptionValue, name: str) -> Steps[str]:
    """`BaseException.__str__` or `__repr__`, and those of subclasses written in C."""
    native = native_class(value.cls)
    args = machine.heap[value.identity].construct
    if name == "__repr__":
        shown = []
        for item in args:
            shown.append((yield from machine.to_text(item, "repr")))
        return f"{value.cls.__name__}({', '.join(shown)})"
    if issubclass(native, BaseExceptionGroup):
        count = len(members_of(machine, value))
        message = as_python(machine, member(machine, value, "message"))
        return f"{message} ({count} sub-exception{'s' if count > 1 else ''})"
    if issubclass(native, PARSING):
        return parsed_text(machine, value)
    if len(args) == 1:
        conversion = "repr" if issubclass(native, KeyError) else "str"
        return (yield from machine.to_text(args[0], conversion))
    return (yield from machine.to_text(TupleValue(args), "str")) if args else ""
