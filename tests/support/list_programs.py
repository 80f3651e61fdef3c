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
GROWING_HEAD: Final = """def program(n, a, b, c, m, x):
    i = j = k = 0
    s, y, row, t = 1, 0.25, a[0:n], [0] * n
    u, v, d = [], [0.5, -1.5], []
    g = [[0.5 * i - j for j in range(n)] for i in range(n)]
    for w in range(100):
        k = w % 3
    for w in range(n):
        i = w"""
GROWING_RESULTS: Final = (
    "(u, s)",
    "v",
    "d",
    "(u, v, g, u)",
    "(g, row)",
    "row",
    "(s, a)",
    "(v, b)",
    "(a, s)",
    "(b, a, x)",
    "(m, u)",
    "x",
    "t",
)
RESULTS: Final = ("s", "x", "a", "b", "(s, x)", "m", "None", "(s, a)", "c", "t[0]", "s > 3")
_INDICES: Final = (
    "i", "j", "(i + j) % n", "(i * 3 + 1) % n", "-1 - i % n", "b[i % n] % n", "(i + 2) % n", "j % n"
)  # fmt: skip


class Programs:
    """Makes one program. Mutable; used once.

    Args:
        seed: of what is chosen.
        is_growing: there are lists that change their lengths, slices and comprehensions.
    """

    def __init__(self, seed: int, is_growing: bool = False) -> None:
        self._random = random.Random(seed)
        self._is_growing = is_growing

    def text(self) -> str:
        """The program: a function `program(n, a, b, c, m, x)`."""
        body = [*self._block(2, 3), *self._block(2, 3)]
        head = GROWING_HEAD if self._is_growing else HEAD
        results = GROWING_RESULTS if self._is_growing else RESULTS
        return "\n".join([head, *body, f"    return {self._one(*results)}"])

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _index(self) -> str:
        return self._one(*_INDICES)

    def _int(self, depth: int = 2) -> str:
        leaves = ("i", "j", "n", "s", "k", "-3", "2", "5", "len(a)", f"b[{self._index()}]")
        if not depth or self._random.random() < 0.2:
            return self._one(*leaves)
        one, two = self._int(depth - 1), self._int(depth - 1)
        if self._is_growing and depth == 2:
            return f"({one} * {two} & 0xFFFFF)"
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
        if self._is_growing and self._random.random() < 0.4:
            return self._change(indent, depth)
        if not depth or self._random.random() < 0.7:
            return [f"{margin}{self._simple()}"]
        heads = [
            f"if {self._truth()}:", f"for {self._one('i', 'j')} in range(n):",
            f"for i in range(abs({self._int(1)}) % 5):", "for j in range(n - 1, -1, -1):",
            "for x in a:", "for k, y in enumerate(row):",
        ]  # fmt: skip
        return [f"{margin}{self._one(*heads)}", *self._block(indent + 1, depth - 1)]

    def _change(self, indent: int, depth: int) -> list[str]:
        """Something that makes a list, or changes the length of one, or asks for all of it."""
        margin, whole, real = "    " * indent, self._int(1), self._float(1)
        low, high = self._one("i", "-2", "", "1", "s"), self._one("j", "-1", "", "3", "len(u)")
        ints = self._one("u", "b", "t", "d")
        floats = self._one("v", "a", "row", f"g[{self._index()}]")
        appended = {
            "u": f"{whole} & 1023",
            "v": real,
            "d": self._truth(1),
            "b": f"{whole} & 63",
            "a": real,
        }.items()
        lines = (
            *(f"if len({name}) < 40: {name}.append({value})" for name, value in appended),
            "if len(u) > 1: s = u.pop()", "if v: x = v.pop()", "if len(a) > n: x = a.pop()",
            f"row = [{real} for i in range(n)]", f"row = [x * y for x in {floats}[{low}:{high}]]",
            f"u = [i for i in {ints} if i % 2]", f"t = {ints}[{low}:{high}]", "u, t = t, u",
            f"s = sum({ints}) % 1000003", f"y = sum({floats}[{low}:{high}])", "v = row",
            f"x = {self._one('min', 'max')}({floats})", "if not u: u = [1, 2, 3]",
            f"s = {self._one('min', 'max')}({ints}[{low}:{high}])", f"v = {floats}.copy()",
            f"s = len({ints}) + len({floats})", f"v = list({floats})", "t = list(range(n))",
            f"y = sum(x * {real} for x in {floats})", f"s += sum(1 for x in {floats} if x > y)",
            "g = [[i + j * x for j in range(len(v))] for i in range(3)]",
            f"g[{self._index()}][{self._index()}] = {real}",
            f"if len(g) < 9: g.append([{real}, x, y])",
        )  # fmt: skip
        heads = (
            f"for x in {floats}[{low}:{high}]:",
            f"for i in {ints}:",
            "for k, y in enumerate(v):",
            f"for i, x in zip({ints}, {floats}):",
            "for row in g:",
        )
        if not depth or self._random.random() < 0.75:
            return [f"{margin}{self._one(*lines)}"]
        return [f"{margin}{self._one(*heads)}", *self._block(indent + 1, depth - 1)]

    def _simple(self) -> str:
        one, two = self._index(), self._index()
        swapped, change = self._one("a", "b", "c", "row", "t"), self._one("=", "+=", "-=", "*=")
        if self._is_growing:
            change = "=" if change == "*=" else change  # loops over lists have many turns
        return self._one(
            f"if {self._truth()}: {self._one('break', 'continue')}", f"row = m[{one}]",
            f"{self._one('x', 'y')} = {self._float()}", f"s {change} {self._int()}",
            f"{swapped}[{one}], {swapped}[{two}] = {swapped}[{two}], {swapped}[{one}]",
            f"a[{one}] {change} {self._float()}", f"b[{one}] {change} {self._int()}",
            f"c[{one}] = {self._truth()}", f"m[{one}][{two}] {change} {self._float()}",
            f"row[{one}] = {self._float()}", f"t[{one}] {change} {self._int()}",
        )  # fmt: skip
