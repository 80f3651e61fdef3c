"""Random NumPy programs: views, writes, dtypes, reductions, indices and breaks mixed.

`body(seed)` gives the statements of `function(x, y, i)`; the same seed gives the same ones.
`compare(seed)` runs it by NumPy and compiled, with arrays of several dtypes and layouts, and
returns what differs, or None: values, classes, dtypes, strides, who shares memory with whom, what
the arguments hold afterwards, and errors. `python tests/fuzz/arrays.py --first 0 --count 1000`
compares many; `--show N` prints one.
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

#: `$a` is an array that is there, `$n` a new name, `$k` a number, `$f` a function of elements.
STATEMENTS = [
    "$n = $a + $a", "$n = $a * $k", "$n = $a - $k", "$n = $k - $a", "$n = $a / 3", "$n = $a // 2",
    "$n = $a % 3", "$n = -$a", "$n = $a ** 2", "$n = np.$f($a)", "$n = np.where($a > $k, $a, $k)",
    "$n = np.maximum($a, $k)", "$n = np.clip($a, 0, 3)", "$n = np.abs($a) + 1", "$n = $a.T.T * 1",
    "$n = $a.astype(np.float32)", "$n = $a.astype(np.int64)", "$n = $a.copy()",
    "$n = np.roll($a, 1, 0)", "$n = $a[:, ::-1].copy()", "$n = $a[[2, 0, 1]]", "$n = $a[i]",
    "$n = np.sort($a, axis=0)", "$n = np.cumsum($a, axis=1)", "$n = ($a > 1) & ($a < 4)",
    "$n = $a == $a", "$n = np.floor($a / 2)", "$n = np.concatenate([$a[:1], $a[1:]])",
    "$n = $a.reshape(4, 3).reshape(3, 4)", "$n = $a + $a[0]", "$n = $a + $a[:, :1]",
    "$n = $a * np.float32(2)", "$n = $a + np.arange(4)", "$n = np.zeros_like($a)",
    "$n = np.full((3, 4), $k)", "$n = $a - $a.mean(axis=1, keepdims=True)", "$n = $a @ $a.T @ $a",
    "$n = np.einsum('ij,kj,kl->il', $a, $a, $a)", "$n = np.outer($a[0, :3], $a[1])",
    "$n = np.sqrt(np.abs($a))", "$n = np.stack([$a[0], $a[1], $a[2]])",
    "$n = np.tile($a[0], (3, 1))", "$n = $a * $a.max()", "$n = $a + $a.sum()",
    "$n = np.exp(-np.abs($a))", "$a += $k", "$a *= 2", "$a[0] = $k", "$a[:, 1] = $a[:, 2]",
    "$a[1:] += $a[:-1]", "$a[$a > 2] = 1", "$a[[0, 2]] = $k", "$n = $a[1:]\n$n += 1\n$n = $a",
    "$n = $a.T\n$n[0] = 7\n$n = $a", "np.add($a, 1, out=$a)", "$n = $a\n$n -= 1",
    "$n = $a.ravel()\n$n[3] = 5\n$n = $a", "$a[...] = $a[::-1]", "$n = $a[i:i + 2].sum(0) + $a",
    "KEPT.append($a.sum())", "KEPT.append($a.mean(axis=0))", "KEPT.append($a.argmax())",
    "KEPT.append($a[0, 1])", "KEPT.append($a.std())", "KEPT.append($a.shape)",
    "KEPT.append($a.dtype)", "KEPT.append(float($a.max()))", "KEPT.append($a[1])",
    "KEPT.append(np.any($a > 3))", "KEPT.append($a.T)", "KEPT.append(len($a))",
    "if $a.sum() > 10:\n    KEPT.append('large')", "KEPT.append(np.median($a))",
    "KEPT.append($a.tolist()[0])", "for row in $a:\n    KEPT.append(row.sum())",
    "KEPT.append($a.astype(np.int8) * np.int8(100))", "KEPT.append(np.linalg.norm($a))",
    "KEPT.append($a.min(axis=0, keepdims=True))", "KEPT.append($a[5])",
    "$n = $a[::-1]", "$n = $a[:, ::-1]", "$n = np.flip($a)", "$n = np.fliplr($a) * $k",
    "$n = $a[::-1]\n$n[0] = 7\n$n = $a", "$a[::-1] = $a * 2", "$a[:, ::-1] += $a",
    "KEPT.append($a[::-1, 1:3])", "KEPT.append($a[::-1].T)", "KEPT.append($a[2:0:-1, ::-2])",
    "KEPT.append($a[::-1][1])", "KEPT.append($a[::-1].sum(axis=0))", "$n = $a[::-1] + $a",
    "$n = np.flipud($a)\n$n[1, :2] = $k\n$n = $a", "KEPT.append($a[::-1].ravel())",
    "KEPT.append($a[:, ::-1].copy())", "KEPT.append($a[::-1].reshape(4, 3))",
    "KEPT.append($a.ravel(order='F'))", "KEPT.append($a.reshape(4, 3, order='F'))",
    "KEPT.append(np.concatenate([$a, $a]))", "KEPT.append(np.stack([$a, $a]))",
    "KEPT.append(np.pad($a, 1))", "KEPT.append(np.pad($a, 1, mode='edge'))",
    "KEPT.append(np.pad($a, ((2, 1), (0, 1)), mode='reflect'))", "KEPT.append(np.roll($a, 2))",
    "KEPT.append(np.cumsum($a))", "KEPT.append($a.ravel())", "KEPT.append($a[:, [2, 0]])",
    "KEPT.append($a[1:, [0, 2, 1]])", "KEPT.append($a[[0, 2], 1:])", "KEPT.append($a[[0], [1]])",
    "KEPT.append(np.add.reduce($a))", "KEPT.append(np.maximum.reduce($a, axis=1))",
    "KEPT.append(np.add.accumulate($a))", "KEPT.append(np.maximum.accumulate($a, axis=1))",
    "KEPT.append(np.multiply.outer($a[0], $a[:, 1]))", "np.add.at($a, [0, 2, 0], $k)",
    "np.add.at($a, ([0, 2, 0], [1, 1, 1]), $k)", "np.maximum.at($a, [0, 2, 0], $a)",
    "KEPT.append($a[0, 1].astype(int))", "KEPT.append(np.asarray($a.sum()))",
    "np.add($a, $k, out=$a, where=$a > 1)", "np.multiply($a, $a, out=($a,))",
    "KEPT.append($a.sum(where=$a > 0))", "KEPT.append($a.max(initial=2))",
    "KEPT.append($a.mean(axis=0, where=$a < 9))", "KEPT.append(np.round($a, 1))",
    "KEPT.append(np.median($a, axis=1))", "KEPT.append(np.percentile($a, 30, axis=0))",
    "KEPT.append(np.interp($a, [-2.0, 0.5, 4.0], [1.0, 3.0, -2.0]))", "KEPT.append(np.diag($a[0]))",
    "KEPT.append(np.searchsorted([0, 1, 3], $a))", "KEPT.append(np.convolve($a[0], $a[1, :3]))",
    "KEPT.append(np.gradient($a, axis=1))", "KEPT.append($a.diagonal())", "$a.fill($k)",
    "KEPT.append(np.broadcast_to($a[0], (3, 4)))", "$n = np.broadcast_to($a[0], (3, 4)) + $a",
    "KEPT.append(np.linalg.norm($a, axis=1))", "KEPT.append(np.select([$a > 2], [$a], 0))",
    "np.copyto($a, $a[::-1])", "$a[1].sort()", "KEPT.append(np.nan_to_num($a))",
    "KEPT.append(np.float32(2) + $a.sum())", "KEPT.append(np.float64(2) * $a.max() + np.int8(1))",
    "KEPT.append(np.kron($a[:2, :2], $a))", "KEPT.append(np.trace($a, 1))", "KEPT.append($a.real)",
    "KEPT.append(np.exp(1j * $a))", "KEPT.append(($a * 1j).imag)", "KEPT.append(divmod($a, 2))",
    "KEPT.append(np.einsum('ij->i', $a))", "KEPT.append(np.einsum('...i,...i->...', $a, $a))",
    "KEPT.append(np.tensordot($a, $a, axes=([1], [1])))", "KEPT.append(np.cov($a))",
    "KEPT.append(np.meshgrid($a[0], $a[:, 0]))",
    "KEPT.append(np.take_along_axis($a, $a * 0 > 9, 1))",
    "KEPT.append(np.repeat($a, i + 1, axis=1))", "KEPT.append(np.diag($a, i))",
    "KEPT.append(np.diagflat($a[0], i - 1))", "KEPT.append(np.array_split($a, 2, axis=1))",
    "for part in np.array_split($a, 2):\n    part += $k", "KEPT.append(np.vander($a[0], 3))",
    "KEPT.append(np.unravel_index(np.argmax($a), $a.shape))",
    "KEPT.append(np.linspace($a[0], $a[1], 5, retstep=True))", "KEPT.append(np.delete($a, i, 0))",
    "KEPT.append(np.insert($a, i, $k, axis=1))", "KEPT.append($a.argsort(axis=1))",
    "KEPT.append(np.partition($a, 1, axis=0))", "KEPT.append(np.isin($a, [1, 2]))",
    "KEPT.append(np.average($a, axis=0))", "KEPT.append(np.take($a, [9, -9], 1, mode='clip'))",
    "KEPT.append(np.lexsort(($a[0], $a[1])))", "KEPT.append(np.asfortranarray($a))",
    "KEPT.append(np.pad($a, ((0, 1), (i, 0)), constant_values=2))", "KEPT.append(np.modf($a))",
    "KEPT.append(np.fft.rfft($a, axis=0))", "KEPT.append(np.var($a, axis=0, ddof=1))",
    "KEPT.append(np.trace($a, i))", "KEPT.append(np.ediff1d($a))", "np.fill_diagonal($a, $k)",
    "KEPT.append(np.cbrt($a))", "KEPT.append(np.nanmax($a, axis=1))",
    "KEPT.append(np.nanmean(np.where($a > 2, np.nan, $a)))",
    "KEPT.append(np.meshgrid($a[0], $a[:, 0], sparse=True))",
]  # fmt: skip
FUNCTIONS = ["sin", "tanh", "square", "negative", "ceil", "sign", "isfinite", "logical_not"]
NUMBERS = ["2", "0.5", "-1", "3", "True", "np.float32(1.5)", "np.int8(2)", "1.25"]
DTYPES = [np.float64, np.float64, np.float32, np.int64, np.int32, np.int8, np.bool_]


def body(seed: int) -> list[str]:
    """The statements."""
    chosen, names, lines = random.Random(seed), ["x", "y"], []
    for number in range(chosen.randint(3, 9)):
        text, new = chosen.choice(STATEMENTS), f"t{number}"
        while "$a" in text:
            text = text.replace("$a", chosen.choice(names[-4:]), 1)
        text = text.replace("$k", chosen.choice(NUMBERS)).replace("$f", chosen.choice(FUNCTIONS))
        if "$n" in text:
            names.append(new)
        lines.append(text.replace("$n", new))
    return [*lines, f"return {', '.join(names[-3:])}"]


def source(lines: list[str]) -> str:
    """The program's text."""
    inner = ["    " + line for text in lines for line in text.split("\n")]
    return "\n".join(["KEPT = []", "def function(x, y, i):", *inner]) + "\n"


def arguments(seed: int) -> tuple[Any, ...]:
    """Two arrays of (3, 4), of one memory at times, and an index."""
    chosen, values = random.Random(seed + 1), np.random.default_rng(seed)

    def array() -> Any:
        drawn = values.integers(-3, 6, (6, 8)) + values.random((6, 8)) * chosen.choice([0, 1])
        wide = drawn.astype(chosen.choice(DTYPES))
        how = chosen.choice(["rows", "rows", "columns", "strided", "part"])
        if how == "columns":
            return np.asfortranarray(wide[:3, :4])
        return {"rows": wide[:3, :4].copy(), "strided": wide[::2, ::2], "part": wide[1:4, 2:6]}[how]

    x = array()
    return x, chosen.choice([x, x[::1], array(), array(), array()]), chosen.randrange(2)


def run(lines: list[str], seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """What each of three calls shows, and leaves."""
    space: dict[str, Any] = {"np": np, "__name__": f"program_{seed}"}
    exec(compile(source(lines), f"<arrays {seed}>", "exec"), space)
    function, seen = wrap(space["function"]), []
    for call in range(3):
        x, y, i = arguments(seed if call < 2 else seed + 50_000_000)
        space["KEPT"].clear()
        try:
            found = list(function(x, y, i))
        except Exception as error:
            found = [type(error), str(error)]
        arrays = [a for a in (x, y, *found, *space["KEPT"]) if isinstance(a, np.ndarray)]
        alike = [(a is b, np.shares_memory(a, b)) for k, a in enumerate(arrays) for b in arrays[:k]]
        seen.append([found, x, y, list(space["KEPT"]), alike])
    return seen


def difference(expected: Any, found: Any, path: str = "") -> str | None:
    """Where two results differ first, or None."""
    if type(expected) is not type(found):
        return f"{path}: {expected!r} expected, found {found!r}"
    if isinstance(expected, (list, tuple)):
        if len(expected) != len(found):
            return f"{path}: length {len(expected)} expected, found {len(found)}"
        each = enumerate(zip(expected, found, strict=True))
        return next((d for k, (a, b) in each if (d := difference(a, b, f"{path}[{k}]"))), None)
    if isinstance(expected, (np.ndarray, np.generic)):
        facts = [(a.dtype, a.shape, _strides(a), a.flags.writeable) for a in (expected, found)]
        if facts[0] != facts[1]:
            return f"{path}: {facts[0]} expected, found {facts[1]}"
        is_near = np.allclose(expected, found, _tolerance(expected.dtype), 1e-5, equal_nan=True)
        return None if is_near else f"{path}: {expected!r} expected, found {found!r}"
    if isinstance(expected, float) and np.isclose(expected, found, 1e-4, equal_nan=True):
        return None
    return None if expected == found else f"{path}: {expected!r} expected, found {found!r}"


def _tolerance(dtype: Any) -> float:
    """Numbers of 64 bits are made of some of 32."""
    return 5e-3 if dtype == np.float16 else 1e-4 if dtype.kind == "f" else 0.0


def _strides(array: Any) -> Any:
    return [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1 and array.size]


def compare_lines(lines: list[str], seed: int, backend: str = "numpy") -> str | None:
    """The first difference between NumPy's run of a program and the compiled one, or None."""
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(lines, seed, lambda function: function)
        actual = run(lines, seed, lambda function: dj.compile(function, backend=backend))
        dj.reset()
    found = difference(expected, actual)
    return f"program {seed}: {found}" if found else None


def compare(seed: int, backend: str = "numpy") -> str | None:
    return compare_lines(body(seed), seed, backend)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, lambda seed: source(body(seed))))
