"""Instances of user classes, modules included, and exceptions.

An instance is a heap object. Attributes of one that existed before are read one at a time, when
asked for, through sources; the contents hold what was read and what was written.
"""

from dataclasses import field
from types import CodeType, TracebackType
from typing import Any, Final

from dynajit.capture.values.containers import DictValue, HeapValue
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record


class _Deleted(Value):
    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = _Deleted()


#: Class of `capture.library` -> the class written in C that it stands for.
DISGUISED: Final[dict[type, type]] = {}

#: Class written in C -> its class of `capture.library`, as whose instances existing ones are read.
READ_AS: Final[dict[type, type]] = {}


class ObjectValue(HeapValue):
    """An instance of a user class; contents: ObjectContents."""

    __slots__ = ()

    @property
    def python_type(self) -> type:
        """The class that the program sees."""
        plain = type(self.cls) is type  # hashing a class may ask its metaclass
        return DISGUISED.get(self.cls, self.cls) if plain else self.cls


@record
class ObjectContents:
    """Attributes written by the captured code (or all, for an object that it made).

    Args:
        existing: the object, if it existed before.
        written: name -> value or DELETED, in the order of the first write; by convention never
            changed in place.
        construct: for an object that it made: values to pass to `cls.__new__` after the class.
        state: attributes that live in C fields, by name.
        storage: what a built-in base class keeps in the instance, see `capture.values.storage`.
    """

    existing: Any = None
    written: dict[str, Value] = field(default_factory=dict)
    construct: tuple[Value, ...] = ()
    state: dict[str, Value] = field(default_factory=dict)
    storage: Value | None = None


class ExceptionValue(ObjectValue):
    """An exception instance; `args` is in `construct`, what else C code keeps in `state`
    (`__cause__`, `__context__`, `__traceback__`, `value` of StopIteration, ...).
    """

    __slots__ = ()


@record
class Passed:
    """A frame that an exception passed through: an entry of its traceback.

    Args:
        columns: first and last column of the expression, where it is within its line.
        last_line: where the exception was raised again last, which is where the frame stands; None:
            nowhere.
    """

    code: CodeType
    globals: dict[str, Any]
    line: int
    columns: tuple[int, int] | None = None
    last_line: int | None = None


@record(eq=False)
class TracebackValue(Value):
    """The traceback of an exception that was raised: a frame, and what is inside of it.

    Args:
        following: a TracebackValue, an existing traceback, or None.
    """

    identity: int
    entry: Passed
    following: Value | None

    @property
    def object_id(self) -> int:
        return self.identity

    @property
    def python_type(self) -> type:
        return TracebackType

    @property
    def chain(self) -> "list[TracebackValue]":
        """This traceback and those inside of it, outermost first."""
        found: list[TracebackValue] = []
        link: Value | None = self
        while isinstance(link, TracebackValue):
            found.append(link)
            link = link.following
        return found


class EntryContext(Value):
    """`__context__` of an exception raised while the captured code handled no other: whatever
    the caller was handling, mostly nothing.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "ENTRY_CONTEXT"


ENTRY_CONTEXT: Final = EntryContext()


@record(eq=False)
class HandledException(Value):
    """The stack slot below an exception that is being handled; holds the one handled before.

    It cannot be rebuilt by itself: real code that handles `exception` again has it.
    """

    exception: Value
    previous: Value | None = None

    @property
    def python_type(self) -> type:
        return BaseException


@record(eq=False)
class InstanceDictValue(DictValue):
    """`owner.__dict__` of a modelled instance; shares its contents, not its identity."""

    owner: Any = None

    @property
    def object_id(self) -> None:  # type: ignore[override]
        """None: the id belongs to the instance."""
        return None
