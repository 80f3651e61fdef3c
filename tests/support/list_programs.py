"""Random programs over lists of floats, ints, bools and lists of floats, for `test_lists.py`."""

import random
from typing import Final

HEAD: Final = """def program(n, a, b, c, m, x):
    i = j = k = 0
    s, y, row, t = 1, 0.25, m[0], [0] * n
    for w in range(100):
        k = w % 3
    for w in range(n):
        i = w"""
RESULTS: Final = ("s", "x", "a", "b", "(s, x)", "m", "None", "(s, a)", "c", "t[0]", "s > 3")
_INDICES: Final = (
    "i", "j", "(i + j) % n", "(i * 3 + 1) % n", "-1 - i % n", "b[i % n] % n", "(i + 2) % n", "j % n"
)  # fmt: skip


class Programs:
    """Makes one program. Mutable; used once.

    Args:
        seed: of what is chosen.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        """The program: a function `program(n, a, b, c, m, x)`."""
        body = [*self._block(2, 3), *self._block(2, 3)]
        return "\n".join([HEAD, *body, f"    return {self._one(*RESULTS)}"])

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _index(self) -> str:
        return self._one(*_INDICES)

    def _int(self, depth: int = 2) -> str:
        leaves = ("i", "j", "n", "s", "k", "-3", "2", "5", "len(a)", f"b[{self._index()}]")
        if not depth or self._random.random() < 0.2:
            return self._one(*leaves)
        one, two = self._int(depth - 1), self._int(depth - 1)
        return self._one(
            f"({one} {self._one('+', '-', '*', '&', '|', '^')} {two})", f"({one} // {two})",
            f"({one} % (1 + abs({two})))", f"{self._one('min', 'max')}({one}, {two})",
            f"abs({one})", f"({one} if {self._truth(depth - 1)} else {two})", f"(-{one})",
            f"int({self._float(depth - 1)})", f"({one} {self._one('<<', '>>')} 3)",
        )  # fmt: skip

    def _float(self, depth: int = 2) -> str:
        element = f"m[{self._index()}][{self._index()}]"
        leaves = ("x", "y", "0.5", "-1.25", element, f"a[{self._index()}]", f"row[{self._index()}]")
        if not depth or self._random.random() < 0.2:
            return self._one(*leaves)
        one, two = self._float(depth - 1), self._float(depth - 1)
        whole = self._int(depth - 1)
        return self._one(
            f"({one} {self._one('+', '-', '*')} {two})", f"({one} / {two})", f"({one} + {whole})",
            f"{self._one('min', 'max')}({one}, {two})", f"abs({one})", f"float({whole})",
            f"({one} if {self._truth(depth - 1)} else {two})", f"({whole} / 3)", f"({one} ** 2)",
            f"({one} {self._one('//', '%')} {self._one('0.75', '-2.5')})",
        )  # fmt: skip

    def _truth(self, depth: int = 2) -> str:
        if not depth:
            return self._one(f"c[{self._index()}]", "i > j", "x < y", "s > 3")
        symbol = self._one("<", "<=", "==", "!=", ">", ">=")
        return self._one(
            f"({self._int(depth - 1)} {symbol} {self._int(depth - 1)})",
            f"({self._float(depth - 1)} {symbol} {self._float(depth - 1)})",
            f"({self._truth(depth - 1)} {self._one('and', 'or')} {self._truth(depth - 1)})",
            f"(not {self._truth(depth - 1)})",
        )

    def _block(self, indent: int, depth: int) -> list[str]:
        count = self._random.randrange(1, 4)
        return [line for _ in range(count) for line in self._statement(indent, depth)]

    def _statement(self, indent: int, depth: int) -> list[str]:
        margin = "    " * indent
        if not depth or self._random.random() < 0.7:
            return [f"{margin}{self._simple()}"]
        heads = [
            f"if {self._truth()}:", f"for {self._one('i', 'j')} in range(n):",
            f"for i in range(abs({self._int(1)}) % 5):", "for j in range(n - 1, -1, -1):",
            "for x in a:", "for k, y in enumerate(row):",
        ]  # fmt: skip
        return [f"{margin}{self._one(*heads)}", *self._block(indent + 1, depth - 1)]

    def _simple(self) -> str:
        one, two = self._index(), self._index()
        swapped, change = self._one("a", "b", "c", "row", "t"), self._one("=", "+=", "-=", "*=")
        return self._one(
            f"if {self._truth()}: {self._one('break', 'continue')}", f"row = m[{one}]",
            f"{self._one('x', 'y')} = {self._float()}", f"s {change} {self._int()}",
            f"{swapped}[{one}], {swapped}[{two}] = {swapped}[{two}], {swapped}[{one}]",
            f"a[{one}] {change} {self._float()}", f"b[{one}] {change} {self._int()}",
            f"c[{one}] = {self._truth()}", f"m[{one}][{two}] {change} {self._float()}",
            f"row[{one}] = {self._float()}", f"t[{one}] {change} {self._int()}",
        )  # fmt: skip
