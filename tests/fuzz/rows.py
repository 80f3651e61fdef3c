"""Random loops over elements, rows and slices of NumPy's arrays, whose views share memory.

`text(seed)` gives the program; the same seed gives the same one. `compare(seed)` runs it plainly
and compiled, twice, and returns what differs, or None: results, what the arguments hold
afterwards, and classes of errors. Floats agree to rounding, since sums are added up in another
order. No view is assigned to another of the same memory that it overlaps in other steps: NumPy may
read there what it has just written. `python tests/fuzz/rows.py --first 0 --count 1000` compares
many; `--show N` prints one.
"""

import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dynajit as dj
from tests.fuzz.command import compare_many

#: Numbers in what is compared that are larger have no common rounding.
LARGEST = 1e12

#: What an array of one dim and of two may be a view of.
VIEWS = ["v", "a[:, ::-1]", "a", "a[::-1]", "a.T", "a[1:, 1:]"]
ALIASES = ["", "", "y = x[::-1]", "y = a[0]", "y = a[:, 1]; x = a[1]", "x = b[:, 2]"]
STEPS = ["row[0] = s", "row += 1", "row[1:] = row[:-1]", "row[:] = row[::-1]", "row *= row[0]"]


class Program:
    """The statements of one program. Mutable.

    Args:
        seed: of its choices.
    """

    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.counters = ["i"]
        self.bounds: tuple[str, str] | None = None

    def text(self) -> str:
        """All lines."""
        choice = self.chosen.choice
        head = [
            "def function(x, y, a, b, v, k, q, s):",
            f"    n = len(x); m = a.shape[1]; t = np.zeros(n); v = {choice(VIEWS)}",
            f"    {choice(ALIASES) or 'pass'}",
            f"    for i in range({choice(['n', '1, n', 'n - 1'])}):",
        ]
        return "\n".join([*head, *self.block(2, 0, 3), "        x[0] += 0.0", "    return s", ""])

    def block(self, indent: int, depth: int, most: int) -> list[str]:
        """Some statements."""
        found = []
        for _ in range(self.chosen.randint(1, most)):
            found += self.statement(indent, depth)
        return found

    def statement(self, indent: int, depth: int) -> list[str]:
        """The lines of one."""
        choice = self.chosen.choice
        self.bounds = choice([
            ("", ""), ("", ""), ("1", ""), ("", "-1"), ("1", "-1"), (choice(self.counters), ""),
            ("", choice(self.counters)), (choice(self.counters), "-1"), None,
        ])  # fmt: skip
        kinds: list[Callable[[], list[str]]] = [
            self.store_slice, self.store_slice, self.store_block, self.store_element,
            self.set_number, self.set_array, self.set_scratch, self.swap, self.count,
            self.change_row,
        ]  # fmt: skip
        if depth < 2 and self.chosen.random() < 0.25:
            return self.nested(indent, depth)
        return ["    " * indent + line for line in choice(kinds)()]

    def nested(self, indent: int, depth: int) -> list[str]:
        """A branch or a loop."""
        choice, space = self.chosen.choice, "    " * indent
        if len(self.counters) == 3 or self.chosen.random() < 0.5:
            found = [f"{space}if {self.number()} > {self.number()}:"]
            found += self.block(indent + 1, depth + 1, 2)
            if self.chosen.random() < 0.4:
                found += [f"{space}else:", *self.block(indent + 1, depth + 1, 1)]
            return found
        counter = "ijh"[len(self.counters)]
        ends = ["n", "1, n", "n - 1, 0, -1", "m", *self.counters]
        head = f"{space}for {counter} in range({choice(ends)}):"
        self.counters.append(counter)
        inner = self.block(indent + 1, depth + 1, 2)
        self.counters.pop()
        return [head, *inner]

    # -- statements

    def store_slice(self) -> list[str]:
        target = self.view()
        target += "" if "[" in target else "[:]"
        return [f"{target} {self.chosen.choice(['=', '=', '+=', '-=', '*='])} +{self.vector()}"]

    def store_block(self) -> list[str]:
        choice = self.chosen.choice
        name, part = choice("abv"), f"[{self.slice()}, {self.slice()}]"
        values = [
            f"+{choice('abv')}{part}", f"{choice('abv')}{part} * 2 + {name}{part}", self.number(),
            f"+{self.matrix()}", f"+{self.view()}",
        ]  # fmt: skip
        return [f"{name}{part} {choice(['=', '+='])} {choice(values)}"]

    def store_element(self) -> list[str]:
        choice = self.chosen.choice
        return [f"{choice('xy')}[{self.index()}] {choice(['=', '+='])} {self.number()}"]

    def set_number(self) -> list[str]:
        return [f"s = {self.number()} * 0.25"]

    def set_array(self) -> list[str]:
        uses = [f"x[{self.slice()}] = +t", "t[0] += 1.0", "y[0] = t.sum()", "t += 1", "u = t"]
        return [f"t = {self.vector()}", self.chosen.choice(uses), "s += t[0] * 0.1"]

    def set_scratch(self) -> list[str]:
        count = self.chosen.choice([*self.counters, "3", "n"])
        return [f"t = np.zeros({count})", f"t[:] = +{self.vector()}", "y[0] = t.sum()"]

    def swap(self) -> list[str]:
        parts = [f"[[{self.index()}, {self.index()}]]" for _ in range(2)]
        return [f"a{parts[0]} = {self.chosen.choice('abv')}{parts[1]}"]

    def count(self) -> list[str]:
        choice = self.chosen.choice
        if self.chosen.random() < 0.5:
            added = choice(["1", "2", "k[0]", f"np.argmax({self.vector()})"])
            return [f"k[{self.index()}] += {added}"]
        value = choice(["1", "2", "3", f"k[{self.slice()}]"])
        return [f"k[{self.slice()}] {choice(['+=', '*=', '='])} {value}"]

    def change_row(self) -> list[str]:
        choice = self.chosen.choice
        return [f"row = {choice('abv')}[{self.index()}]", choice(STEPS)]

    # -- expressions

    def index(self) -> str:
        counter = self.chosen.choice(self.counters)
        others = ["-1", "0", "1", "q", f"{counter} - 1", f"-{counter}"]
        return self.chosen.choice([counter, counter, counter, *others])

    def slice(self) -> str:
        chance, choice = self.chosen.random(), self.chosen.choice
        if self.bounds and chance < 0.93:
            return ":".join(self.bounds)
        if chance < 0.35:
            return ":"
        counter = choice(self.counters)
        bounds = [
            "",
            "",
            "1",
            "-1",
            "2",
            "-2",
            "9",
            "q",
            counter,
            f"{counter} + 1",
            f"{counter} - 2",
        ]
        found = f"{choice(bounds)}:{choice(bounds)}"
        return found if chance < 0.96 else f"{found}:{choice(['2', '-1', '-2', '1'])}"

    def view(self) -> str:
        chance, choice = self.chosen.random(), self.chosen.choice
        is_part = self.bounds and self.bounds != ("", "")
        if chance < (0.5 if is_part else 0.35):
            return f"{choice('xy')}[{self.slice()}]"
        if chance < 0.5:
            return choice("xy")
        if chance < 0.7 and not is_part:
            return f"{choice('abv')}[{self.index()}]"
        if chance < 0.85:
            return f"{choice('abv')}[{self.index()}, {self.slice()}]"
        return f"{choice('abv')}[{self.slice()}, {self.index()}]"

    def matrix(self) -> str:
        choice = self.chosen.choice
        parts = [
            choice("abv"),
            f"{choice('abv')}.T",
            f"{choice('abv')}[{self.slice()}, {self.slice()}]",
        ]
        if self.chosen.random() < 0.7:
            return choice(parts)
        return f"({choice(parts)} {choice('+-*')} {choice([self.number(2), self.view()])})"

    def vector(self, depth: int = 0) -> str:
        chance, choice = self.chosen.random(), self.chosen.choice
        if chance < 0.5 or depth > 2:
            return self.view()
        if chance < 0.75:
            return f"({self.vector(depth + 1)} {choice('+-*')} {self.number(depth + 1)})"
        if chance < 0.85:
            return f"np.{choice(['abs', 'sin', 'square'])}({self.vector(depth + 1)})"
        if chance < 0.9:
            return f"np.maximum({self.view()}, {self.number(depth + 1)})"
        same = self.view()
        return f"({same} {choice('+-*')} {same})"

    def number(self, depth: int = 0) -> str:
        chance, choice = self.chosen.random(), self.chosen.choice
        if chance < 0.25 or depth > 2:
            return choice(["0.5", "2.0", "1", "3", "s", "-1.5"])
        if chance < 0.45:
            return f"{choice('xy')}[{self.index()}]"
        if chance < 0.55:
            return f"{choice('abv')}[{self.index()}, {self.index()}]"
        if chance < 0.8:
            return f"{self.vector(depth + 1)}.{choice(['sum', 'sum', 'max', 'min', 'mean'])}()"
        if chance < 0.85:
            return f"np.{choice(['sum', 'max', 'min'])}({self.matrix()})"
        if chance < 0.92:
            return f"np.dot({self.view()}, {self.view()})"
        return f"({self.number(depth + 1)} {choice('+-*')} {self.number(depth + 1)})"


def text(seed: int) -> str:
    """The program."""
    return Program(seed).text()


def arguments(seed: int) -> tuple[Any, ...]:
    """What a program is called with: the same for the same seed."""
    source = np.random.default_rng(seed)
    n, m = 6, 6 if seed % 7 else 5
    x, y = source.normal(size=n).round(2), source.normal(size=n).round(2)
    a, b, v = (source.normal(size=(n, m)).round(2) for _ in range(3))
    return x, y, a, b, v, source.integers(0, 5, n), int(source.integers(0, 4)), 0.5


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives, or the class of what it raises."""
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except Exception as error:
            return type(error).__name__


def near(expected: Any, found: Any) -> bool:
    """Whether two values have one class, dtype and shape, and numbers that agree to rounding."""
    if type(expected) is not type(found):
        return False
    if not isinstance(expected, (np.ndarray, np.generic, float)):
        return bool(expected == found)
    a, b = np.asarray(expected), np.asarray(found)
    is_alike = a.dtype == b.dtype and a.shape == b.shape
    return is_alike and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True))


def compare_text(program: str, seed: int) -> str | None:
    """What differs, or None."""
    space: dict[str, Any] = {"np": np, "dj": dj, "__name__": f"rows_{seed}"}
    exec(compile(program, f"<rows {seed}>", "exec"), space)
    function, own = space["function"], arguments(seed)
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(function, own)
        arrays = [arg for arg in own if isinstance(arg, np.ndarray)]
        if not all(np.all(np.abs(array) < LARGEST) for array in arrays):
            return None
        compiled = dj.compile(function)
        for _ in range(2):
            others = arguments(seed)
            found = outcome(compiled, others)
            if not near(expected, found):
                return f"program {seed}: {expected!r} expected, found {found!r}"
            changed = [n for n, pair in enumerate(zip(own, others, strict=True)) if not near(*pair)]
            if changed:
                return f"program {seed}: arguments {changed} hold something else"
        dj.reset()
    return None


def compare(seed: int, backend: str = "numpy") -> str | None:
    """What differs in a program, or None."""
    return compare_text(text(seed), seed)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, text))
