"""Random loops over elements, slices and picked rows of NumPy's arrays: loop nests.

`text(seed)` gives the program; the same seed gives the same one. `compare(seed)` runs it plainly
and compiled, twice, with the C that is made for it, and returns what differs, or None: values,
dtypes, classes, what the arguments hold afterwards, and errors.
`python -m tests.fuzz.nests --first 0 --count 1000` compares many; `--show N` prints one.
"""

import math
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dynajit as dj
from tests.fuzz.command import compare_many
from tests.fuzz.loops import difference

#: `$v` is an array of n floats, `$k` one of n ints below n, `$s` a number, `$i` a counter.
VECTORS = [
    "x", "y", "a[$i]", "a[:, $i % m]", "x[::-1]", "np.flip(y)", "x[k]", "y[k[::-1]]", "a[k, 1]",
    "a[$i, k]", "x * $s", "$v + $v", "$v * $v", "np.abs($v)", "np.maximum($v, $s)", "t", "u",
    "np.where($v > $s, $v, y)", "np.concatenate((x[$i:], y[:$i]))", "np.clip($v, -1, 1)",
    "k * 0.5", "a @ $v", "$v @ a", "a.sum(axis=1)", "a.max(0)", "np.zeros(n)", "np.full(n, $s)",
    "k.astype(float)", "np.sqrt(np.abs($v))", "np.tanh($v)", "np.add($v, $s)",
    "np.multiply($v, $v)", "$v.copy()", "np.cumsum($v)", "a.T[$i]",
    "np.hstack((x[1:], $s + x[:1]))", "f.astype(np.float64)", "np.power($v, 2)",
    "np.less($v, $s) * x", "np.logical_and($v > 0, y) * 1.0", "a.mean(1, keepdims=True)[:, 0]",
]  # fmt: skip
NUMBERS = [
    "x[$i]", "a[$i, $j]", "y[-1]", "x[$i - 1]", "s", "$i * 0.5", "c", "float(c)", "$v.sum()",
    "$v.max()", "$v @ $v", "np.dot($v, y)", "x[k[$i]]", "min($s, 2.0)", "abs($s)",
    "np.sqrt(abs($s))", "$s * 0.5", "$v.mean()", "$v[$i]", "len(x)", "x[$i:].sum()", "0.25",
    "np.count_nonzero($v > 0)", "h(x[$i])", "np.float32(y[$i])", "int(k[$i])", "f[$i]",
    "np.argmax($v)", "$v.std()", "math.exp(-abs(x[$i]))",
]  # fmt: skip
STATEMENTS = [
    "x[$i] = $s", "a[$i, $j] = $s", "y[$i] += $s * 0.5", "x[$i:] = $s", "x[:] = $v",
    "y[1:] = $v[:-1]", "y[:-1] += 0.5 * x[1:]", "a[$i] = $v", "a[:, $i % m] -= $v * 0.1",
    "x[k] = $v", "y[k % 3] = $v", "a[k, $i] = $v", "x[k] += $v * 0.25", "s = $s", "s += $s",
    "t = $v", "u = $v", "c += 1", "c = int(k[$i])", "t = $v; x[0] = 0.5; y[:] = t",
    "t = x; t[$i] = $s", "np.add(x, $v, out=y)", "np.multiply(y, 0.5, y)",
    "k[$i] = ($i * 3 + c) % n", "k[:] = k[::-1]", "f[$i] = $s", "f *= 0.5",
    "x[$i], y[$i] = y[$i], x[$i]", "a[[$i, 0]] = a[[0, $i]]", "a *= 0.5", "x -= x[$i] * 0.1",
    "a[$i, 1:] = a[$i, :-1]", "y = y + 0.0",
]  # fmt: skip
COMPOUND = [
    "if $s > $s: $t\nelse: $t", "if x[$i] < y[$i]: $t", "for j in range($i): $t",
    "for j in range(m):\n  $t\n  $t", "while s > 1.5: s *= 0.5", "if c > 7: break",
    "if $i == 2: continue", "for j in range($i, n, 2):\n  if x[j] > $s: $t",
]  # fmt: skip
HEAD = """
def h(v):
 return v * 0.5 + 1 if v < 0 else v - 0.25

def function(x, y, a, k, f):
 n, m = a.shape; s = 0.5; c = 1; t = u = x * 0.5; j = 0
"""


def text(seed: int) -> str:
    """The program."""
    chosen = random.Random(seed)

    def filled(line: str, depth: int) -> str:
        kinds = {"$v": VECTORS, "$s": NUMBERS, "$t": STATEMENTS}
        for mark, usual in kinds.items():
            while mark in line:
                found = chosen.choice(usual)
                if depth > 2 and "$" in found.replace("$i", "").replace("$j", ""):
                    found = {"$v": "x", "$s": "x[$i]", "$t": "x[$i] = 0.5"}[mark]
                line = line.replace(mark, filled(f"{found}", depth + 1), 1)
        return line.replace("$i", "i").replace("$j", chosen.choice(["0", "i % m", "j % m"]))

    lines = [" for i in range(n):"]
    for _ in range(chosen.randint(1, 4)):
        usual = COMPOUND if chosen.random() < 0.3 else STATEMENTS
        lines += ["  " + part for part in filled(chosen.choice(usual), 0).split("\n")]
    names = chosen.sample(["s", "c", "x", "y", "a", "x[0]", "s * c"], 2)
    return HEAD + "\n".join([*lines, f" return ({', '.join(names)},)"]) + "\n"


def arguments(seed: int) -> list[Any]:
    """New ones."""
    values = np.random.default_rng(seed)
    n = 5
    x, y = values.standard_normal((2, n))
    order = "F" if seed % 7 == 3 else "C"
    a = np.asarray(values.standard_normal((n, n)), order=order)
    return [x, y, a, values.integers(0, n, n), values.standard_normal(n).astype(np.float32)]


def state(function: Callable[..., Any], seed: int) -> list[Any]:
    """What one call gives, and leaves."""
    args = arguments(seed)
    found: list[Any] = []
    told = ""
    try:
        found += function(*args)
    except Exception as error:
        told = type(error).__name__
    shown = [np.asarray(value) for value in (*found, *args)]
    return [told, list(map(type, found)), [(value.dtype.str, value) for value in shown]]


def compare(seed: int, backend: str = "native") -> str | None:
    """The first difference between the plain and the compiled run of a program, or None."""
    space: dict[str, Any] = {"np": np, "math": math, "__name__": f"nests_{seed}"}
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text(seed), f"<nests {seed}>", "exec"), space)
        function = space["function"]
        expected = state(function, seed)
        compiled = dj.compile(function, backend=backend)
        told = [difference(expected, state(compiled, seed)) for _ in range(2)]
        dj.reset()
    found = told[0] or told[1]
    return f"program {seed}: {found}" if found else None


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, text))
