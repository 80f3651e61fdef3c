"""The kinds of guards, one row each: what a guard expects, how it is said, and when two are equal.

A kind's number is its place in `GUARD_KINDS` of `native/guards.h`, which has the check in C; a test
compares the two. Cheaper kinds come first.
"""

import enum
import math
from collections.abc import Callable, Iterable
from typing import Any

from dynajit.capture.guards.conditions import Condition
from dynajit.capture.guards.facts import (
    COMPARISONS,
    CONTAINERS,
    FunctionFacts,
    Predicate,
    TensorFacts,
    describe,
    is_plain,
    lower_tensor,
)
from dynajit.capture.guards.relations import Relation
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.records import record
from dynajit.eager._tensor import are_writes_checked
from dynajit.eager.modes.autocast_mode import _autocast_word
from dynajit.eager.modes.grad_mode import is_inference_mode_enabled
from dynajit.ops.calls import autocast_words as words
from dynajit.ops.table import overriding

# -- keys ----------------------------------------------------------------------------------------


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


def _itself(expected: Any) -> Any:
    return expected


# -- texts ---------------------------------------------------------------------------------------


def _class_name(cls: Any) -> str:
    return describe(cls).removeprefix("class ")


def _keys_text(keys: Iterable[Any]) -> str:
    return "[" + ", ".join(describe(key) for key in keys) + "]"


def _literal(value: Any) -> str:
    """A constant as Python writes it; Python refuses to write long integers in decimal digits."""
    try:
        return repr(value)
    except ValueError:
        return hex(value) if isinstance(value, int) else "..."


def _described(expected: Any) -> str:
    return repr(expected) if isinstance(expected, tuple) else describe(expected)


def _now(expected: Any, actual: Any) -> str:
    return describe(actual)


def _has_one(expected: Any, actual: Any) -> str:
    return "it has one"


def _asked_text(are_asked: bool) -> str:
    return "classes are asked" if are_asked else "no class is asked (DisableTorchFunction)"


def _limit(number: int) -> int | None:
    return None if number < 0 else number


def _writes_text(are_checked: bool) -> str:
    return "a call by vmap" if are_checked else "no call by vmap"


def _grad_mode_text(is_on: bool) -> str:
    return "grad mode on" if is_on else "grad mode off"


def _inference_text(is_on: bool) -> str:
    return "inference mode on" if is_on else "inference mode off"


def _change_text(cls: type, change: Any) -> str:
    """`C.method was replaced`, from (class, name, what happened)."""
    changed, name, happened = change
    return f"{_class_name(changed)}.{name} was {happened}"


def _written_text(expected: Any) -> str:
    names = [f"{s.expression()}{' (written)' if use else ''}" for s, use in expected]
    return ", ".join(names)


def _function_condition(name: str, facts: FunctionFacts) -> str:
    return f"{name}.__code__ is {facts.name or facts.code.co_qualname}.__code__"


# -- for C ---------------------------------------------------------------------------------------


def _lower_predicate(predicate: Predicate) -> tuple[Any, ...]:
    """(class, (comparison, constant) each, whether the whole is negated)."""
    numbers = tuple((COMPARISONS.index(op), constant) for op, constant in predicate.comparisons)
    return (predicate.number_class, numbers, predicate.negated)


def _lower_relation(relation: Relation) -> tuple[Any, ...]:
    """(comparison, program)."""
    program = tuple((int(operation), operand) for operation, operand in relation.program())
    return COMPARISONS.index(relation.comparison), program


def _lower_condition(condition: Condition) -> tuple[Any, ...]:
    """(program, outcome, whether that is a class)."""
    return condition.program(), condition.outcome, condition.is_class


def _lower_function(facts: FunctionFacts) -> Any:
    return facts.code


# -- rows ----------------------------------------------------------------------------------------


class Holds(enum.Enum):
    """What of the program an expected value refers to, which compiled code must not keep alive."""

    NOTHING = "data"
    OBJECT = "an object"
    OBJECTS = "a tuple of objects"
    PLACE = "a source"
    PLACES = "a tuple of (source, number)"
    TERMS = "a Relation or a Condition"


@record
class Row:
    """What there is to say of a kind.

    Args:
        expression: the condition as Python text, from the source's text and the expected value.
        expected: what was expected, in words.
        actual: the value now, in words, from the expected value and that.
        key: what makes two expected values one fact.
        holds: what the expected value refers to.
        lower: the expected value as C wants it, without the sources that it refers to.
        is_mode: whether it is one of few states of the library, which all code depends on.
    """

    expression: Callable[[str, Any], str]
    expected: Callable[[Any], str] = str
    actual: Callable[[Any, Any], str] = _now
    key: Callable[[Any], Any] = _itself
    holds: Holds = Holds.NOTHING
    lower: Callable[[Any], Any] = _itself
    is_mode: bool = False


class Kind(enum.IntEnum):
    """What a guard checks. The comment behind a number says what is expected."""

    row: Row

    def __new__(cls, number: int, row: Row) -> "Kind":
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.row = row
        return kind

    # the exact class
    TYPE_IS = 0, Row(
        lambda s, e: f"type({s}) is {_class_name(e)}",
        lambda e: f"a {_class_name(e)}",
        key=id, holds=Holds.OBJECT,
    )  # fmt: skip
    # the object
    IDENTITY = 1, Row(
        lambda s, e: f"{s} is {describe(e)}", _described, key=id, holds=Holds.OBJECT
    )  # fmt: skip
    # None, bool, int, float, complex, str, bytes, or a tuple of these
    EQUALS = 2, Row(lambda s, e: f"{s} == {_literal(e)}", _described, key=constant_key)
    # TensorFacts
    TENSOR = 3, Row(
        lambda s, e: f"{s} is {e}",
        actual=lambda e, a: str(TensorFacts.of(a)) if hasattr(a, "array") else describe(a),
        lower=lower_tensor,
    )  # fmt: skip
    # number of items of a list, tuple, dict, set, str or bytes
    LENGTH = 4, Row(
        lambda s, e: f"len({s}) == {e}",
        lambda e: f"length {e}",
        lambda e, a: f"length {len(a)}" if type(a) in CONTAINERS else describe(a),
    )  # fmt: skip
    # bool: whether a container of those kinds is not empty
    TRUE_VALUE = 5, Row(
        lambda s, e: f"{'' if e else 'not '}{s}",
        lambda e: "a non-empty container" if e else "an empty container",
    )  # fmt: skip
    # tuple of the keys, or of the members of a set, in order
    DICT_KEYS = 6, Row(
        lambda s, e: f"list({s}) == {_keys_text(e)}",
        lambda e: f"the keys {_keys_text(e)}",
        lambda e, a: f"the keys {_keys_text(a)}" if type(a) is dict else describe(a),
        key=constant_key, holds=Holds.OBJECTS,
    )  # fmt: skip
    # name found neither on the instance nor on its class
    HAS_NO_ATTRIBUTE = 7, Row(
        lambda s, e: f"not hasattr({s}, {e!r})", lambda e: f"no attribute {e!r}", _has_one
    )  # fmt: skip
    # key that a dict lacks
    HAS_NO_KEY = 8, Row(
        lambda s, e: f"{e!r} not in {s}", lambda e: f"no key {e!r}", _has_one,
        key=constant_key, holds=Holds.OBJECT,
    )  # fmt: skip
    # Predicate: comparisons of an int, float or str with constants
    PREDICATE = 9, Row(lambda s, e: e.text(s), lambda e: e.text("it"), lower=_lower_predicate)
    # FunctionFacts: code object
    FUNCTION = 10, Row(
        _function_condition,
        lambda e: f"the function {e.name or e.code.co_qualname}",
        lambda e, a: f"{describe(a)} with other code",
        lower=_lower_function,
    )  # fmt: skip
    # bool
    GRAD_MODE = 11, Row(
        lambda s, e: f"{s}.is_grad_enabled() is {e}",
        _grad_mode_text,
        lambda e, a: _grad_mode_text(a),
        is_mode=True,
    )  # fmt: skip
    # other Source: two different objects
    NOT_ALIASED = 12, Row(
        lambda s, e: f"{s} is not {e.expression()}",
        lambda e: f"an object other than {e.expression()}",
        lambda e, a: "it is the same object",
        holds=Holds.PLACE,
    )  # fmt: skip
    # other Source: one object
    ALIASED = 13, Row(
        lambda s, e: f"{s} is {e.expression()}",
        lambda e: f"the same object as {e.expression()}",
        lambda e, a: "it is another object",
        holds=Holds.PLACE,
    )  # fmt: skip
    # other Source: two tensors that share no storage
    NO_SHARED_STORAGE = 14, Row(
        lambda s, e: f"{s} shares no memory with {e.expression()}",
        lambda e: f"memory not shared with {e.expression()}",
        lambda e, a: "it is",
        holds=Holds.PLACE,
    )  # fmt: skip
    # name absent from the instance dict (the class may have it)
    INSTANCE_LACKS = 15, Row(
        lambda s, e: f"{e!r} not in {s}.__dict__",
        lambda e: f"no instance attribute {e!r}",
        _has_one,
    )  # fmt: skip
    # tuple of (tensor's source, MemoryUse), see there
    SEPARATE_MEMORY = 16, Row(
        lambda s, e: f"no overlap among {_written_text(e)}",
        lambda e: "writable memory, apart from that of other tensors",
        lambda e, a: "they overlap, or the write is not allowed",
        holds=Holds.PLACES,
    )  # fmt: skip
    # bool: whether the caller is handling an exception
    HANDLING = 17, Row(
        lambda s, e: f"(sys.exception() is not None) is {e}",
        lambda e: "an exception handled by the caller" if e else "no exception",
        lambda e, a: "an exception" if a else "no exception",
    )  # fmt: skip
    # Relation between sizes; the source is that of its first term
    RELATION = 18, Row(
        lambda s, e: e.text(),
        Relation.text,
        lambda e, a: str(e.values_text(a)),
        holds=Holds.TERMS,
        lower=_lower_relation,
    )  # fmt: skip
    # int, float, complex, str, bytes: base class's part of a value
    STORAGE_EQUALS = 19, Row(
        lambda s, e: f"{type(e).__name__}({s}) == {e!r}", _described, key=constant_key
    )  # fmt: skip
    # number of items that an iterator over a list or tuple has given
    POSITION = 20, Row(
        lambda s, e: f"{s} has given {e} items", lambda e: f"an iterator that gave {e} items"
    )  # fmt: skip
    # the class: its bases, methods, descriptors, special names
    CLASS_UNCHANGED = 21, Row(
        lambda s, e: f"the methods of {s} are the same",
        lambda e: f"the methods of {_class_name(e)}",
        _change_text,
        key=id, holds=Holds.OBJECT,
    )  # fmt: skip
    # int: `abc.get_cache_token()`
    REGISTRATIONS = 22, Row(
        lambda s, e: f"abc.get_cache_token() == {e}",
        lambda e: "the classes registered with abstract ones then",
        lambda e, a: "more of them",
    )  # fmt: skip
    # bool: whether the argument is a tuple or dict of one call
    ENDS_QUIETLY = 23, Row(
        lambda s, e: f"nobody notices the end of {s}",
        lambda e: "an object whose end nobody notices",
    )  # fmt: skip
    # None: there is something at the place
    EXISTS = 24, Row(lambda s, e: f"{s} exists", lambda e: "something there")
    # int: the autocast word (`ops.calls.autocast_words`)
    AUTOCAST = 25, Row(
        lambda s, e: f"{s}: {words.describe(e)}",
        words.describe,
        lambda e, a: words.describe(_autocast_word()),
        is_mode=True,
    )  # fmt: skip
    # bool: whether `inference_mode` is on
    INFERENCE = 26, Row(
        lambda s, e: f"{s}.is_inference_mode_enabled() is {e}",
        _inference_text,
        lambda e, a: _inference_text(is_inference_mode_enabled()),
        is_mode=True,
    )  # fmt: skip
    # tuple of the classes that derive from a class directly, in order
    SUBCLASSES = 27, Row(
        lambda s, e: f"{s}.__subclasses__() == {_keys_text(e)}",
        lambda e: f"the subclasses {_keys_text(e)}",
        lambda e, a: f"the subclasses {_keys_text(type.__subclasses__(a))}",
        key=constant_key, holds=Holds.OBJECTS,
    )  # fmt: skip
    # int: number of the current GPU
    DEVICE = 28, Row(
        lambda s, e: f"{s}.cuda.current_device() == {e}",
        lambda e: f"cuda:{e} as the current device",
        lambda e, a: f"cuda:{gpu.current_device()}",
        is_mode=True,
    )  # fmt: skip
    # bool: whether `eager.modes.write_limits` limits writes
    WRITES_CHECKED = 29, Row(
        lambda s, e: _writes_text(e),
        _writes_text,
        lambda e, a: _writes_text(are_writes_checked()),
        is_mode=True,
    )  # fmt: skip
    # Condition on what arithmetic on numbers gives; the source is that of its first term
    CONDITION = 30, Row(
        lambda s, e: e.text(),
        Condition.text,
        lambda e, a: str(e.values_text(a)),
        key=Condition.key,
        holds=Holds.TERMS,
        lower=_lower_condition,
    )  # fmt: skip
    # int: the most items that a deque may have; -1: no limit
    MAX_LENGTH = 31, Row(
        lambda s, e: f"{s}.maxlen is {_limit(e)}",
        lambda e: f"a deque with maxlen={_limit(e)}",
    )  # fmt: skip
    # bool: whether classes that override functions (`__torch_function__`) are asked
    CLASSES_ASKED = 32, Row(
        lambda s, e: _asked_text(e),
        _asked_text,
        lambda e, a: _asked_text(overriding.are_classes_asked()),
        is_mode=True,
    )  # fmt: skip
    # bool: whether a tensor was made in inference mode
    INFERENCE_TENSOR = 33, Row(
        lambda s, e: f"{s}.is_inference() is {e}",
        lambda e: f"a tensor made {'in' if e else 'outside of'} inference mode",
    )  # fmt: skip
    # int: the most items of a container as in LENGTH
    AT_MOST = 34, Row(
        lambda s, e: f"len({s}) <= {e}",
        lambda e: f"at most {e} items",
        lambda e, a: f"length {len(a)}" if type(a) in CONTAINERS else describe(a),
    )  # fmt: skip


def is_about_a_value(kind: Kind, expected: Any) -> bool:
    """True for facts that the code may be left to Python for: of tensors there are other ways, and
    each mode of the library has its version, since Python would depend on it, too.
    """
    if kind is Kind.TENSOR or kind is Kind.SEPARATE_MEMORY or kind.row.is_mode:
        return False
    return kind.row.holds is not Holds.TERMS or not expected.is_about_sizes
