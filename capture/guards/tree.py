"""The guards of one region as a tree for the C evaluator.

`compile_guards` merges the paths of all guards into a tree with shared prefixes, which
`_capture.Guards` evaluates without running user code, and lets go of the user's objects.

The failures that it explains are shown in reports.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dynajit.capture import _capture
from dynajit.capture.guards import mortal
from dynajit.capture.guards.facts import Remembered, describe
from dynajit.capture.guards.guards import MISSING, Guard
from dynajit.capture.guards.kinds import Holds, Kind, constant_key, is_equality_constant
from dynajit.capture.places.sources import Constant, Key, Source, Step
from dynajit.core.errors import InternalError
from dynajit.core.records import record

#: Guards that are asked one by one where a place is missing.
MOST_ASKED: Final = 300


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
        holds = guard.kind.row.holds
        if holds is Holds.OBJECT:
            expected = _remember(expected)
        elif holds is Holds.OBJECTS:
            expected = tuple(_remember(key) for key in expected)
        elif holds is Holds.PLACE:
            expected = self.source(expected)
        elif holds is Holds.PLACES:
            expected = tuple((self.source(member), use) for member, use in expected)
        elif holds is Holds.TERMS:
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
        if actual is NotImplemented:
            guard, actual = self._cause(args, function) or (guard, actual)
        now = MISSING if actual is NotImplemented else actual
        return Failure(guard, guard.old_text(), guard.new_text(now), guard.explain(now))

    def _cause(self, args: tuple[Any, ...], function: Any) -> tuple[Guard, Any] | None:
        """A guard that fails although its place exists: why that of another one does not."""
        for guard in self.guards[:MOST_ASKED]:
            alive = _alive(guard)
            if alive is None or guard.kind.row.holds in (Holds.TERMS, Holds.PLACE, Holds.PLACES):
                continue
            found = compile_guards([alive]).evaluator.first_failure(args, function)
            if found is not None and found[1] is not NotImplemented:
                return guard, found[1]
        return None

    def knows(self, guard: Guard, args: tuple[Any, ...], function: Any) -> bool:
        """True if a fact of this kind about the guard's place is among these, and holds."""
        place = guard.source.expression()
        for other in self.guards:
            if other.kind is not guard.kind or other.source.expression() != place:
                continue
            alive = _alive(other)
            if alive is not None and compile_guards([alive]).evaluator.check(args, function):
                return True
        return False


def _alive(guard: Guard) -> Guard | None:
    """The guard with the object that it expects; None: that has died, or its place is no place."""
    if isinstance(guard.source.root, Constant):
        return None
    if type(guard.expected) is not Remembered:
        return guard
    held = guard.expected.reference()
    return None if held is None else replace(guard, expected=held)


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
    expected, row = guard.expected, guard.kind.row
    if row.holds is Holds.PLACE:
        return tree.find(expected).number
    if row.holds is Holds.PLACES:
        return tuple((tree.find(member).number, int(use)) for member, use in expected)
    if row.holds is Holds.TERMS:
        terms = tuple(
            (tree.find(term.source).number, -1 if term.dim is None else term.dim)
            for term in expected.terms
        )
        return (terms, *row.lower(expected))
    if guard.kind is Kind.EQUALS and not is_equality_constant(expected):
        raise InternalError(f"EQUALS guard on {guard.source}: {expected!r} is not a constant")
    return row.lower(expected)
