"""Integer expressions for sizes, strides and indices: one small hash-consed algebra with ranges.

Every expression is a polynomial over atoms in normal form: a constant plus integer multiples of
products of atoms, where an atom is a symbol, a floor division, a remainder, a minimum or a
maximum. Equal expressions are the same object, so `==` and `hash` are by identity and cheap.
Results that are constant come back as plain `int`. Division and remainder round towards minus
infinity, as in Python; they print as plain C `/` and `%` only when both sides are known to be
non-negative.

Questions that the ranges do not answer (`n < m`, `bool(n)`, `range(n)`, whether two sizes agree)
go to the `Decider` of this thread: capture decides them by the sizes of the present call and
guards the answer. Without one, ordering and conversion are errors, and sizes that may be equal
agree: what needs them to be equal was checked when the graph was captured.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

Number: TypeAlias = "int | SymInt"
Bound: TypeAlias = int | None
Monomial: TypeAlias = tuple["Atom", ...]


class Atom:
    """An indivisible factor: a symbol or an operation that the normal form does not open.

    Args:
        kind: `symbol`, `floordiv`, `mod`, `min` or `max`.
        name: the symbol's name, else empty.
        operands: the two operands of an operation.
        low, high: inclusive range, None where unbounded.
        below: an expression that is larger (a symbolic upper bound), or None.
    """

    __slots__ = ("__weakref__", "below", "high", "kind", "low", "name", "operands", "order")

    def __init__(
        self,
        kind: str,
        name: str,
        operands: tuple[Number, ...],
        low: Bound,
        high: Bound,
        below: "SymInt | None" = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.operands = operands
        self.low = low
        self.high = high
        self.below = below
        self.order = f"{kind}:{name}:" + ",".join(python(operand) for operand in operands)


_atoms: Final["WeakValueDictionary[tuple[object, ...], Atom]"] = WeakValueDictionary()
_expressions: Final["WeakValueDictionary[tuple[object, ...], SymInt]"] = WeakValueDictionary()


class SymInt:
    """An integer expression that is not constant. Build with `symbol` and the operators.

    Attributes:
        terms: (product of atoms, factor) of the sum.
        range: what `bounds` has found; None before it was asked.
    """

    __slots__ = ("__weakref__", "range", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    range: "tuple[Bound, Bound] | None"

    def __add__(self, other: Number) -> Number:
        return _from_terms(_combine(self, other, 1))

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        return _from_terms(_combine(self, other, -1))

    def __rsub__(self, other: Number) -> Number:
        return _from_terms(_combine(other, self, -1))

    def __neg__(self) -> Number:
        return _from_terms(_combine(0, self, -1))

    def __mul__(self, other: Number) -> Number:
        product: dict[Monomial, int] = {}
        for left, left_factor in _terms(self):
            for right, right_factor in _terms(other):
                key = tuple(sorted(left + right, key=lambda atom: atom.order))
                product[key] = product.get(key, 0) + left_factor * right_factor
        return _from_terms(product)

    __rmul__ = __mul__

    def __floordiv__(self, other: Number) -> Number:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Number:
        return floordiv(other, self)

    def __mod__(self, other: Number) -> Number:
        return mod(self, other)

    def __rmod__(self, other: int) -> Number:
        return mod(other, self)

    def __repr__(self) -> str:
        return python(self)

    def __bool__(self) -> bool:
        return not _decided("==", self, 0)

    def __lt__(self, other: Number) -> bool:
        return _decided("<", self, other)

    def __le__(self, other: Number) -> bool:
        return _decided("<=", self, other)

    def __gt__(self, other: Number) -> bool:
        return _decided("<", other, self)

    def __ge__(self, other: Number) -> bool:
        return _decided("<=", other, self)

    def __index__(self) -> int:
        if _state.decider is None:
            raise ValueError(f"the number of the symbolic integer {self} is not known")
        return _state.decider.number(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())


class Decider(Protocol):
    """Who answers what ranges do not tell: capture, by the sizes of the call that it captures."""

    def decide(self, symbol: str, a: Number, b: Number) -> bool:
        """Whether `a symbol b` holds (`==`, `<` or `<=`); what is said will be guarded."""

    def unify(self, a: Number, b: Number) -> bool:
        """Whether two sizes that must be equal are; what is said will be guarded."""

    def number(self, value: "SymInt") -> int:
        """The number itself, which will be guarded."""

    def is_within(self, value: object, limit: float) -> bool:
        """Whether a run-time number is in [-limit, limit]; what is said will be guarded."""


class _State(threading.local):
    def __init__(self) -> None:
        self.decider: Decider | None = None


_state: Final = _State()


@contextlib.contextmanager
def deciding(decider: Decider) -> Iterator[None]:
    """Questions go to `decider` within the block (this thread only)."""
    before = _state.decider
    _state.decider = decider
    try:
        yield
    finally:
        _state.decider = before


def agree(a: Number, b: Number) -> bool:
    """Whether two sizes that must be equal are equal, or may be where nobody decides."""
    if a is b:
        return True
    difference = a - b
    if isinstance(difference, int):
        return difference == 0
    if _is_positive(difference) or _is_positive(-difference):
        return False
    return _state.decider is None or _state.decider.unify(a, b)


def equals(a: Number, b: Number) -> bool:
    """Whether two sizes, which need not be equal, are; where nobody decides: are known to be."""
    known = known_comparison("==", a, b)
    if known is None:
        return _state.decider is not None and _state.decider.decide("==", a, b)
    return known


def shapes_agree(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether two shapes that must be equal are; see `agree`."""
    return len(a) == len(b) and all(agree(m, n) for m, n in zip(a, b, strict=True))


def fits_within(a: Number, b: Number) -> bool:
    """Whether `a <= b`, which must hold; taken for granted where nobody decides."""
    known = known_comparison("<=", a, b)
    if known is None:
        return _state.decider is None or _state.decider.decide("<=", a, b)
    return known


def is_within(value: object, limit: float) -> bool:
    """Whether a run-time number of a graph is in [-limit, limit]; taken for granted where nobody
    decides."""
    return _state.decider is None or _state.decider.is_within(value, limit)


def known_comparison(symbol: str, a: Number, b: Number) -> bool | None:
    """Whether `a symbol b` holds for all values of the symbols, for none (False), or neither."""
    difference = b - a
    if isinstance(difference, int):
        return _plain_comparison(symbol, difference)
    match symbol:
        case "<":
            return _always_or_never(_is_positive(difference), _is_natural(-difference))
        case "<=":
            return _always_or_never(_is_natural(difference), _is_positive(-difference))
        case _:
            differs = _is_positive(difference) or _is_positive(-difference)
            return _always_or_never(False, differs)


def decided_comparison(symbol: str, a: Number, b: Number) -> bool | None:
    """Whether `a symbol b` holds; None where ranges do not tell and nobody decides."""
    known = known_comparison(symbol, a, b)
    if known is None and _state.decider is not None:
        return _state.decider.decide(symbol, a, b)
    return known


def _plain_comparison(symbol: str, difference: int) -> bool:
    """Whether `0 symbol difference` holds."""
    match symbol:
        case "<":
            return difference > 0
        case "<=":
            return difference >= 0
        case _:
            return difference == 0


def _always_or_never(always: bool, never: bool) -> bool | None:
    return True if always else False if never else None


def _decided(symbol: str, a: Number, b: Number) -> bool:
    known = known_comparison(symbol, a, b)
    if known is not None:
        return known
    if _state.decider is None:
        raise ValueError(f"whether {a} {symbol} {b} is not known")
    return _state.decider.decide(symbol, a, b)


def _is_positive(value: Number) -> bool:
    return _is_natural(_without_common_factor(value, 1) - 1)


def _is_natural(value: Number) -> bool:
    """True if the value is at least 0 whatever the symbols are; False where that is not proved."""
    low, _ = bounds(value)
    if low is not None:
        return low >= 0
    value = _without_common_factor(value, 0)
    relaxed = _without_divisions(value)
    low, _ = bounds(value if relaxed is None else relaxed)
    return low is not None and low >= 0


def _without_common_factor(value: Number, low: int) -> Number:
    """`value` divided by every atom that all its terms share and that is at least `low`."""
    if isinstance(value, int):
        return value
    for atom in value.terms[0][0]:
        shared = all(atom in monomial for monomial, _ in value.terms)
        if shared and atom.low is not None and atom.low >= low:
            rest: dict[Monomial, int] = {}
            for monomial, factor in value.terms:
                left = list(monomial)
                left.remove(atom)
                rest[tuple(left)] = factor
            return _without_common_factor(_from_terms(rest), low)
    return value


def _without_divisions(value: Number) -> "Number | None":
    """A multiple of a lower bound of `value` with `a // k` replaced by its linear bounds.

    `a // k` lies between `(a - k + 1) / k` and `a / k`. None where there is nothing to replace.
    """
    if isinstance(value, int):
        return None
    for monomial, factor in value.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if atom is None or atom.kind != "floordiv":
            continue
        inner, divisor = atom.operands
        if not isinstance(divisor, int) or divisor <= 0:
            continue
        rest = value - _from_terms({monomial: factor})
        bound = inner - (divisor - 1) if factor > 0 else inner
        linear = rest * divisor + bound * factor
        further = _without_divisions(linear)
        return linear if further is None else further
    return None


def symbol(name: str, low: Bound = 0, high: Bound = None, below: "SymInt | None" = None) -> SymInt:
    """A named unknown with an inclusive range. The same name and range give the same object.

    Args:
        name: printed as it is.
        low, high: inclusive range, None where unbounded.
        below: an expression that is always larger, such as the symbolic size of a loop.
    """
    atom = _atom("symbol", name, (), low, high, below)
    result = _from_terms({(atom,): 1})
    assert isinstance(result, SymInt)
    return result


def of_atom(atom: Atom) -> SymInt:
    """The expression that is one factor."""
    result = _from_terms({(atom,): 1})
    assert isinstance(result, SymInt)
    return result


def name_of(value: Number) -> str | None:
    """The name of a symbol that stands alone; None for numbers and other expressions."""
    atom = _single_atom(value)
    return atom.name if atom is not None and atom.kind == "symbol" else None


def floordiv(a: Number, b: Number) -> Number:
    """`a // b`, rounding towards minus infinity.

    Raises:
        ZeroDivisionError: `b` is the constant 0.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    if not isinstance(b, int):
        return _floordiv_by_symbol(a, b)
    whole, rest = _split(a, b)
    if rest == 0:
        return whole
    low, high = bounds(rest)
    if b > 0 and low is not None and high is not None and low // b == high // b:
        return whole + low // b
    inner = _single_atom(rest)
    if b > 0 and inner is not None and inner.kind == "floordiv":
        numerator, divisor = inner.operands
        if _positive(divisor):
            return whole + floordiv(numerator, divisor * b)
    if b < 0:
        return whole + _operation("floordiv", rest, b, None, None)
    ends = (None if low is None else low // b, None if high is None else high // b)
    below = _quotient_bound(rest, b) if high is None else None
    return whole + _operation("floordiv", rest, b, *ends, below)


def mod(a: Number, b: Number) -> Number:
    """`a % b`, with the sign of `b`.

    Raises:
        ZeroDivisionError: `b` is the constant 0.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if b == 1:
        return 0
    if not isinstance(b, int):
        return _mod_by_symbol(a, b)
    if b < 0:
        return a - floordiv(a, b) * b
    _, rest = _split(a, b)
    if isinstance(rest, int):
        return rest % b
    low, high = bounds(rest)
    if low is not None and high is not None and low // b == high // b:
        return rest - (low // b) * b
    return _operation("mod", rest, b, 0, b - 1)


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two."""
    return _extremum("min", a, b, min)


def maximum(a: Number, b: Number) -> Number:
    """The larger of two."""
    return _extremum("max", a, b, max)


def smaller(a: Number, b: Number) -> Number:
    """The smaller of two sizes: one of them where somebody decides, else an expression."""
    if _state.decider is None:
        return minimum(a, b)
    return a if _decided("<=", a, b) else b


def larger(a: Number, b: Number) -> Number:
    """The larger of two sizes; see `smaller`."""
    if _state.decider is None:
        return maximum(a, b)
    return b if _decided("<=", a, b) else a


def bounds(value: Number) -> tuple[Bound, Bound]:
    """Inclusive range of `value`; None where unbounded, or where nothing is known."""
    if isinstance(value, int):
        return value, value
    if value.range is None:
        value.range = _bounds(value)
    return value.range


def _bounds(value: SymInt) -> tuple[Bound, Bound]:
    low, high = _intervals(value)
    if low is not None and high is not None:
        return low, high
    least, most = extremes(value)
    if low is None and least is not None:
        low = _intervals(_from_least(least))[0]
    if high is None and most is not None:
        high = _intervals(_from_least(most))[1]
    return low, high


def extremes(value: Number) -> tuple["Number | None", "Number | None"]:
    """(smallest, largest) value over all atoms that have a symbolic upper bound.

    Both are expressions of the other atoms; None where the direction of an atom is not known.
    """
    return _extreme(value, True), _extreme(value, False)


def is_at_least(a: Number, b: Number) -> bool:
    """True if `a >= b` is certain."""
    low, _ = bounds(a - b)
    return low is not None and low >= 0


def _extreme(value: Number, is_smallest: bool) -> "Number | None":
    while isinstance(value, SymInt):
        atom = next((a for m, _ in value.terms for a in m if a.below is not None), None)
        if atom is None:
            return value
        slope: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, factor in value.terms:
            if atom in monomial:
                others = list(monomial)
                others.remove(atom)
                if atom in others:
                    return None
                slope[tuple(others)] = factor
            else:
                rest[monomial] = factor
        low, high = bounds(_from_terms(slope))
        rises = low is not None and low >= 0
        if not rises and (high is None or high > 0):
            return None
        assert atom.below is not None
        end: Bound | Number = atom.low if rises is is_smallest else atom.below - 1
        if end is None:
            return None
        value = _from_terms(slope) * end + _from_terms(rest)
    return value


def _from_least(value: Number) -> Number:
    """`value` with `low + x` for each symbol, where x starts at 0: products of sizes compare."""
    if isinstance(value, int):
        return value
    moved: dict[Atom, Number] = {}
    for monomial, _ in value.terms:
        for atom in monomial:
            if atom.kind == "symbol" and atom.low is not None and atom.high is None:
                start = symbol(f"{atom.name} less {atom.low}", 0)
                moved[atom] = start + atom.low
    total: Number = 0
    for monomial, factor in value.terms:
        product: Number = factor
        for atom in monomial:
            product = product * moved.get(atom, _from_terms({(atom,): 1}))
        total = total + product
    return total


def _intervals(value: Number) -> tuple[Bound, Bound]:
    """The range by interval arithmetic, term by term."""
    if isinstance(value, int):
        return value, value
    low: Bound = 0
    high: Bound = 0
    for monomial, factor in value.terms:
        term_low, term_high = _monomial_bounds(monomial)
        if factor < 0:
            term_low, term_high = term_high, term_low
        low = None if low is None or term_low is None else low + term_low * factor
        high = None if high is None or term_high is None else high + term_high * factor
    return low, high


def symbols(value: Number) -> frozenset[str]:
    """Names of the symbols in `value`."""
    if isinstance(value, int):
        return frozenset()
    names: set[str] = set()
    for monomial, _ in value.terms:
        for atom in monomial:
            if atom.kind == "symbol":
                names.add(atom.name)
            for operand in atom.operands:
                names |= symbols(operand)
    return frozenset(names)


def atoms(value: Number) -> Iterator["Atom"]:
    """Every factor of `value`, those of its operands before their own."""
    if isinstance(value, int):
        return
    for monomial, _ in value.terms:
        for atom in monomial:
            for operand in atom.operands:
                yield from atoms(operand)
            yield atom


def substitute(value: Number, known: Mapping[str, Number]) -> Number:
    """`value` with symbols replaced by name, simplified again."""
    if isinstance(value, int):
        return value
    total: Number = 0
    for monomial, factor in value.terms:
        product: Number = factor
        for atom in monomial:
            product = product * _substitute_atom(atom, known)
        total = total + product
    return total


def python(value: Number) -> str:
    """`value` as a Python expression."""
    return _print(value, _python_operation)


def c(value: Number) -> str:
    """`value` as a C expression of `int64_t` operands (`dj_floordiv`, `dj_mod` where signed)."""
    return _print(value, _c_operation)


_EVALUATE: Final[Mapping[str, Callable[[Number, Number], Number]]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}


def _substitute_atom(atom: Atom, known: Mapping[str, Number]) -> Number:
    if atom.kind == "symbol":
        return known.get(atom.name, _from_terms({(atom,): 1}))
    left, right = (substitute(operand, known) for operand in atom.operands)
    return _EVALUATE[atom.kind](left, right)


def _atom(
    kind: str,
    name: str,
    operands: tuple[Number, ...],
    low: Bound,
    high: Bound,
    below: SymInt | None,
) -> Atom:
    key = (kind, name, operands, low, high, below)
    found = _atoms.get(key)
    if found is None:
        found = _atoms[key] = Atom(kind, name, operands, low, high, below)
    return found


def _operation(
    kind: str, a: Number, b: Number, low: Bound, high: Bound, below: "Number | None" = None
) -> Number:
    bound = below if isinstance(below, SymInt) else None
    return _from_terms({(_atom(kind, "", (a, b), low, high, bound),): 1})


def _floordiv_by_symbol(a: Number, b: SymInt) -> Number:
    exact = _divide_exactly(a, b) if _positive(b) else None
    if exact is not None:
        return exact
    if not _positive(b):
        return _operation("floordiv", a, b, None, None)
    whole, rest = _divide(a, b)
    if is_at_least(rest, 0):
        if is_at_least(b - 1, rest):
            return whole
    elif is_at_least(rest + b, 0) and is_at_least(-1, rest):
        return whole - 1
    if len(b.terms) > 1:  # the quotient is not worth a longer rest
        whole, rest = 0, a
    inner = _single_atom(rest)
    if inner is not None and inner.kind == "floordiv" and _positive(inner.operands[1]):
        return whole + floordiv(inner.operands[0], inner.operands[1] * b)
    low = 0 if is_at_least(rest, 0) else None
    return whole + _operation("floordiv", rest, b, low, None, _quotient_bound(rest, b))


def _mod_by_symbol(a: Number, b: SymInt) -> Number:
    if a is b:
        return 0
    if not _positive(b):
        return _operation("mod", a, b, None, None)
    _, rest = _divide(a, b)
    if is_at_least(rest, 0):
        if is_at_least(b - 1, rest):
            return rest
    elif is_at_least(rest + b, 0) and is_at_least(-1, rest):
        return rest + b
    return _operation("mod", rest if len(b.terms) == 1 else a, b, 0, None, b)


def _quotient_bound(a: Number, b: Number) -> "Number | None":
    """What `a // b` stays below, for positive b; None where it is not known."""
    most = _extreme(a, False)
    return None if most is None or most is a else floordiv(most, b) + 1


def _extremum(
    kind: str,
    a: Number,
    b: Number,
    choose: Callable[[int, int], int],
) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return choose(a, b)
    if a is b:
        return a
    a_low, a_high = bounds(a)
    b_low, b_high = bounds(b)
    known = known_comparison("<=", a, b)
    if known is not None:
        return a if known == (kind == "min") else b
    if known_comparison("<=", b, a):
        return b if kind == "min" else a
    lows = None if a_low is None or b_low is None else choose(a_low, b_low)
    highs = None if a_high is None or b_high is None else choose(a_high, b_high)
    return _operation(kind, a, b, lows, highs)


def _terms(value: Number) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, int):
        return (((), value),) if value else ()
    return value.terms


def _combine(a: Number, b: Number, sign: int) -> dict[Monomial, int]:
    total = dict(_terms(a))
    for monomial, factor in _terms(b):
        total[monomial] = total.get(monomial, 0) + sign * factor
    return total


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Where a term stands in its sum: products of more factors first."""
    return -len(term[0]), [atom.order for atom in term[0]]


def _from_terms(terms: Mapping[Monomial, int]) -> Number:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1:
        if () in kept:
            return kept[()]
        ordered = tuple(kept.items())
    else:
        rejoined = _rejoined(kept)
        if rejoined is not None:
            return rejoined
        ordered = tuple(sorted(kept.items(), key=_order))
    found = _expressions.get(ordered)
    if found is None:
        found = SymInt.__new__(SymInt)
        found.terms = ordered
        found.range = None
        _expressions[ordered] = found
    return found


def _rejoined(terms: Mapping[Monomial, int]) -> "Number | None":
    """The sum where two of its terms are one: a quotient and what its division leaves.

    `x // b * b + x % b` is `x`, and `x // b % c * b + x % b` is `x % (b * c)`; each with any factor
    that both have. None where nothing can be joined.
    """
    for monomial, factor in terms.items():
        for remainder in monomial:
            if remainder.kind != "mod":
                continue
            others = _without(monomial, (remainder,))
            assert others is not None
            scale = _from_terms({others: factor})
            for quotient, whole in _quotients(remainder, terms):
                ((place, count),) = _terms(quotient * remainder.operands[1] * scale)
                if terms.get(place) == count:
                    rest = {m: f for m, f in terms.items() if m not in (monomial, place)}
                    return _from_terms(rest) + whole() * scale
    return None


def _quotients(
    remainder: Atom, terms: Mapping[Monomial, int]
) -> "Iterator[tuple[Number, Callable[[], Number]]]":
    """What may stand beside `x % b`, times b: (`x // b`, x) and (`x // b % c`, x % (b * c)).

    The second one for each such factor in `terms` with a positive c: another one has other digits.
    What both are together is made when it is asked for.
    """
    numerator, divisor = remainder.operands
    quotient = floordiv(numerator, divisor) if len(_terms(divisor)) == 1 else 0
    if _single_atom(quotient) is None:
        return
    yield quotient, lambda: numerator
    for atom in dict.fromkeys(atom for monomial in terms for atom in monomial):
        if atom.kind == "mod" and atom.operands[0] is quotient and _positive(atom.operands[1]):
            size = divisor * atom.operands[1]
            yield _from_terms({(atom,): 1}), functools.partial(mod, numerator, size)


def _split(a: Number, divisor: int) -> tuple[Number, Number]:
    """`a == whole * divisor + rest`, with every term that `divisor` divides in `whole`."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in _terms(a):
        if factor % divisor == 0:
            whole[monomial] = factor // divisor
        elif monomial == ():
            whole[monomial], rest[monomial] = divmod(factor, divisor)
        else:
            rest[monomial] = factor
    return _from_terms(whole), _from_terms(rest)


def _divide_exactly(a: Number, b: SymInt) -> "Number | None":
    """The quotient where every term of `a` is a multiple of `b`, which has one term."""
    if a is b:
        return 1
    if len(b.terms) != 1:
        return None
    ((divisor, by),) = b.terms
    quotient: dict[Monomial, int] = {}
    for monomial, factor in _terms(a):
        left = _without(monomial, divisor)
        if left is None or factor % by:
            return None
        quotient[left] = factor // by
    return _from_terms(quotient)


def _divide(a: Number, b: SymInt) -> tuple[Number, Number]:
    """`a == whole * b + rest`, where no term of `rest` is a multiple of the first one of b."""
    leading, by = b.terms[0]
    whole: Number = 0
    rest = a
    for monomial, factor in _terms(a):
        left = _without(monomial, leading)
        if left is not None and factor % by == 0:
            step = _from_terms({left: factor // by})
            whole = whole + step
            rest = rest - step * b
    return whole, rest


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The atoms of `monomial` that are left after division; None if it is no multiple."""
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _single_atom(value: Number) -> Atom | None:
    if isinstance(value, SymInt) and len(value.terms) == 1:
        monomial, factor = value.terms[0]
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def _positive(value: Number) -> bool:
    low, _ = bounds(value)
    return low is not None and low > 0


def _monomial_bounds(monomial: Monomial) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for atom in monomial:
        if low is None or atom.low is None or low < 0 or atom.low < 0:
            return (low, high) if not monomial else _signed_bounds(monomial)
        low = low * atom.low
        high = None if high is None or atom.high is None else high * atom.high
    return low, high


def _signed_bounds(monomial: Monomial) -> tuple[Bound, Bound]:
    low, high = 1, 1
    for atom in monomial:
        if atom.low is None or atom.high is None:
            return (atom.low, atom.high) if len(monomial) == 1 else (None, None)
        corners = [x * y for x in (low, high) for y in (atom.low, atom.high)]
        low, high = min(corners), max(corners)
    return low, high


def _print(value: Number, operation: Callable[[Atom], str]) -> str:
    if isinstance(value, int):
        return str(value)
    parts: list[str] = []
    for monomial, factor in value.terms:
        factors = [atom.name if atom.kind == "symbol" else operation(atom) for atom in monomial]
        if abs(factor) != 1 or not factors:
            factors.append(str(abs(factor)))
        sign = "-" if factor < 0 else "+"
        parts.append(f" {sign} " + "*".join(factors))
    text = "".join(parts)
    text = text[3:] if text.startswith(" + ") else "-" + text[3:]
    # Parentheses also around a product: the text must be safe to put after a division sign.
    single = len(parts) == 1 and "*" not in parts[0] and not text.startswith("-")
    return text if single else f"({text})"


def _python_operation(atom: Atom) -> str:
    left, right = (python(operand) for operand in atom.operands)
    if atom.kind in ("min", "max"):
        return f"{atom.kind}({left}, {right})"
    return f"({left} {'//' if atom.kind == 'floordiv' else '%'} {right})"


def _c_operation(atom: Atom) -> str:
    left, right = (c(operand) for operand in atom.operands)
    if atom.kind in ("min", "max"):
        return f"dj_{atom.kind}_index({left}, {right})"
    numerator_low, _ = bounds(atom.operands[0])
    if numerator_low is not None and numerator_low >= 0 and _positive(atom.operands[1]):
        return f"({left} {'/' if atom.kind == 'floordiv' else '%'} {right})"
    return f"dj_{atom.kind}({left}, {right})"
