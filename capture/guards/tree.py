"""The guards of one region as a tree for the C evaluator.

`compile_guards` merges the paths of all guards into a tree with shared prefixes, which
`_capture.Guards` evaluates without running user code, and lets go of the user's objects.

The failures that it explains are shown in reports.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from dynajit.capture import _capture
from dynajit.capture.guards import mortal
from dynajit.capture.guards.facts import COMPARISONS, Remembered, SizeRange, TensorFacts, describe
from dynajit.capture.guards.guards import (
    MISSING,
    RELATIONS,
    Guard,
    Kind,
    constant_key,
    is_equality_constant,
)
from dynajit.capture.guards.relations import Relation
from dynajit.capture.places.sources import Constant, Key, Source, Step
from dynajit.core.arrays.meta_arrays import MetaMemory
from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types import device as devices


def compile_guards(guards: Iterable[Guard]) -> "CompiledGuards":
    """The guards of one region, without duplicates, as a C evaluator.

    Raises:
        InternalError: an EQUALS guard expects something that C cannot compare.
    """
    unique = tuple({guard.identity(): guard for guard in guards}.values())
    members = mortal.members(unique)
    if members:
        unique = tuple(
            replace(guard, source=mortal.in_class(guard.source, members)) for guard in unique
        )
    tree = _Tree()
    for index, guard in enumerate(unique):
        tree.find(guard.source).checks.append((int(guard.kind), _lower(guard, tree), index))
    roots = tuple(node.freeze() for node in tree.roots.values())
    evaluator = _capture.Guards(roots, len(unique))
    release = _Releaser()
    return CompiledGuards(tuple(release.guard(guard) for guard in unique), evaluator)


def _remember(value: Any) -> Any:
    if not _capture.is_held_weakly(value):
        return value
    return Remembered(describe(value), weakref.ref(value))


def _name(text: str) -> str:
    for kind in ("class ", "function ", "module "):
        text = text.removeprefix(kind)
    return text


class _Releaser:
    """Makes guards without strong references to the user's objects. Mutable: remembers places.

    Guards have few places between them, and long ways to these: each is made once. The guards
    must live as long as this does.
    """

    def __init__(self) -> None:
        self._released: dict[int, Source] = {}  # by id: equal places may have unlike names

    def guard(self, guard: Guard) -> Guard:
        """The same guard without strong references."""
        expected = guard.expected
        if guard.kind in (Kind.IDENTITY, Kind.TYPE_IS, Kind.CLASS_UNCHANGED, Kind.HAS_NO_KEY):
            expected = _remember(expected)
        elif guard.kind in (Kind.DICT_KEYS, Kind.SUBCLASSES):
            expected = tuple(_remember(key) for key in expected)
        elif guard.kind in RELATIONS:
            expected = self.source(expected)
        elif guard.kind is Kind.SEPARATE_MEMORY:
            expected = tuple((self.source(member), use) for member, use in expected)
        elif guard.kind is Kind.RELATION:
            expected = expected.mapped(self.source)
        source = self.source(guard.source)
        if source is guard.source and expected is guard.expected:
            return guard
        return replace(guard, source=source, expected=expected)

    def source(self, source: Source) -> Source:
        """The same place without strong references."""
        found = self._released.get(id(source))
        if found is None:
            found = self._released[id(source)] = self._source(source)
        return found

    def _source(self, source: Source) -> Source:
        if isinstance(source, Constant):
            held = _remember(source.value)
            return (
                source if held is source.value else Constant(held, source.name or _name(held.text))
            )
        if source.parent is None:
            return source
        base = self.source(source.parent)
        released: dict[str, Any] = {} if base is source.parent else {"base": base}
        if isinstance(source, Key):
            key = _remember(source.key)
            released |= {} if key is source.key else {"key": key}
        return replace(source, **released) if released else source


@record
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


@record
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

    @property
    def is_about_new_class(self) -> bool:
        """True if another class of the same class statement, or an instance of it, was met."""
        is_identity = self.guard.kind in (Kind.IDENTITY, Kind.TYPE_IS)
        is_twin = self.new == self.old or self.new.startswith(f"{self.old} at ")
        return is_identity and is_twin and "<locals>" in self.old


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
    """The tree while it is built (mutable); nodes are numbered in the order of their making.

    Sources must live as long as it does.
    """

    roots: dict[tuple[int, Any], _Node] = field(default_factory=dict)
    size: int = 0
    found: dict[int, _Node] = field(default_factory=dict)  # by id of the source

    def find(self, source: Source) -> _Node:
        """The node of `source`, made with its ancestors where missing."""
        node = self.found.get(id(source))
        if node is None:
            node = self.found[id(source)] = self._find(source)
        return node

    def _find(self, source: Source) -> _Node:
        parent = source.parent
        level = self.roots if parent is None else self.find(parent).children
        assert source.step is not None
        step, argument = int(source.step), source.argument
        key = (step, id(argument) if step == Step.CONSTANT else constant_key(argument))
        node = level.get(key)
        if node is None:
            node = level[key] = _Node(self.size, step, argument)
            self.size += 1
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


def _number_of(device: str) -> int:
    """Of a device, as tensors say it in C."""
    if device == "cpu":
        return -1
    if device == "meta":
        return MetaMemory.device_id
    return int(devices.parse(device).index or 0)


def _lower_tensor(facts: TensorFacts) -> tuple[Any, ...]:
    """(class, NumPy dtype, number of the GPU or -1, sizes, byte strides or None or True,
    requires_grad)."""
    size = facts.dtype.itemsize
    strides: Any = facts.row_major or None
    if facts.strides is not None:
        strides = tuple(None if s is None else s * size for s in facts.strides)
    return (
        facts.python_class,
        facts.dtype.numpy,
        _number_of(facts.device),
        tuple((s.low, s.high) if isinstance(s, SizeRange) else s for s in facts.shape),
        strides,
        facts.requires_grad,
    )
