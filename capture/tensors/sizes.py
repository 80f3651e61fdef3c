"""Sizes while a function is captured: which are symbols, and what the code asks about them.

`Sizes` gives existing tensors their graph types, with symbols for sizes that are known to vary,
and answers every question about symbols (`core.types.symint.Decider`) by the sizes of the present
call; the answer becomes a relation guard at the user's line. Where the code forces one size, or two
sizes to be equal, the capture starts again with that knowledge (`SizesChanged`), so that the graph
is as specific as the code.

One per attempt of a capture; made by `capture.entry.session`, used by the recorder and the
operations.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.guards.conditions import Call, Condition
from dynajit.capture.guards.facts import Predicate, SizeRange, TensorFacts, dense_order
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.relations import COMPARISONS, Relation, Term
from dynajit.capture.places import sources
from dynajit.capture.places.sources import Source
from dynajit.capture.tensors.expressions import expression_of, expression_of_size
from dynajit.capture.tensors.size_memory import Mark, Place, SizeMemory, marks_of
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.core.errors import DynamicSizeError
from dynajit.core.location import Location
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, SymInt
from dynajit.core.types.value_types import Shape, Size, TensorType

#: Sizes 0 and 1 broadcast and vanish: they are compiled on their own.
SMALLEST: Final = 2
#: Ints beyond this are compared as Python compares them, by value.
LARGEST: Final = 1 << 62
#: Ints that are compared with each other, such as items of lists, beyond this: every relation is
#: paid for at each call, a value costs little.
MANY_INTS: Final = 64

MSG_FORCED: Final = (
    "{place} was marked dynamic, but the code needs it to be {size}: {why}, at {where}.  Remove "
    "mark_dynamic, or make the code independent of that size."
)


class SizesChanged(BaseException):
    """The capture must start again: more is known about sizes. No error, hence no Exception."""


class Sizes:
    """See the module's text. Mutable.

    Args:
        memory: of the function's cache.
    """

    def __init__(self, memory: SizeMemory) -> None:
        self.memory = memory
        self.location: Location | None = None
        self._recorder: Any = None
        self._types: dict[int, tuple[TensorType, TensorFacts, tuple[Guard, ...]]] = {}
        self._symbols: dict[str, tuple[SymInt, Term | Scalar, int]] = {}
        self._ints: dict[Source, SymInt] = {}
        self._computed: dict[Any, SymInt] = {}
        self._shared: dict[tuple[int | float, ...], str] = {}
        self._places: dict[Place, str] = {}
        self._marks: dict[Place, Mark] = {}
        self._seen: dict[str, tuple[int | float, ...]] = {}

    def serve(self, recorder: Any) -> None:
        """Whom guards go to, and who knows the names of placeholders."""
        self._recorder = weakref.proxy(recorder)  # no cycle: captures die at once

    def finish(self) -> None:
        """The capture is done: later ones know its sizes."""
        self.memory.remember(self._seen)

    # -- tensors -----------------------------------------------------------------------------

    def type_of(self, tensor: Any, source: Source) -> TensorType:
        """The graph type of an existing tensor whose first source this is."""
        return self._known(tensor, source)[0]

    def guards_of(self, tensor: Any, source: Source) -> Iterator[tuple[Kind, Any, Guard | None]]:
        """The facts on which that type relies: the TENSOR fact, then relations."""
        _, facts, relations = self._known(tensor, source)
        yield Kind.TENSOR, facts, None
        for guard in relations:
            yield guard.kind, guard.expected, guard

    def _known(
        self, tensor: Any, source: Source
    ) -> tuple[TensorType, TensorFacts, tuple[Guard, ...]]:
        found = self._types.get(id(tensor))
        if found is None:
            found = self._types[id(tensor)] = self._describe(tensor, source)
        return found

    def _describe(
        self, tensor: Any, source: Source
    ) -> tuple[TensorType, TensorFacts, tuple[Guard, ...]]:
        if tensor._is_mirrored:
            reason = "a conjugate view that was made outside of the region"
            raise breaks.GraphBreak(breaks.TENSOR_FAILURE, reason)
        facts = TensorFacts.of(tensor)
        sizes: tuple[int, ...] = tuple(tensor.shape)
        strides: tuple[int, ...] = tuple(tensor.stride())
        text = source.expression()
        self._seen[text] = sizes
        dims = [d for d, size in enumerate(sizes) if self._is_symbolic(tensor, source, d, size)]
        if not dims or not _has_simple_layout(tensor, facts):
            return TensorType(sizes, tensor.dtype, tensor.device, strides), facts, ()
        shape: list[Size] = list(sizes)
        ranges: list[int | SizeRange | None] = list(sizes)
        relations: list[Guard] = []
        for d in dims:
            term = Term("", source, d)
            shape[d], shared = self._symbol_of((text, d), term, sizes[d])
            ranges[d] = self._range_of((text, d))
            if shared is not None:
                relations.append(shared)
        row_major = bool(tensor.array.flags.c_contiguous)
        order = None if row_major else dense_order(sizes, strides)
        steps = strides if order is None else _ordered_strides(tuple(shape), order)
        if all(isinstance(step, int) for step in steps):
            order = None
        facts = replace(
            facts,
            shape=tuple(ranges),
            strides=None if row_major or order is not None else facts.strides,
            row_major=row_major,
            order=order,
        )
        type = TensorType(tuple(shape), tensor.dtype, tensor.device, None if row_major else steps)
        return type, facts, tuple(relations)

    def _is_symbolic(self, tensor: Any, source: Source, d: int, size: int) -> bool:
        place = (source.expression(), d)
        mark = marks_of(tensor).get(d)
        if mark is not None:
            self._marks[place] = mark
        if size < SMALLEST or (mark is not None and not mark.is_dynamic):
            return False
        if place in self.memory.fixed_now:
            return False
        if place in self.memory.fixed or self.memory.mode is False:
            if mark is not None and place in self.memory.fixed:
                self._refuse(place, size)
            return mark is not None and self.memory.mode is False
        if mark is not None:
            return True
        if _is_parameter(source):
            return False
        varies = self.memory.is_varying(place, size)
        return varies or (self.memory.mode is True and _is_argument(source))

    def _refuse(self, place: Place, size: int) -> None:
        where, why = self.memory.fixed[place]
        raise DynamicSizeError(
            MSG_FORCED.format(
                place=_place_text(place), size=size, why=why, where=where or "an unknown line"
            )
        )

    def _range_of(self, place: Place) -> SizeRange:
        mark = self._marks.get(place)
        if mark is None:
            return SizeRange(SMALLEST)
        return SizeRange(max(mark.low or 0, SMALLEST), mark.high)

    # -- symbols -----------------------------------------------------------------------------

    def _symbol_of(self, place: Place, term: Term, size: int) -> tuple[SymInt, Guard | None]:
        """The symbol of a place; with the guard that its size equals that of another place."""
        past = (*self.memory.sizes_so_far(place), size)
        name = None if place in self.memory.apart else self._shared.get(past)
        if name is not None and self._marks.get(place) is None:
            symbol, first, _ = self._symbols[name]
            assert isinstance(first, Term)
            self._places[place] = name
            equal = Relation("==", symint.symbol("a"), symint.symbol("b"),
                             (replace(term, name="a"), replace(first, name="b")))  # fmt: skip
            return symbol, self._guard_of(equal, "sizes that were always equal")
        symbol = self._new_symbol(term, size, self._range_of(place))
        self._places[place] = str(symbol)
        if place not in self.memory.apart:
            self._shared.setdefault(past, str(symbol))
        return symbol, None

    def _new_symbol(self, term: "Term | Scalar", value: int, range: SizeRange | None) -> SymInt:
        prefix = "n" if range is None else "s"
        number = len(self._symbols)
        while not self._recorder.builder.is_name_free(f"{prefix}{number}"):
            number += 1
        name = f"{prefix}{number}"
        if range is None:
            symbol = symint.symbol(name, None)
        else:
            symbol = symint.symbol(name, range.low, range.high)
        origin = replace(term, name=name) if isinstance(term, Term) else term
        self._symbols[name] = (symbol, origin, value)
        return symbol

    def origin(self, name: str) -> "Term | Scalar":
        """Where the number of a symbol is found, or the run-time number that it is."""
        return self._symbols[name][1]

    def is_computed(self, value: Number) -> bool:
        """True for an expression of results of arithmetic: no place has them."""
        return any(isinstance(self.origin(name), Scalar) for name in symint.symbols(value))

    def hint(self, value: Number) -> int:
        """What an expression is in the present call."""
        if isinstance(value, int):
            return value
        known = {name: self._symbols[name][2] for name in symint.symbols(value)}
        found = symint.substitute(value, known)
        assert isinstance(found, int)
        return found

    # -- sizes as values ---------------------------------------------------------------------

    def value_of(self, size: Number) -> Value:
        """A size as the program sees it: a literal, or a run-time int."""
        if isinstance(size, int):
            return Constant(size)
        name = symint.name_of(size)
        if name is not None:
            return self.scalar(name)
        parts = tuple(self.scalar(name) for name in sorted(symint.symbols(size)))
        return Scalar(self.hint(size), None, ("size", parts), size)

    def scalar(self, name: str) -> Scalar:
        """The run-time int that a symbol stands for."""
        symbol, term, value = self._symbols[name]
        if isinstance(term, Scalar):
            return replace(term, symbolic=symbol)
        if term.dim is None:
            return Scalar(value, term.source, None, symbol)
        return Scalar(value, sources.SizeOf(term.source, term.dim), None, symbol)

    def expression_of(self, value: Any) -> "Number | None":
        """An integer expression for a value, or None: a literal int, or a run-time int."""
        if isinstance(value, Constant):
            return value.value if type(value.value) is int else None
        if not isinstance(value, Scalar) or value.python_type is not int:
            return None
        if value.symbolic is not None or abs(value.value) > LARGEST:
            found: Number | None = value.symbolic
            return found
        if value.expression is None:
            return self._int_symbol(value)
        operation, operands = value.expression
        parts = [self.expression_of(operand) for operand in operands]
        if operation not in ALGEBRA or None in parts:
            return None
        combined: Number = ALGEBRA[operation](*parts)
        return combined

    def _int_symbol(self, scalar: Scalar) -> "Number | None":
        """A symbol for an int, for use in relations only; None: it has none."""
        if scalar.source is None or not scalar.source.is_guardable:
            return None
        found = self._ints.get(scalar.source)
        if found is None and len(self._ints) < MANY_INTS:
            term = Term("", scalar.source, None)
            found = self._ints[scalar.source] = self._new_symbol(term, int(scalar.value), None)
        return found

    def has_plain_ints(self, number: Number) -> bool:
        """True where an expression has ints that no graph knows: those of `_int_symbol`."""
        plain = {str(symbol) for symbol in self._ints.values()}
        return not plain.isdisjoint(symint.symbols(number))

    def shape_int(self, scalar: Scalar) -> SymInt | None:
        """A symbol for an int of the program that is used as a size; None: it is specialised."""
        known: SymInt | None = scalar.symbolic
        if known is not None:
            return known
        if is_of_a_turn(scalar):
            return None
        if scalar.expression is not None:
            found = self._shape_expression(*scalar.expression)
            return self._computed_size(scalar) if found is None else found
        if scalar.python_type is not int or scalar.source is None:
            return None
        if not scalar.source.is_guardable or not SMALLEST <= scalar.value < LARGEST:
            return None
        place: Place = (scalar.source.expression(), None)
        value = int(scalar.value)
        self._seen[place[0]] = (value,)
        if place in self.memory.fixed or place in self.memory.fixed_now:
            return None
        if self.memory.mode is False:
            return None
        is_read = isinstance(scalar.source, sources.Contents)  # of a tensor: it is never one value
        varies = is_read or self.memory.is_varying(place, value)
        if not varies and not (self.memory.mode is True and _is_argument(scalar.source)):
            return None
        name = self._places.get(place)
        if name is None:
            found = self._new_symbol(Term("", scalar.source, None), value, SizeRange(SMALLEST))
            self._places[place] = str(found)
        else:
            found = self._symbols[name][0]
        enough = Predicate(int, ((">=", SMALLEST),))
        self._recorder.add_guard(
            Guard(scalar.source, Kind.PREDICATE, enough, self.location, "an int used as a size")
        )
        return found

    def _shape_expression(self, operation: str, operands: tuple[Any, ...]) -> SymInt | None:
        """`shape_int` of the result of arithmetic on ints."""
        parts: list[Number] = []
        for operand in operands:
            literal = isinstance(operand, Constant) and type(operand.value) is int
            part = operand.value if literal else None
            if isinstance(operand, Scalar):
                part = self.shape_int(operand)
            if part is None:
                return None
            parts.append(part)
        found = ALGEBRA[operation](*parts) if operation in ALGEBRA else None
        return found if isinstance(found, SymInt) else None

    def _computed_size(self, scalar: Scalar) -> SymInt | None:
        """A symbol for the result of arithmetic on numbers of which one varies."""
        if scalar.python_type is not int or not SMALLEST <= scalar.value < LARGEST:
            return None
        expression = expression_of(self, scalar) if self.varies(scalar) else None
        if expression is None:
            return None
        enough = Condition(Call(">=", (expression, SMALLEST)), True)
        if not enough.is_checkable or not enough.terms:
            return None
        found = self._computed.get(enough.key())
        if found is None:
            found = self._new_symbol(scalar, int(scalar.value), SizeRange(SMALLEST))
            self._computed[enough.key()] = found
        self._recorder.guard_condition(enough, "a number used as a size")
        return found

    def varies(self, scalar: Scalar) -> bool:
        """True if a number that another one is made of is a size, or differs between calls."""
        if scalar.symbolic is not None or isinstance(scalar.source, sources.Turn):
            return True
        if scalar.expression is not None:
            parts = [part for part in scalar.expression[1] if isinstance(part, Scalar)]
            found = [self.varies(part) for part in parts]  # each is remembered
            return any(found)
        if scalar.source is None or self.memory.mode is False:
            return False
        text = scalar.source.expression()
        self._seen[text] = (scalar.value,)
        return self.memory.is_varying((text, None), scalar.value)

    def fits_float(self, value: Any) -> bool:
        """True for an int that becomes a float without overflow; guarded, but for a size."""
        if isinstance(value, Scalar) and value.symbolic is not None:
            return True
        if not isinstance(value, Scalar) or value.expression is not None or value.source is None:
            return False
        if value.python_type is not int or abs(value.value) > LARGEST:
            return False
        if isinstance(value.source, sources.Turn):
            return True  # it is computed for each turn before there is a loop
        small = Predicate(int, ((">=", -LARGEST), ("<=", LARGEST)))
        reason = "an int that is divided"
        self._recorder.add_guard(Guard(value.source, Kind.PREDICATE, small, self.location, reason))
        return True

    def saw_number(self, scalar: Scalar) -> None:
        """A number is specialised: remember its value, so that the next compile may know better."""
        if scalar.source is not None:
            self._seen[scalar.source.expression()] = (scalar.value,)

    # -- questions (symint.Decider) ------------------------------------------------------------

    def decide(self, symbol: str, a: Number, b: Number) -> bool:
        """Whether `a symbol b` holds in this call; guarded."""
        if symbol in (">", ">="):
            symbol, a, b = _MIRRORED[symbol], b, a
        known = symint.known_comparison("==" if symbol == "!=" else symbol, a, b)
        if known is not None:
            return known != (symbol == "!=")
        outcome = bool(COMPARISONS[symbol](self.hint(a), self.hint(b)))
        self._rely(symbol if outcome else _OPPOSITE[symbol], a, b, "comparison of sizes")
        return outcome

    def unify(self, a: Number, b: Number) -> bool:
        """Whether two sizes that must be equal are equal in this call; guarded."""
        if self.hint(a) != self.hint(b):
            return False
        for symbol, other in ((a, b), (b, a)):
            name = symint.name_of(symbol)
            if name is not None and isinstance(other, int):
                self._fix(name, f"the code needs the size {other}")
        self._rely("==", a, b, "sizes that must be equal")
        return True

    def number(self, value: SymInt) -> int:
        """The number that an expression is in this call; guarded."""
        hint = self.hint(value)
        name = symint.name_of(value)
        if name is not None:
            self._fix(name, "the size is used as a number")
        self._rely("==", value, hint, "size specialised here")
        return hint

    def is_within(self, value: Any, limit: float) -> bool:
        """Whether a run-time number of the graph is in [-limit, limit] in this call; guarded."""
        hint: int | float
        if isinstance(value, SymInt):
            expression, hint = expression_of_size(self, value), self.hint(value)
        else:
            scalar = self._recorder.input_nodes.get(value.node)
            if not isinstance(scalar, Scalar):
                return False
            expression, hint = expression_of(self, scalar), scalar.value
        if expression is None or not abs(hint) <= limit:
            return False
        relied = Condition(Call("<=", (Call("abs", (expression,)), limit)), True)
        if relied.is_checkable:
            self._recorder.guard_condition(relied, "a number that a dtype has to hold")
        return relied.is_checkable

    def check_result(self, size: SymInt) -> None:
        """A size of a result: it must not become 0 or 1, which vanish and broadcast, unnoticed.

        Where it is 0 or 1 in this call, the sizes that it is made of are literals this time.
        """
        low, _ = symint.bounds(size)
        if low is not None and low >= 1:
            if low >= SMALLEST or self.hint(size) >= SMALLEST:
                return
        elif self.hint(size) >= SMALLEST:
            self.decide("<=", 1, size)
            return
        names = symint.symbols(size)
        places = {place for place, name in self._places.items() if name in names}
        if not places:
            self._rely("==", size, self.hint(size), "a result of size 0 or 1")
            return
        self.memory.fixed_now |= places
        raise SizesChanged

    def _fix(self, name: str, why: str) -> None:
        """One size is forced on a symbol: start again, with a literal in its place.

        Places that only share the symbol are given symbols of their own first: one of them may
        be what is forced.
        """
        places = [place for place, own in self._places.items() if own == name]
        if not places:  # an int that is no size: its relation is guarded
            return
        if len(places) > 1:
            self.memory.apart.update(places)
        elif self.memory.is_left_to_python(places[0]) and self._recorder.may_break:
            self.memory.churn.leave_line(self.location)
            raise breaks.GraphBreak(breaks.CHANGES, f"{_place_text(places[0])}: {why}")
        else:
            self.memory.fixed[places[0]] = (self.location, why)
        raise SizesChanged

    def _rely(self, comparison: str, a: Number, b: Number, reason: str) -> None:
        comparison, a, b = _simplified(comparison, a, b)
        names = sorted(symint.symbols(a) | symint.symbols(b))
        origins = [self.origin(name) for name in names]
        terms = tuple(origin for origin in origins if isinstance(origin, Term))
        if len(terms) < len(origins):
            self._rely_on_result(comparison, a, b, reason)
            return
        relation = Relation(comparison, a, b, terms)
        if not relation.is_checkable:
            for name in names:
                self._fix(name, "a condition on sizes is too large to be checked")
        self._recorder.add_guard(self._guard_of(relation, reason))

    def _rely_on_result(self, comparison: str, a: Number, b: Number, reason: str) -> None:
        """`_rely` where a symbol is the result of arithmetic."""
        left, right = expression_of_size(self, a), expression_of_size(self, b)
        assert left is not None and right is not None
        relied = Condition(Call(comparison, (left, right)), True)
        if not relied.is_checkable:
            text = "a condition on numbers that is too large to be checked"
            raise breaks.GraphBreak(breaks.UNSUPPORTED_OPERATION, text)
        self._recorder.guard_condition(relied, reason)

    def _guard_of(self, relation: Relation, reason: str) -> Guard:
        return Guard(relation.terms[0].source, Kind.RELATION, relation, self.location, reason)


_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED: Final = {">": "<", ">=": "<="}
#: Operators of Python on integer expressions.
ALGEBRA: Final[dict[str, Callable[..., Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": symint.floordiv,
    "%": symint.mod,
}


def _simplified(comparison: str, a: Number, b: Number) -> tuple[str, Number, Number]:
    """`k * (a // k) == a` as `a % k == 0`; others as they are."""
    if comparison in ("==", "!="):
        for difference in (a - b, b - a):
            found = _remainder(difference)
            if found is not None:
                return comparison, found, 0
    return comparison, a, b


def _remainder(difference: Number) -> "Number | None":
    """`a % k` where `difference` is `a - k * (a // k)`, else None."""
    if isinstance(difference, int):
        return None
    for monomial, factor in difference.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if atom is None or atom.kind != "floordiv":
            continue
        numerator, divisor = atom.operands
        if isinstance(divisor, int) and factor == -divisor:
            quotient = symint.floordiv(numerator, divisor)
            if difference == numerator - quotient * divisor:
                return symint.mod(numerator, divisor)
    return None


def _place_text(place: Place) -> str:
    text, dim = place
    return text if dim is None else f"{text}.shape[{dim}]"


def _has_simple_layout(tensor: Any, facts: TensorFacts) -> bool:
    """True if the layout can be said without symbols: row by row, or with these strides."""
    return bool(tensor.array.flags.c_contiguous) or facts.strides is not None


def _ordered_strides(shape: Shape, order: tuple[int, ...]) -> Shape:
    """The strides of elements that lie side by side in an order of the dims."""
    steps: dict[int, Size] = {}
    step: Size = 1
    for d in reversed(order):
        steps[d] = step
        step = step * shape[d]
    return tuple(steps[d] for d in range(len(shape)))


def _is_parameter(source: Source) -> bool:
    """True for a parameter of a module, whose sizes belong to the module."""
    return any(
        isinstance(part, sources.Key)
        and isinstance(part.base, sources.Attribute)
        and part.base.name == "_parameters"
        for part in source.chain()
    )


def _is_argument(source: Source) -> bool:
    """True for an argument of the call, or what lists, tuples and dicts among them hold."""
    parts = list(source.chain())
    if not isinstance(parts[0], sources.Local):
        return False
    return all(isinstance(part, (sources.Item, sources.Key)) for part in parts[1:])


@lru_cache(maxsize=1024)
def function_of(expression: SymInt, names: tuple[str, ...]) -> Callable[..., int]:
    """A Python function of the symbols that computes an expression."""
    text = f"lambda {', '.join(names)}: {symint.python(expression)}"
    function: Callable[..., int] = eval(text)
    return function
