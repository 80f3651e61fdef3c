"""What the classes of exceptions that take their arguments apart do in C: real ones are asked.

`OSError`, `ImportError`, `SyntaxError` and the Unicode errors keep fields next to `args`, by rules
that depend on which of `__new__` and `__init__` a subclass has. A real exception of a class that
looks alike is made, with real objects in the place of values; what it keeps is read back. No user
code runs.
"""

import functools
import types
from typing import Any, Final, NoReturn

from dynajit.capture.machine.exceptions import NotKnown, new_exception, raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, is_known, unsupported
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.errors import stand_in
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.objects import ExceptionValue, ObjectContents
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.symbolic import Value

#: Built-in classes whose `__init__` takes arguments apart, or whose text is their own.
PARSING: Final = (ImportError, OSError, SyntaxError, UnicodeError)

_RAISED: Final = (TypeError, ValueError, AttributeError, OverflowError)


def native_class(cls: type) -> type:
    """The first class among the bases that is not written in Python."""
    return next(base for base in cls.__mro__ if not is_heap_type(base))


def find(cls: type, name: str) -> Any:
    """What the class stores under a name, by its bases; None where nothing does."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


@functools.cache
def fields(native: type) -> tuple[str, ...]:
    """Names of the C fields that built-in subclasses of BaseException add."""
    return tuple(
        name
        for base in native.__mro__
        if base not in (BaseException, object)
        for name, member in vars(base).items()
        if isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType))
    )


class _Unknown:
    """Stands for a value that is only handed on."""

    def __repr__(self) -> str:
        raise NotKnown("text of an exception's argument")


class Likeness:
    """Real objects for values, and the way back (mutable; for one question).

    Args:
        machine: the symbolic machine.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._values: dict[int, Value] = {}
        self._kept: list[Any] = []  # so that ids stay theirs

    def real(self, value: Value) -> Any:
        """An object of the value's type; the value itself where it is known."""
        if isinstance(value, TupleValue) and value.cls is tuple and not is_known(value):
            return self._enter(value, tuple(self.real(item) for item in value.items))
        if isinstance(value, ListValue):
            return self._enter(value, [self.kept(item) for item in list_items(self.machine, value)])
        return self._enter(value, stand_in(self.machine, value))

    def kept(self, value: Value) -> Any:
        """An object for a value that is only stored and read."""
        if is_known(value):
            return self._enter(value, as_python(self.machine, value))
        return self._enter(value, _Unknown())

    def _enter(self, value: Value, made: Any) -> Any:
        self._kept.append(made)
        self._values.setdefault(id(made), value)
        return made

    def value(self, made: Any) -> Value:
        """The value that an object stands for.

        Raises:
            GraphBreak: it is a new object that is not modelled.
        """
        found = self._values.get(id(made))
        if found is not None:
            return found
        try:
            result: Value = from_python(self.machine, made)
        except NotKnown:
            raise unsupported("exception field", type(made).__name__) from None
        return result

    def exception(self, value: ExceptionValue) -> BaseException:
        """A real exception with the same `args` and fields."""
        native = native_class(value.cls)
        look_alike = _look_alike(value.cls, native)
        made = _blank(look_alike, native)
        contents: ObjectContents = self.machine.heap[value.identity]
        made.args = tuple(self.kept(item) for item in contents.construct)
        for name, item in contents.state.items():
            if name in fields(native) and not issubclass(native, BaseExceptionGroup):
                object.__setattr__(made, name, self.kept(item))
        return made

    def read_back(self, value: ExceptionValue, made: BaseException) -> None:
        """Give `value` what a real exception keeps."""
        contents: ObjectContents = self.machine.heap[value.identity]
        state = {name: item for name, item in contents.state.items() if name.startswith("__")}
        for name in fields(native_class(value.cls)):
            item = getattr(made, name, None)
            if item is not None:
                state[name] = self.value(item)
        args = tuple(self.value(item) for item in made.args)
        changed = ObjectContents(contents.existing, contents.written, args, state)
        self.machine.heap.write(value.identity, changed)


def _blank(cls: type, native: type) -> BaseException:
    if issubclass(native, BaseExceptionGroup):
        made: BaseException = native.__new__(cls, "", [Exception()])
        return made
    made = native.__new__(cls)
    return made


@functools.lru_cache(maxsize=256)
def _look_alike_class(name: str, native: type, own: tuple[str, ...]) -> type:
    return type(name, (native,), {method: lambda *_, **__: None for method in own})


def _look_alike(cls: type, native: type) -> type:
    """A class of the same name that has its own `__new__` and `__init__` where `cls` has."""
    if cls is native:
        return native
    own = [name for name in ("__new__", "__init__") if find(cls, name) is not find(native, name)]
    return _look_alike_class(cls.__name__, native, tuple(own))


def _raise(machine: Machine, error: Exception) -> NoReturn:
    raise_python(machine, type(error), *error.args)
    raise AssertionError


def new_parsed(
    machine: Machine, cls: type, args: list[Value], keywords: dict[str, Value]
) -> ExceptionValue:
    """`native.__new__(cls, *args, **keywords)`, which may choose a subclass."""
    native = native_class(cls)
    likeness = Likeness(machine)
    values = [likeness.real(value) for value in args]
    named = {name: likeness.real(value) for name, value in keywords.items()}
    try:
        made = native.__new__(_look_alike(cls, native), *values, **named)
    except _RAISED as error:
        _raise(machine, error)
    result = new_exception(machine, type(made) if cls is native else cls, ())
    likeness.read_back(result, made)
    return result


def initialise_parsed(
    machine: Machine, value: ExceptionValue, args: list[Value], keywords: dict[str, Value]
) -> None:
    """`native.__init__(value, *args, **keywords)`."""
    likeness = Likeness(machine)
    made = likeness.exception(value)
    values = [likeness.real(item) for item in args]
    named = {name: likeness.real(item) for name, item in keywords.items()}
    try:
        native_class(value.cls).__init__(made, *values, **named)  # type: ignore[misc]
    except _RAISED as error:
        _raise(machine, error)
    likeness.read_back(value, made)


def parsed_text(machine: Machine, value: ExceptionValue) -> str:
    """`str(value)` for a class whose text is made of its fields."""
    made = Likeness(machine).exception(value)
    try:
        return str(made)
    except NotKnown:
        raise unsupported("str", value) from None


def field_that_is_not_set(machine: Machine, value: ExceptionValue, name: str) -> Value:
    """A C field that nothing was stored in: mostly None."""
    likeness = Likeness(machine)
    try:
        return likeness.value(getattr(likeness.exception(value), name))
    except AttributeError as error:
        _raise(machine, error)


def check_field(machine: Machine, value: ExceptionValue, name: str, item: Value | None) -> None:
    """Raise what storing `item` into a C field (None: deleting it) raises."""
    likeness = Likeness(machine)
    made = likeness.exception(value)
    try:
        if item is None:
            object.__delattr__(made, name)
        else:
            object.__setattr__(made, name, likeness.real(item))
    except _RAISED as error:
        _raise(machine, error)
