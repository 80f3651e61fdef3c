"""Numbers of a launch plan as words: constants, symbols, and arithmetic on them.

Contract: a plan computes with an array of 64-bit words (`device/plan.h`). `Words` gives each number
its place there, the same one for equal numbers; what is known beforehand is a constant, the rest
follows from the symbols by steps of integer arithmetic that C runs for each call.
"""

from collections.abc import Mapping
from typing import Final

from dynajit.codegen import _device
from dynajit.core.errors import CodegenError
from dynajit.core.types.symint import Atom, Number

_OPERATIONS: Final = {
    "floordiv": _device.FLOOR_DIVIDE,
    "mod": _device.MODULO,
    "min": _device.MINIMUM,
    "max": _device.MAXIMUM,
}


class Words:
    """Gives out words. Mutable: the array grows.

    Args:
        first: number of words that are there already.
        symbols: symbol of the graph -> its word.
    """

    def __init__(self, first: int, symbols: Mapping[str, int]) -> None:
        self.count = first
        self.symbols = dict(symbols)
        self.constants: list[tuple[int, int]] = []
        self.arithmetic: list[tuple[int, tuple[int, int, int]]] = []
        self._known: dict[object, int] = {}

    def of(self, number: Number) -> int:
        """The word that holds a number.

        Raises:
            CodegenError: it mentions a symbol that no argument shows.
        """
        if isinstance(number, int):
            return self._constant(number)
        total: int | None = None
        for monomial, factor in number.terms:
            term = self._product(monomial, factor)
            total = term if total is None else self._computed(_device.ADD, total, term)
        return self._constant(0) if total is None else total

    def _product(self, monomial: tuple[Atom, ...], factor: int) -> int:
        found = None if factor == 1 and monomial else self._constant(factor)
        for atom in monomial:
            word = self._atom(atom)
            found = word if found is None else self._computed(_device.MULTIPLY, found, word)
        assert found is not None
        return found

    def _atom(self, atom: Atom) -> int:
        if atom.kind != "symbol":
            left, right = atom.operands
            return self._computed(_OPERATIONS[atom.kind], self.of(left), self.of(right))
        if atom.name not in self.symbols:
            known = ", ".join(sorted(self.symbols)) or "none"
            raise CodegenError(
                f"a launch needs the size {atom.name}, which no argument shows (known: {known})."
            )
        return self.symbols[atom.name]

    def _constant(self, value: int) -> int:
        if value not in self._known:
            self._known[value] = self._new()
            self.constants.append((self._known[value], value))
        return self._known[value]

    def _computed(self, operation: int, left: int, right: int) -> int:
        key = (operation, left, right)
        if key not in self._known:
            self._known[key] = self._new()
            self.arithmetic.append((operation, (self._known[key], left, right)))
        return self._known[key]

    def _new(self) -> int:
        self.count += 1
        return self.count - 1
