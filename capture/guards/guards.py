"""Guards: the facts about its inputs that a compiled region relies on.

A `Guard` is frozen data: a source, a kind, what was expected, and why. It is recorded when a fact
is *used*. What it expects of tensors, numbers and functions is described in `capture.guards.facts`;
the guards of one region become a C evaluator, which never runs user code, in `capture.guards.tree`.
A guard that fails can explain itself in one sentence with the old and the new value.

Made by the executor; read by `capture.entry.cache`, the C entry object and the reports.
"""

import enum
import math
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

from dynajit.capture.guards.facts import CONTAINERS, FunctionFacts, TensorFacts, describe, is_plain
from dynajit.capture.guards.relations import Relation
from dynajit.capture.places.sources import Source, State
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InternalError
from dynajit.core.location import Location
from dynajit.core.records import record
from dynajit.eager._tensor import are_writes_checked
from dynajit.eager.modes.autocast_mode import _autocast_word
from dynajit.eager.modes.grad_mode import is_inference_mode_enabled
from dynajit.ops.calls import autocast_words as words


class Kind(enum.IntEnum):
    """What a guard checks; same numbers in `native/guards.h`. Cheaper kinds come first."""

    TYPE_IS = 0  # expected: the exact class
    IDENTITY = 1  # expected: the object
    EQUALS = 2  # expected: None, bool, int, float, complex, str, bytes, or a tuple of these
    TENSOR = 3  # expected: TensorFacts
    LENGTH = 4  # expected: number of items of a list, tuple, dict, set, str or bytes
    TRUE_VALUE = 5  # expected: bool: whether a container of those kinds is not empty
    DICT_KEYS = 6  # expected: tuple of the keys, or of the members of a set, in order
    HAS_NO_ATTRIBUTE = 7  # expected: name found neither on the instance nor on its class
    HAS_NO_KEY = 8  # expected: key that a dict lacks
    PREDICATE = 9  # expected: Predicate: comparisons of an int, float or str with constants
    FUNCTION = 10  # expected: FunctionFacts: code object
    GRAD_MODE = 11  # expected: bool
    NOT_ALIASED = 12  # expected: other Source: two different objects
    ALIASED = 13  # expected: other Source: one object
    NO_SHARED_STORAGE = 14  # expected: other Source: two tensors that share no storage
    INSTANCE_LACKS = 15  # expected: name absent from the instance dict (the class may have it)
    SEPARATE_MEMORY = 16  # expected: tuple of (tensor's source, MemoryUse), see there
    HANDLING = 17  # expected: bool: whether the caller is handling an exception
    RELATION = 18  # expected: Relation between sizes; the source is that of its first term
    STORAGE_EQUALS = 19  # expected: int, float, complex, str, bytes: base class's part of a value
    POSITION = 20  # expected: number of items that an iterator over a list or tuple has given
    CLASS_UNCHANGED = 21  # expected: the class: its bases, methods, descriptors, special names
    REGISTRATIONS = 22  # expected: int: `abc.get_cache_token()`
    ENDS_QUIETLY = 23  # expected: bool: whether the argument is a tuple or dict of one call
    EXISTS = 24  # expected: None: there is something at the place
    AUTOCAST = 25  # expected: int: the autocast word (`ops.calls.autocast_words`)
    INFERENCE = 26  # expected: bool: whether `inference_mode` is on
    SUBCLASSES = 27  # expected: tuple of the classes that derive from a class directly, in order
    DEVICE = 28  # expected: int: number of the current GPU
    WRITES_CHECKED = 29  # expected: bool: whether `eager.modes.write_limits` limits writes


RELATIONS = (Kind.NOT_ALIASED, Kind.ALIASED, Kind.NO_SHARED_STORAGE)
GRAD_MODE_SOURCE = State()


@record
class Guard:
    """One fact.

    Args:
        source: what it is about.
        kind: what is checked.
        expected: see `Kind`.
        location: the user's line that relied on it, or None.
        reason: why the region relies on it, such as "branch condition".
    """

    source: Source
    kind: Kind
    expected: Any
    location: Location | None = field(default=None, compare=False)
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.source.is_guardable:
            raise InternalError(f"guard {self.kind.name} on {self.source}, which has no path")

    def identity(self) -> tuple[Any, ...]:
        """A hashable key: two guards with equal keys check the same fact."""
        return guard_key(self.source, self.kind, self.expected)

    def expression(self) -> str:
        """The condition as Python text."""
        return _EXPRESSIONS[self.kind](self.source.expression(), self.expected)

    def explain(self, actual: Any = None) -> str:
        """One sentence: what the region was compiled for and what it met.

        Args:
            actual: the value now, or `MISSING` where the place no longer exists.
        """
        name = self.source.expression()
        if self.kind is Kind.RELATION and actual is not MISSING:
            return f"expected {self.expression()}, now {self.new_text(actual)}"
        if actual is MISSING:
            return f"{name} does not exist any more (expected {self.expression()})"
        if self.kind is Kind.CLASS_UNCHANGED:
            return self.new_text(actual)
        if self.kind is Kind.TENSOR:
            return f"{name}: {self.expected.difference(actual)}"
        return f"{name}: expected {self.old_text()}, now {self.new_text(actual)}"

    def old_text(self) -> str:
        """What was expected, in words."""
        return _EXPECTED_TEXT.get(self.kind, str)(self.expected)

    def new_text(self, actual: Any) -> str:
        """The value now, in words."""
        if actual is MISSING:
            return "missing"
        if self.kind is Kind.TENSOR and hasattr(actual, "array"):
            return str(TensorFacts.of(actual))
        if self.kind is Kind.RELATION:
            return str(self.expected.values_text(actual))
        return _ACTUAL_TEXT.get(self.kind, describe)(actual)

    def __str__(self) -> str:
        where = f"  # {self.reason}" if self.reason else ""
        line = f" at {self.location}" if self.location else ""
        return f"{self.expression()}{where}{line}"


def guard_key(source: Source, kind: Kind, expected: Any) -> tuple[Any, ...]:
    """`Guard.identity()` of the guard that would be made of these."""
    return (source, kind, _expected_key(kind, expected))


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


def _writes_text(are_checked: bool) -> str:
    return "a call by vmap" if are_checked else "no call by vmap"


def _inference_text(is_on: bool) -> str:
    return "inference mode on" if is_on else "inference mode off"


def _change_text(change: Any) -> str:
    """`C.method was replaced`, from (class, name, what happened)."""
    cls, name, happened = change
    return f"{_class_name(cls)}.{name} was {happened}"


def _class_name(cls: Any) -> str:
    return describe(cls).removeprefix("class ")


def _keys_text(keys: Iterable[Any]) -> str:
    return "[" + ", ".join(describe(key) for key in keys) + "]"


def _written_text(expected: Any) -> str:
    names = [f"{s.expression()}{' (written)' if use else ''}" for s, use in expected]
    return ", ".join(names)


def _describe_expected(expected: Any) -> str:
    return repr(expected) if isinstance(expected, tuple) else describe(expected)


def _length_text(expected: Any) -> str:
    return f"length {expected}"


_EXPECTED_TEXT: dict[Kind, Callable[[Any], str]] = {
    Kind.TYPE_IS: lambda e: f"a {_class_name(e)}",
    Kind.IDENTITY: _describe_expected,
    Kind.EQUALS: _describe_expected,
    Kind.STORAGE_EQUALS: _describe_expected,
    Kind.POSITION: lambda e: f"an iterator that gave {e} items",
    Kind.CLASS_UNCHANGED: lambda e: f"the methods of {_class_name(e)}",
    Kind.LENGTH: _length_text,
    Kind.TRUE_VALUE: lambda e: "a non-empty container" if e else "an empty container",
    Kind.DICT_KEYS: lambda e: f"the keys {_keys_text(e)}",
    Kind.HAS_NO_ATTRIBUTE: lambda e: f"no attribute {e!r}",
    Kind.INSTANCE_LACKS: lambda e: f"no instance attribute {e!r}",
    Kind.HAS_NO_KEY: lambda e: f"no key {e!r}",
    Kind.PREDICATE: lambda e: e.text("it"),
    Kind.RELATION: Relation.text,
    Kind.FUNCTION: lambda e: f"the function {e.name or e.code.co_qualname}",
    Kind.ENDS_QUIETLY: lambda e: "an object whose end nobody notices",
    Kind.REGISTRATIONS: lambda e: "the classes registered with abstract ones then",
    Kind.SUBCLASSES: lambda e: f"the subclasses {_keys_text(e)}",
    Kind.EXISTS: lambda e: "something there",
    Kind.GRAD_MODE: lambda e: "grad mode on" if e else "grad mode off",
    Kind.AUTOCAST: words.describe,
    Kind.INFERENCE: _inference_text,
    Kind.DEVICE: lambda e: f"cuda:{e} as the current device",
    Kind.WRITES_CHECKED: _writes_text,
    Kind.HANDLING: lambda e: "an exception handled by the caller" if e else "no exception",
    Kind.NOT_ALIASED: lambda e: f"an object other than {e.expression()}",
    Kind.ALIASED: lambda e: f"the same object as {e.expression()}",
    Kind.NO_SHARED_STORAGE: lambda e: f"memory not shared with {e.expression()}",
    Kind.SEPARATE_MEMORY: lambda e: "writable memory, apart from that of other tensors",
}
_ACTUAL_TEXT: dict[Kind, Callable[[Any], str]] = {
    Kind.CLASS_UNCHANGED: _change_text,
    Kind.REGISTRATIONS: lambda a: "more of them",
    Kind.SUBCLASSES: lambda a: f"the subclasses {_keys_text(type.__subclasses__(a))}",
    Kind.FUNCTION: lambda a: f"{describe(a)} with other code",
    Kind.LENGTH: lambda a: f"length {len(a)}" if type(a) in CONTAINERS else describe(a),
    Kind.DICT_KEYS: lambda a: f"the keys {_keys_text(a)}" if type(a) is dict else describe(a),
    Kind.HAS_NO_ATTRIBUTE: lambda a: "it has one",
    Kind.INSTANCE_LACKS: lambda a: "it has one",
    Kind.HAS_NO_KEY: lambda a: "it has one",
    Kind.HANDLING: lambda a: "an exception" if a else "no exception",
    Kind.NOT_ALIASED: lambda a: "it is the same object",
    Kind.ALIASED: lambda a: "it is another object",
    Kind.NO_SHARED_STORAGE: lambda a: "it is",
    Kind.SEPARATE_MEMORY: lambda a: "they overlap, or the write is not allowed",
    Kind.GRAD_MODE: lambda a: "grad mode on" if a else "grad mode off",
    Kind.AUTOCAST: lambda a: words.describe(_autocast_word()),
    Kind.INFERENCE: lambda a: _inference_text(is_inference_mode_enabled()),
    Kind.DEVICE: lambda a: f"cuda:{gpu.current_device()}",
    Kind.WRITES_CHECKED: lambda a: _writes_text(are_writes_checked()),
}


def without_implied(guards: Iterable[Guard]) -> Iterable[Guard]:
    """All guards but those that a place exists whose contents, or what lies below, is guarded, too.

    Every check of a place reads it, and fails where nothing is there.
    """
    found = tuple(guards)
    places = {guard.source for guard in found if guard.kind is Kind.EXISTS}
    kinds = {type(place) for place in places}
    read: set[Source] = set()
    seen: set[int] = set()
    for guard in found if places else ():
        place = guard.source.parent if guard.kind is Kind.EXISTS else guard.source
        while place is not None and id(place) not in seen:  # ways are long, and mostly shared
            seen.add(id(place))
            if type(place) in kinds and place in places:
                read.add(place)
            place = place.parent
    return tuple(g for g in found if g.kind is not Kind.EXISTS or g.source not in read)


def _function_condition(name: str, facts: FunctionFacts) -> str:
    return f"{name}.__code__ is {facts.name or facts.code.co_qualname}.__code__"


_EXPRESSIONS: dict[Kind, Callable[[str, Any], str]] = {
    Kind.TYPE_IS: lambda s, e: f"type({s}) is {_class_name(e)}",
    Kind.IDENTITY: lambda s, e: f"{s} is {describe(e)}",
    Kind.EQUALS: lambda s, e: f"{s} == {e!r}",
    Kind.TENSOR: lambda s, e: f"{s} is {e}",
    Kind.CLASS_UNCHANGED: lambda s, e: f"the methods of {s} are the same",
    Kind.POSITION: lambda s, e: f"{s} has given {e} items",
    Kind.STORAGE_EQUALS: lambda s, e: f"{type(e).__name__}({s}) == {e!r}",
    Kind.LENGTH: lambda s, e: f"len({s}) == {e}",
    Kind.TRUE_VALUE: lambda s, e: f"{'' if e else 'not '}{s}",
    Kind.DICT_KEYS: lambda s, e: f"list({s}) == {_keys_text(e)}",
    Kind.HAS_NO_ATTRIBUTE: lambda s, e: f"not hasattr({s}, {e!r})",
    Kind.INSTANCE_LACKS: lambda s, e: f"{e!r} not in {s}.__dict__",
    Kind.HAS_NO_KEY: lambda s, e: f"{e!r} not in {s}",
    Kind.PREDICATE: lambda s, e: e.text(s),
    Kind.RELATION: lambda s, e: e.text(),
    Kind.FUNCTION: _function_condition,
    Kind.GRAD_MODE: lambda s, e: f"{s}.is_grad_enabled() is {e}",
    Kind.AUTOCAST: lambda s, e: f"{s}: {words.describe(e)}",
    Kind.INFERENCE: lambda s, e: f"{s}.is_inference_mode_enabled() is {e}",
    Kind.DEVICE: lambda s, e: f"{s}.cuda.current_device() == {e}",
    Kind.WRITES_CHECKED: lambda s, e: _writes_text(e),
    Kind.EXISTS: lambda s, e: f"{s} exists",
    Kind.ENDS_QUIETLY: lambda s, e: f"nobody notices the end of {s}",
    Kind.REGISTRATIONS: lambda s, e: f"abc.get_cache_token() == {e}",
    Kind.SUBCLASSES: lambda s, e: f"{s}.__subclasses__() == {_keys_text(e)}",
    Kind.HANDLING: lambda s, e: f"(sys.exception() is not None) is {e}",
    Kind.NOT_ALIASED: lambda s, e: f"{s} is not {e.expression()}",
    Kind.ALIASED: lambda s, e: f"{s} is {e.expression()}",
    Kind.NO_SHARED_STORAGE: lambda s, e: f"{s} shares no memory with {e.expression()}",
    Kind.SEPARATE_MEMORY: lambda s, e: f"no overlap among {_written_text(e)}",
}


def _expected_key(kind: Kind, expected: Any) -> Any:
    if kind in _BY_IDENTITY:
        return id(expected)
    if kind in _BY_VALUE:
        return constant_key(expected)
    return expected


_BY_VALUE: Final = (
    Kind.EQUALS, Kind.STORAGE_EQUALS, Kind.DICT_KEYS, Kind.HAS_NO_KEY, Kind.SUBCLASSES,
)  # fmt: skip
_BY_IDENTITY: Final = (Kind.TYPE_IS, Kind.IDENTITY, Kind.CLASS_UNCHANGED)


def constant_key(value: Any) -> Any:
    """A hashable key that separates 1, True and 1.0, 0.0 and -0.0, and joins NaN with NaN."""
    if isinstance(value, tuple):
        return (type(value), tuple(constant_key(item) for item in value))
    if type(value) is float:
        return (float, "nan") if math.isnan(value) else (float, value, math.copysign(1.0, value))
    if type(value) is complex:
        return (complex, constant_key(value.real), constant_key(value.imag))
    return (type(value), value) if is_plain(value) else (id(type(value)), id(value))


def is_equality_constant(value: Any) -> bool:
    """True if `value` can be the expected value of an EQUALS guard."""
    if type(value) is tuple:
        return all(is_equality_constant(item) for item in value)
    return is_plain(value)
