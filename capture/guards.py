"""Guards: the facts about its inputs that a compiled region relies on.

A `Guard` is frozen data: a source, a kind, what was expected, and why. It is recorded when a fact
is *used*. `compile_guards` merges the guards of one region into a tree with shared prefixes for
the C evaluator (`_capture.Guards`), which never runs user code. A guard that fails can explain
itself in one sentence with the old and the new value.

Made by the executor; read by `capture.cache`, the C entry object and the reports.
"""

import enum
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dynajit.capture import _capture
from dynajit.capture.relations import Relation
from dynajit.capture.sources import Key, Source, State, Step
from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import CaptureError, InternalError
from dynajit.core.location import Location


class Kind(enum.IntEnum):
    """What a guard checks; same numbers in `_capture.c`. Cheaper kinds come first."""

    TYPE_IS = 0  # expected: the exact class
    IDENTITY = 1  # expected: the object
    EQUALS = 2  # expected: None, bool, int, float, complex, str, bytes, or a tuple of these
    TENSOR = 3  # expected: TensorFacts
    LENGTH = 4  # expected: number of items of a list, tuple, dict, set, str or bytes
    TRUE_VALUE = 5  # expected: bool: whether a container of those kinds is not empty
    DICT_KEYS = 6  # expected: tuple of the keys, or of the members of a set, in order
    HAS_NO_ATTRIBUTE = 7  # expected: name found neither on the instance nor on its class
    HAS_NO_KEY = 8  # expected: key that a dict lacks
    PREDICATE = 9  # expected: Predicate: comparisons of an int or float with constants
    FUNCTION = 10  # expected: FunctionFacts: code object
    GRAD_MODE = 11  # expected: bool
    NOT_ALIASED = 12  # expected: other Source: two different objects
    ALIASED = 13  # expected: other Source: one object
    NO_SHARED_STORAGE = 14  # expected: other Source: two tensors that share no storage
    INSTANCE_LACKS = 15  # expected: name absent from the instance dict (the class may have it)
    SEPARATE_MEMORY = 16  # expected: tuple of (tensor's source, MemoryUse), see there
    HANDLING = 17  # expected: bool: whether the caller is handling an exception
    RELATION = 18  # expected: Relation between sizes; the source is that of its first term


class MemoryUse(enum.IntFlag):
    """What a region does with a tensor; same numbers as in `_capture.c`.

    A SEPARATE_MEMORY guard holds if the elements of every written tensor overlap with those of no
    other one in the tuple, and the write is allowed as it was captured.
    """

    READ = 0
    WRITTEN = 1  # its elements change
    RECORDED = 2  # they change while gradients are recorded: it is no leaf that requires one
    HISTORY = 4  # it gets a history by that: it shares no storage with the others
    LEAF = 8  # no operation made it
    RESULT = 16  # an operation made it


RELATIONS = (Kind.NOT_ALIASED, Kind.ALIASED, Kind.NO_SHARED_STORAGE)
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes)
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The sizes that a symbolic dimension accepts: from `low` to `high` (None: no limit)."""

    low: int
    high: int | None = None

    def accepts(self, size: int) -> bool:
        """True if `size` is in the range."""
        return self.low <= size and (self.high is None or size <= self.high)

    def __str__(self) -> str:
        return f"{self.low}.." if self.high is None else f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a compiled region relies on in a tensor.

    Args:
        python_class: the exact class.
        dtype: element type.
        device: "cpu" (arrays of NumPy).
        shape: sizes; None where any size is accepted, SizeRange where some are.
        strides: in elements, None where any stride is accepted; None for the whole tuple too.
            The stride of a dimension of size 1, and all strides of an empty tensor, are free.
        requires_grad: None where it does not matter.
        row_major: the elements lie row by row, whatever the sizes are; `strides` is None.
    """

    python_class: type
    dtype: DType
    device: str
    shape: tuple[int | SizeRange | None, ...]
    strides: tuple[int | None, ...] | None
    requires_grad: bool | None
    row_major: bool = False

    @classmethod
    def of(cls, tensor: Any) -> "TensorFacts":
        """The facts that hold for an eager tensor now.

        Raises:
            CaptureError: the strides of its array are no multiples of the item size.
        """
        array = tensor.array
        size = array.dtype.itemsize
        if any(stride % size for stride in array.strides):
            raise CaptureError(
                f"a tensor with strides {array.strides} bytes and items of {size} bytes cannot "
                "be compiled.  Expected strides that are multiples of the item size; copy it with "
                ".clone() first."
            )
        return cls(
            type(tensor),
            dtypes.from_numpy(array.dtype),
            "cpu" if isinstance(array, np.ndarray) else "cuda",
            tuple(array.shape),
            tuple(stride // size for stride in array.strides),
            bool(tensor.requires_grad),
        )

    def __str__(self) -> str:
        sizes = ", ".join("*" if size is None else str(size) for size in self.shape)
        grad = "" if self.requires_grad is None else f", requires_grad={self.requires_grad}"
        strides = "" if self.strides is None else f", strides={_tuple_text(self.strides)}"
        strides = ", row-major" if self.row_major else strides
        where = "" if self.device == "cpu" else f"@{self.device}"
        return f"{self.python_class.__name__} {self.dtype.name}[{sizes}]{where}{strides}{grad}"

    def difference(self, actual: Any) -> str:
        """What is different about `actual`, in words: `shape was [8, 4], now [9, 4]`."""
        if type(actual) is not self.python_class:
            return f"was a {self.python_class.__name__}, now {_describe(actual)}"
        now = TensorFacts.of(actual)
        parts = []
        for name in ("dtype", "device", "shape", "strides", "requires_grad"):
            old, new = getattr(self, name), getattr(now, name)
            if old is not None and not _matches(old, new):
                parts.append(f"{name} was {_value_text(old)}, now {_value_text(new)}")
        if self.row_major and not actual.array.flags.c_contiguous:
            parts.append("the elements lay row by row, now they do not")
        return "; ".join(parts) or f"was {self}, now {now}"

    @property
    def contiguous(self) -> bool:
        """True if every stride is known and row-major."""
        step = 1
        if self.strides is None:
            return self.row_major
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if not isinstance(size, int) or (size != 1 and stride != step):
                return False
            step *= max(size, 1)
        return True


def _matches(old: Any, new: Any) -> bool:
    if not isinstance(old, tuple):
        return bool(old == new)
    return len(old) == len(new) and all(map(_fits, old, new))


def _fits(old: Any, new: int) -> bool:
    return old is None or (old.accepts(new) if isinstance(old, SizeRange) else old == new)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on a Python int or float: every comparison holds.

    Args:
        number_class: int, float or bool: the exact class of the value.
        comparisons: ((operator, constant), ...) with operators of `COMPARISONS`; constants are
            int or float. A NaN value satisfies only `!=`.
        negated: the whole condition is false instead (needed for NaN: `not x < 1`).
    """

    number_class: type
    comparisons: tuple[tuple[str, int | float], ...]
    negated: bool = False

    def text(self, name: str) -> str:
        """The condition as Python text."""
        text = " and ".join(f"{name} {op} {constant!r}" for op, constant in self.comparisons)
        return f"not ({text})" if self.negated else text


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A Python function known by its code; closure cells and defaults are guarded by sources."""

    code: Any
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
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
        return (self.source, self.kind, _expected_key(self.kind, self.expected))

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
        return _ACTUAL_TEXT.get(self.kind, _describe)(actual)

    def __str__(self) -> str:
        where = f"  # {self.reason}" if self.reason else ""
        line = f" at {self.location}" if self.location else ""
        return f"{self.expression()}{where}{line}"


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Stands for a user's object in published guards, so that they do not keep it alive.

    Args:
        text: how it is described.
        reference: to the object, while it lives.
    """

    text: str
    reference: "weakref.ref[Any]"

    def __repr__(self) -> str:
        return self.text


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


# ------------------------------------------------------------------------------------- in words


def _tuple_text(values: Sequence[Any]) -> str:
    return "[" + ", ".join("*" if value is None else str(value) for value in values) + "]"


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return _tuple_text(value)
    return value.name if isinstance(value, DType) else str(value)


def _describe(value: Any) -> str:
    """A short text for any object; runs no user code."""
    if type(value) is Remembered:
        return value.text
    if type(value) in PLAIN:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if issubclass(type(value), type):
        return f"class {value.__qualname__}"
    if type(value) in CONTAINERS:
        return f"a {type(value).__name__} of {len(value)}"
    if type(value) in (FunctionType, BuiltinFunctionType):
        return f"function {value.__qualname__}"
    if type(value) is ModuleType:
        return f"module {value.__name__}"
    return f"a {type(value).__qualname__} at {id(value):#x}"


def _keys_text(keys: Iterable[Any]) -> str:
    return "[" + ", ".join(_describe(key) for key in keys) + "]"


def _written_text(expected: Any) -> str:
    names = [f"{s.expression()}{' (written)' if use else ''}" for s, use in expected]
    return ", ".join(names)


def _describe_expected(expected: Any) -> str:
    return repr(expected) if isinstance(expected, tuple) else _describe(expected)


def _length_text(expected: Any) -> str:
    return f"length {expected}"


_EXPECTED_TEXT: dict[Kind, Callable[[Any], str]] = {
    Kind.TYPE_IS: lambda e: f"a {e.__qualname__}",
    Kind.IDENTITY: _describe_expected,
    Kind.EQUALS: _describe_expected,
    Kind.LENGTH: _length_text,
    Kind.TRUE_VALUE: lambda e: "a non-empty container" if e else "an empty container",
    Kind.DICT_KEYS: lambda e: f"the keys {_keys_text(e)}",
    Kind.HAS_NO_ATTRIBUTE: lambda e: f"no attribute {e!r}",
    Kind.INSTANCE_LACKS: lambda e: f"no instance attribute {e!r}",
    Kind.HAS_NO_KEY: lambda e: f"no key {e!r}",
    Kind.PREDICATE: lambda e: e.text("it"),
    Kind.RELATION: Relation.text,
    Kind.FUNCTION: lambda e: f"the function {e.name or e.code.co_qualname}",
    Kind.GRAD_MODE: lambda e: "grad mode on" if e else "grad mode off",
    Kind.HANDLING: lambda e: "an exception handled by the caller" if e else "no exception",
    Kind.NOT_ALIASED: lambda e: f"an object other than {e.expression()}",
    Kind.ALIASED: lambda e: f"the same object as {e.expression()}",
    Kind.NO_SHARED_STORAGE: lambda e: f"memory not shared with {e.expression()}",
    Kind.SEPARATE_MEMORY: lambda e: "writable memory, apart from that of other tensors",
}
_ACTUAL_TEXT: dict[Kind, Callable[[Any], str]] = {
    Kind.LENGTH: lambda a: f"length {len(a)}" if type(a) in CONTAINERS else _describe(a),
    Kind.DICT_KEYS: lambda a: f"the keys {_keys_text(a)}" if type(a) is dict else _describe(a),
    Kind.HAS_NO_ATTRIBUTE: lambda a: "it has one",
    Kind.INSTANCE_LACKS: lambda a: "it has one",
    Kind.HAS_NO_KEY: lambda a: "it has one",
    Kind.HANDLING: lambda a: "an exception" if a else "no exception",
    Kind.NOT_ALIASED: lambda a: "it is the same object",
    Kind.ALIASED: lambda a: "it is another object",
    Kind.NO_SHARED_STORAGE: lambda a: "it is",
    Kind.SEPARATE_MEMORY: lambda a: "they overlap, or the write is not allowed",
    Kind.GRAD_MODE: lambda a: "grad mode on" if a else "grad mode off",
}


def _function_condition(name: str, facts: FunctionFacts) -> str:
    return f"{name}.__code__ is {facts.name or facts.code.co_qualname}.__code__"


_EXPRESSIONS: dict[Kind, Callable[[str, Any], str]] = {
    Kind.TYPE_IS: lambda s, e: f"type({s}) is {e.__qualname__}",
    Kind.IDENTITY: lambda s, e: f"{s} is {_describe(e)}",
    Kind.EQUALS: lambda s, e: f"{s} == {e!r}",
    Kind.TENSOR: lambda s, e: f"{s} is {e}",
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
    Kind.HANDLING: lambda s, e: f"(sys.exception() is not None) is {e}",
    Kind.NOT_ALIASED: lambda s, e: f"{s} is not {e.expression()}",
    Kind.ALIASED: lambda s, e: f"{s} is {e.expression()}",
    Kind.NO_SHARED_STORAGE: lambda s, e: f"{s} shares no memory with {e.expression()}",
    Kind.SEPARATE_MEMORY: lambda s, e: f"no overlap among {_written_text(e)}",
}


def _expected_key(kind: Kind, expected: Any) -> Any:
    if kind in (Kind.EQUALS, Kind.DICT_KEYS, Kind.HAS_NO_KEY):
        return constant_key(expected)
    if kind in (Kind.TYPE_IS, Kind.IDENTITY):
        return id(expected)
    return expected


def constant_key(value: Any) -> Any:
    """A hashable key that separates 1, True and 1.0, 0.0 and -0.0, and joins NaN with NaN."""
    if isinstance(value, tuple):
        return (type(value), tuple(constant_key(item) for item in value))
    if type(value) is float:
        return (float, "nan") if math.isnan(value) else (float, value, math.copysign(1.0, value))
    if type(value) is complex:
        return (complex, constant_key(value.real), constant_key(value.imag))
    return (type(value), value) if type(value) in PLAIN else (type(value), id(value))


def is_equality_constant(value: Any) -> bool:
    """True if `value` can be the expected value of an EQUALS guard."""
    if type(value) is tuple:
        return all(is_equality_constant(item) for item in value)
    return type(value) in PLAIN


# --------------------------------------------------------------------------------- for the C side


def compile_guards(guards: Iterable[Guard]) -> "CompiledGuards":
    """The guards of one region, without duplicates, as a C evaluator.

    Raises:
        InternalError: an EQUALS guard expects something that C cannot compare.
    """
    unique = tuple({guard.identity(): guard for guard in guards}.values())
    tree = _Tree()
    for index, guard in enumerate(unique):
        tree.find(guard.source).checks.append((int(guard.kind), _lower(guard, tree), index))
    roots = tuple(node.freeze() for node in tree.roots.values())
    evaluator = _capture.Guards(roots, len(unique))
    return CompiledGuards(tuple(_release(guard) for guard in unique), evaluator)


def _release(guard: Guard) -> Guard:
    """The same guard without strong references to the user's instances."""
    expected = guard.expected
    if guard.kind is Kind.IDENTITY:
        expected = _remember(expected)
    elif guard.kind is Kind.DICT_KEYS:
        expected = tuple(_remember(key) for key in expected)
    elif guard.kind in RELATIONS:
        expected = _release_source(expected)
    elif guard.kind is Kind.SEPARATE_MEMORY:
        expected = tuple((_release_source(member), use) for member, use in expected)
    elif guard.kind is Kind.RELATION:
        expected = expected.mapped(_release_source)
    return replace(guard, source=_release_source(guard.source), expected=expected)


def _remember(value: Any) -> Any:
    if not _capture.is_held_weakly(value):
        return value
    return Remembered(_describe(value), weakref.ref(value))


def _release_source(source: Source) -> Source:
    if source.parent is None:
        return source
    released: dict[str, Any] = {"base": _release_source(source.parent)}
    if isinstance(source, Key):
        released["key"] = _remember(source.key)
    return replace(source, **released)


@dataclass(frozen=True, slots=True)
class CompiledGuards:
    """Guards and their C evaluator.

    Args:
        guards: in the order of their numbers.
        evaluator: `_capture.Guards`: `check(args, function)`, `first_failure(args, function)`.
    """

    guards: tuple[Guard, ...]
    evaluator: Any

    def explain_failure(self, args: tuple[Any, ...], function: Any) -> "Failure | None":
        """The first guard that fails for these flat arguments, or None if all hold."""
        found = self.evaluator.first_failure(args, function)
        if found is None:
            return None
        index, actual = found
        guard = self.guards[index]
        now = MISSING if actual is NotImplemented else actual
        return Failure(guard, guard.old_text(), guard.new_text(now), guard.explain(now))


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that did not hold.

    Args:
        guard: the guard (its `expression()` is the condition).
        old: what it expected, in words.
        new: what it met, in words.
        explanation: the sentence that says so.
    """

    guard: Guard
    old: str
    new: str
    explanation: str


@dataclass(slots=True)
class _Node:
    """A node of the tree while it is built (mutable)."""

    number: int
    step: int
    argument: Any
    checks: list[tuple[int, Any, int]] = field(default_factory=list)
    children: dict[tuple[int, Any], "_Node"] = field(default_factory=dict)

    def freeze(self) -> tuple[Any, ...]:
        """(step, argument, number, checks, children) for C; cheap checks first."""
        checks = tuple(sorted(self.checks, key=lambda check: check[0]))
        children = tuple(child.freeze() for child in self.children.values())
        return (self.step, self.argument, self.number, checks, children)


@dataclass(slots=True)
class _Tree:
    """The tree while it is built (mutable); nodes are numbered in the order of their making."""

    roots: dict[tuple[int, Any], _Node] = field(default_factory=dict)
    size: int = 0

    def find(self, source: Source) -> _Node:
        """The node of `source`, made with its ancestors where missing."""
        level = self.roots
        node: _Node | None = None
        for step, argument in source.path:
            key = (step, id(argument) if step == Step.CONSTANT else constant_key(argument))
            if key not in level:
                level[key] = _Node(self.size, step, argument)
                self.size += 1
            node = level[key]
            level = node.children
        assert node is not None
        return node


def _lower(guard: Guard, tree: _Tree) -> Any:
    """The expected value as C wants it."""
    expected = guard.expected
    if guard.kind in RELATIONS:
        return tree.find(expected).number
    if guard.kind is Kind.SEPARATE_MEMORY:
        return tuple((tree.find(member).number, int(use)) for member, use in expected)
    if guard.kind is Kind.RELATION:
        return _lower_relation(expected, tree)
    if guard.kind is Kind.TENSOR:
        return _lower_tensor(expected)
    if guard.kind is Kind.PREDICATE:
        numbers = tuple((COMPARISONS.index(op), constant) for op, constant in expected.comparisons)
        return (expected.number_class, numbers, expected.negated)
    if guard.kind is Kind.FUNCTION:
        return expected.code
    if guard.kind is Kind.EQUALS and not is_equality_constant(expected):
        raise InternalError(f"EQUALS guard on {guard.source}: {expected!r} is not a constant")
    return expected


def _lower_relation(relation: Relation, tree: _Tree) -> tuple[Any, ...]:
    """(comparison, (node, dim or -1) per term, program)."""
    terms = tuple(
        (tree.find(term.source).number, -1 if term.dim is None else term.dim)
        for term in relation.terms
    )
    program = tuple((int(operation), operand) for operation, operand in relation.program())
    return (COMPARISONS.index(relation.comparison), terms, program)


def _lower_tensor(facts: TensorFacts) -> tuple[Any, ...]:
    """(class, NumPy dtype, device, sizes, byte strides or None or True, requires_grad)."""
    size = facts.dtype.itemsize
    strides: Any = facts.row_major or None
    if facts.strides is not None:
        strides = tuple(None if s is None else s * size for s in facts.strides)
    return (
        facts.python_class,
        facts.dtype.numpy,
        facts.device,
        tuple((s.low, s.high) if isinstance(s, SizeRange) else s for s in facts.shape),
        strides,
        facts.requires_grad,
    )


GRAD_MODE_SOURCE = State()
