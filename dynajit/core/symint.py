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

Called by the movement rows (index maps), by code generation (which prints C) and by shape guards
(which print Python).
"""

import contextlib
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
    """

    __slots__ = ("__weakref__", "high", "kind", "low", "name", "operands", "order")

    def __init__(
        self, kind: str, name: str, operands: tuple[Number, ...], low: Bound, high: Bound
    ) -> None:
        self.kind = kind
        self.name = name
        self.operands = operands
        self.low = low
        self.high = high
        self.order = f"{kind}:{name}:" + ",".join(python(operand) for operand in operands)


_atoms: Final["WeakValueDictionary[tuple[object, ...], Atom]"] = WeakValueDictionary()
_expressions: Final["WeakValueDictionary[tuple[object, ...], SymInt]"] = WeakValueDictionary()


class SymInt:
    """An integer expression that is not constant. Build with `symbol` and the operators."""

    __slots__ = ("__weakref__", "terms")

    terms: tuple[tuple[Monomial, int], ...]

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


def shapes_agree(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether two shapes that must be equal are; see `agree`."""
    return len(a) == len(b) and all(agree(m, n) for m, n in zip(a, b, strict=True))


def fits_within(a: Number, b: Number) -> bool:
    """Whether `a <= b`, which must hold; taken for granted where nobody decides."""
    known = known_comparison("<=", a, b)
    if known is None:
        return _state.decider is None or _state.decider.decide("<=", a, b)
    return known


def known_comparison(symbol: str, a: Number, b: Number) -> bool | None:
    """Whether `a symbol b` holds for all values of the symbols, for none (False), or neither."""
    difference = b - a
    match symbol:
        case "<":
            return _always_or_never(_is_positive(difference), _is_natural(-difference))
        case "<=":
            return _always_or_never(_is_natural(difference), _is_positive(-difference))
        case _:
            differs = _is_positive(difference) or _is_positive(-difference)
            return _always_or_never(isinstance(difference, int) and difference == 0, differs)


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
    return _is_natural(value - 1)


def _is_natural(value: Number) -> bool:
    """True if the value is at least 0 whatever the symbols are; False where that is not proved."""
    low, _ = bounds(value)
    if low is not None:
        return low >= 0
    relaxed = _without_divisions(value)
    if relaxed is None:
        return False
    low, _ = bounds(relaxed)
    return low is not None and low >= 0


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


def symbol(name: str, low: Bound = 0, high: Bound = None) -> SymInt:
    """A named unknown with an inclusive range. The same name and range give the same object."""
    atom = _atom("symbol", name, (), low, high)
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
        exact = _divide_exactly(a, b) if _positive(b) else None
        return _operation("floordiv", a, b, None, None) if exact is None else exact
    whole, rest = _split(a, b)
    if rest == 0:
        return whole
    low, high = bounds(rest)
    if b > 0 and low is not None and high is not None and low // b == high // b:
        return whole + low // b
    inner = _single_atom(rest)
    if b > 0 and inner is not None and inner.kind == "floordiv":
        numerator, divisor = inner.operands
        if isinstance(divisor, int) and divisor > 0:
            return whole + floordiv(numerator, divisor * b)
    ends = (None if low is None else low // b, None if high is None else high // b)
    return whole + _operation("floordiv", rest, b, *(ends if b > 0 else (None, None)))


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
        return 0 if a is b else _operation("mod", a, b, 0 if _positive(b) else None, None)
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


def bounds(value: Number) -> tuple[Bound, Bound]:
    """Inclusive range of `value`; None where unbounded."""
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


def _atom(kind: str, name: str, operands: tuple[Number, ...], low: Bound, high: Bound) -> Atom:
    key = (kind, name, operands, low, high)
    found = _atoms.get(key)
    if found is None:
        found = _atoms[key] = Atom(kind, name, operands, low, high)
    return found


def _operation(kind: str, a: Number, b: Number, low: Bound, high: Bound) -> Number:
    return _from_terms({(_atom(kind, "", (a, b), low, high),): 1})


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


def _from_terms(terms: Mapping[Monomial, int]) -> Number:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    ordered = tuple(
        sorted(kept.items(), key=lambda item: (-len(item[0]), [a.order for a in item[0]]))
    )
    found = _expressions.get(ordered)
    if found is None:
        found = SymInt.__new__(SymInt)
        found.terms = ordered
        _expressions[ordered] = found
    return found


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
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if factor % by:
            return None
        quotient[tuple(left)] = factor // by
    return _from_terms(quotient)


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
