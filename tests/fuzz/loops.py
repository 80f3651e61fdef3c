"""Random loops: what turns change, read, collect and leave mixed, ended by a range, a number or a
tensor; over tensors, or over NumPy's arrays.

`text(seed)` gives the program; the same seed gives the same one. `compare(seed)` runs it eagerly
and compiled, twice, and returns what differs, or None: values, types, strides, which results are
one object or share memory, what the arguments hold afterwards, and errors.
`python tests/fuzz/loops.py --first 0 --count 1000` compares many; `--show N` prints one.
`compare_gradients(seed)` compares the gradients of results, with some arguments that need them;
`compare_counts(seed)` those of one compiled program for several numbers of turns.
"""

import contextlib
import io
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dynajit as dj
from tests.fuzz.command import compare_many

#: `$a` is a tensor, `$i` the counter.
COMMON = [
    "$a = $a * 0.5 + $a", "$a = $a * 0.3 + $i", "$a = dj.tanh($a) + t", "$a = $a", "a, b = b, a",
    "$a = xs[$i % 7]", "$a = xs[($i * 3 + 1) % 7] * 0.5", "$a = xs[min($i, 6)]", "t = k * 0.1",
    "$a = $a.flip(0) * 0.9", "$a = $a[:]", "$a = $a.view(-1)", "k = k + 1", "k = k - 1", "k = $i",
    "t = t * 0.5 + 0.25", "d = $a + 1", "$a = d * 0.5", "p = ($a, $a * 0.5)", "$a = p[0] * 0.7",
    "$a = dj.where($a > 0.5, $a * 0.5, $a)", "$a = $a.clone()", "$a = $a - 1", "$a = p[1]",
    "out.append($a)", "out.append($a * 0.5)", "lst.append(($a, $i))", "out.append(d)",
    "w[$i] = $a", "w[$i] += $a", "w[$i, 1:3] = $a[1:3]", "w[:, $i % 5] = t", "w[$i] = w[$i] + $a",
    "$a[1:-1] = $a[2:] * 0.5", "$a = w[$i] * 0.5", "w[$i - 1] = $a", "w[$i] = $a; w[$i] *= $i",
    "w[$i % 7, $i % 5] = k", "$a *= 0.5", "w[$i] = xs[$i % 7]", "$a = v * 0.5", "v += 0.1",
    "$a = $a * 0.5 + x", "$a = x * $i - y", "out.append(x * 0.5)", "$a = $a + x",
]  # fmt: skip
#: Slices that follow the counter.
WINDOWS = [
    "$a = w[$i:$i + 2].sum(0) * 0.1 + $a", "w[$i:$i + 3] = $a", "w[$i:$i + 2] += $a", "w[$i] = $a",
    "w[2 * $i:2 * $i + 2, 1:3] *= 0.5", "$a = $a * 0.5 + w[$i + 1:$i + 3, $i % 5].sum()",
    "z = w[$i:$i + 2]; z[0] = $a", "out.append(w[$i:$i + 2].clone())", "out.append(w[$i:$i + 2])",
    "$a = $a + w[-$i - 4:-$i - 2].sum(0) * 0.1", "w[$i - 1:$i + 1] = $a * 0.5", "z = w[$i:$i + 4]",
    "$a = $a * 0.5 + z[1:3, :].sum(0)", "w[$i:$i + 2] = w[$i + 2:$i + 4] + 0.5", "$a = z[0] * 0.5",
    "w[3 * $i:3 * $i + 3] = xs[:3]", "$a = xs[$i % 5:$i % 5 + 2].sum(0) * 0.5 + $a", "z += 0.25",
    "w[:, $i % 3:$i % 3 + 2] += k", "$a = $a * 0.5 + w[$i:$i + 5:2].sum(0)", "w[k:k + 2] = $a",
    "$a = $a + xs[r % 4:r % 4 + 3].sum(0) * 0.1", "w[$i * $i:$i * $i + 2] = $a", "z = w[k:$i + 3]",
    "$a = $a * 0.5 + w[[1, 3], $i % 3:$i % 3 + 2].sum()", "w[$i:$i + 3, [0, 2]] = k",
]  # fmt: skip
RARE = [
    "$a[0] = $i * 0.1",
    "$a[$i % 5] += 1",
    "w[$i] = v",
    "v = w[$i]",
    "x += 1",
    "out.append(x)",
    "ys[$i] = $a",
    "out.append(w[$i].clone())",
    "lst.append($a)",
    "if $i % 5 == 3: $a = $a + 1",
    "if $i == 25: break",
    "if $a.sum() < 0.01: break",
    "obj.x = $a",
    "$a = (lambda: a * 0.5)()",
    "lst.append((k, t))",
    "obj.seen.append($a)",
    "out.append($a[1:4])",
    "if len(out) > 20: $a = out[-1] * 0.5",
    "out.append(xs[$i % 7])",
]
#: Of programs that ask tensors for numbers, and keep long lists.
ASKING = [
    "s += $a[1].item()", "s = float($a[0])", "r += int($a.argmax())", "s = $a.max().item() - s",
    "lst.append(($a.max().item(), $i))", "out.append($a)", "$a = $a * s * 0.1",
    "$a = $a * 0.5 + float($a[2])", "s, e = e, $a[3].item()", "r = ($a > 0.5).sum().item() - r",
    "w[$i % 7, 1] = s", "$a = xs[r % 7] * 0.5", "e = s * 0.5 + e", "lst.append(s)",
    "lst.append((r, e, $a))", "if $a[0].item() > 0.5: s = s * 0.5", "if s > e: e = s; r = $i",
    "if s > 0.9: $a = $a * 0.5", "obj.seen.append($a[1].item())", "obj.seen.append(($a, $i))",
    "if s > 1e3: break", "if r > 40: break", "w[r % 5] = $a", "q += (s > e) + 0", "lst.append($a)",
]  # fmt: skip
#: Of programs that keep things in objects, containers and tuples, and write texts.
KEEPING = [
    "obj.n += 1", "obj.h = obj.h * 0.5 + $a", "$a = obj.h * 0.5", "obj.t += 0.25", "obj.h = $a",
    "obj.last = $i", "dct['h'] = dct['h'] * 0.5 + $a", "dct['k'] += 2", "$a = dct['h'] * 0.5",
    "dct['k'] = $i", "kept[0] = $a * 0.5", "kept[1] += 1", "$a = kept[0] + 0.1", "kept[$i % 3] = 1",
    "kept[0], kept[2] = kept[2], kept[0]", "st = (st[1], $a * 0.5)", "$a = st[0] * 0.9", "o2 = st",
    "st = (st[0] * 0.5, st[1] + $a)", "obj.st = ($a, $i)", "obj.n = obj.n * 2 - $i", "$a = obj.h",
    "print($i, $a)", "print(f'{$i}: {$a.sum():.6f}')", "print(obj.n, dct['k'])", "obj.h *= 0.5",
    "print('at', $i, obj.t, [kept[1], ($i, 1)], end=' ')", "m2 = f'{$i}'; print(m2, str(obj.n))",
    "print('%d %s' % ($i, obj.n), '{} {:.3f}'.format($i, $a.max()))", "obj.h = obj.h + obj.n * 0.1",
    "$a = $a * rates[$i % 3]", "obj.flag = not obj.flag", "if $i == 0: $a = $a + 3", "on = not on",
    "if $i > 1: $a = $a * 0.9", "$a = $a * (0.5 if on else 0.7)", "st = ($a, on); $a = st[0]",
    "if $i == $z: $a = obj.h + d", "if $i < 1: $a = $a - k", "if $i >= $z: t = k; obj.t = obj.n",
    "if $i == 2: $a = st[0]; k = kept[1]", "o2 = ($a, t)", "d = $a * 0.5; k = $i",
    "dct[$i % 3] = $a", "obj.late = $i", "kept[2] = obj.h", "obj.flag = not obj.flag",
]  # fmt: skip
#: What these begin with.
KEPT = [
    "st = o2 = (a, b * 0.5); dct = {'h': b * 0.5, 'k': 1}; kept = [a, 0, b + 0]",
    "rates = [0.25, 0.5, 0.75]; on = True",
    "obj.h = a * 0.5; obj.n = 0; obj.t = 0.5; obj.st = 0; obj.flag = False",
]
#: By how much a number in a text may be off: by the last digit that is shown.
SHOWN = 2e-3

#: Of programs that draw random numbers.
DRAWING = [
    "$a = $a * 0.5 + dj.rand(5, dtype=dj.float64)", "$a = $a + 0.1 * dj.randn_like($a)",
    "$a = dj.nn.functional.dropout($a, 0.3, True)", "$a = dj.bernoulli($a.clamp(0, 1)) * $a + 0.1",
    "$a = $a + xs[dj.randint(0, 7, (2,))].sum(0) * 0.1", "$a = $a[dj.randperm(5)]",
    "$a = $a.clone().normal_() * $i", "$a = $a * dj.rand(()) + dj.rand(1)", "dj.rand(3)",
    "w[$i] = dj.randn(5, dtype=dj.float64)", "w[$i, dj.randint(0, 5, (1,))] += 1.0",
    "out.append(dj.rand(5, dtype=dj.float64) * $a)", "d = dj.rand(5, dtype=dj.float64) + d * 0.5",
    "$a = $a + dj.multinomial(xs[$i % 7], 2).sum() * 0.1", "$a.uniform_()", "y = dj.rand_like(x)",
    "$a = $a + dj.rand(1 + $i % 2, dtype=dj.float64)", "t = dj.rand(1).item()", "dj.manual_seed(k)",
    "$a = dj.vmap(lambda z: z + dj.rand(()), randomness='different')($a)",
]  # fmt: skip
#: What a branch on data asks, and its forms.
CONDITIONS = [
    "$a.sum() > 1.5", "$a[0] > 0.5", "$a[$i % 5] < $a[1]", "xs[$i % 7, 2] > 0.5 and $a[1] < 1",
    "not $a[2] < 0.7", "$a.sum() > t or xs[$i % 7, 0] > 0.6", "$a.sum()", "u != 0", "u < 2.5",
    "($a[0] - $a[0]) / ($a[1] - $a[1]) > 0", "xs[$i % 7, 1] < xs[3, $i % 5] < 0.9",
]  # fmt: skip
#: Of loops over ranges whose lengths vary.
COUNTED = [
    "$a = $a * 0.5 + $a", "$a = $a * 0.3 + $i", "$a = dj.tanh($a) * $a", "a, b = b, a * 0.9",
    "$a = xs[$i % 7] * $a", "$a = $a.flip(0) * 0.9", "$a = $a.detach() + $a * 0.3", "k = k + 2",
    "$a = $a * $a.sum() * 0.1", "d = $a + 1; $a = d * 0.5", "$a = $a * 0.9 + $a * b.max()",
    "if $a.sum() > 1.5: $a = $a * 0.5", "$a = dj.sin($a) * k", "c = a * b",
]  # fmt: skip
BRANCHES = [
    "if $c: $s", "if $c: $s\n else: $s", "if $c: $s\n else: $s", "if $c:\n  $s\n  $s",
    "if $c: $s\n elif $c: $s\n else: $s", "if $c: continue", "$a = $a * 0.5 if $c else $a + 0.1",
    "$a = $a * (0.5 if $c else 0.7)", "u = 6 // u + 1 if u != 0 else u + 3",
    "if u != 0: u = 12 // u\n else: u = u + 2", "if $c: u = u + 1", "$a = pick($a, $i)",
    "if $c: u = ns[u % 7]", "if u < 7: u = ns[u] + 1", "m = $a.sum(); m = m if m < 2 else m * 0.5",
    "if $c:\n  if $c: $s\n  else: $s\n else: $s", "if $c: d = $a * 0.5; $a = d + 1",
    "if $c: n += 1", "if $c: n += 2\n else: n = $i", "if $c: n = n * 2 - $i; f = not f",
    "if n > 5: $a = $a * 0.5", "if $c: w[n % 5, 1] += 1", "$a = $a + n * 0.5 if $c else $a",
    "if $c:\n  for h in range(3): w[h] += $a",
]  # fmt: skip
HELPER = """
def pick(x, i):
 if x.sum() > 2.0: return x * 0.5
 y = x + 0.25
 return y
"""
HEADS = [
    ["for i in range({n}):"], ["for i in range({n}):"], ["for i in range({m}, 2, -3):"],
    ["for i, x in enumerate(ys[:{n}]):"], ["for x in ys[:{n}]:"],
    ["for x, i in zip(ys[:{n}], range({m}, 2, -3)):"], ["for i in reversed(range({n})):"],
    ["for i, (x, y) in enumerate(zip(ys, reversed(list(w[:{n}])))):"],
    ["a = a + 1", "while a.abs().sum() > 2.0 and q < 40:", " a = a * 0.7; q += 1"],
    ["c = c + 1", "while c.abs().sum() > 0.5:", " c = c * 0.7; q += 2", " if q > 60: break"],
    ["while i < {n}:", " i += 1"], ["while i < {m}:", " i += 3"],
    ["i = {n}", "while i:", " i -= 1"], ["g = 1", "while g < 10**9:", " g *= 3; i += 1"],
    ["g = 0", "while True:", " if g == {n}: break", " g += 1; i = g * 2"],
    ["g = 0.0", "while g < 2.0 and i < {m}:", " g += 0.1; i += 1"],
    ["g = {m}", "while not g < 3:", " g -= 3; i = g"],
    ["b = b.clone()", "while q < 40 and b.abs().sum() > 0.5:", " b = b * 0.7; q += 1"],
]  # fmt: skip


#: What a function may return of the tensors that were collected.
JOINED = ["out", "dj.stack(out) if out else 0", "dj.cat(out) if out else 0", "out[-5:]", "obj.seen",
          "dj.stack([*out[3:], a, b], 1) if out else 0"]  # fmt: skip

#: The same for arrays of NumPy's.
NUMPY = {
    "dj.": "np.", ".flip(0)": "[::-1].copy()", ".view(-1)": ".reshape(-1)", ".clone()": ".copy()",
    "np.cat": "np.concatenate", ".abs()": ".__abs__()",
}  # fmt: skip


class Holder:
    """Something with attributes."""

    def __init__(self) -> None:
        self.seen: list[Any] = []


def text(seed: int, varies: bool = False) -> str:
    """The program.

    Args:
        varies: it goes over a range whose length is an argument.
    """
    chosen = random.Random(seed)

    asks = asks_for_numbers(seed) and not varies

    def statement(counter: str) -> str:
        usual = COUNTED if varies else ASKING if asks and chosen.random() < 0.6 else COMMON
        usual = KEEPING if keeps(seed) and not varies and chosen.random() < 0.6 else usual
        usual = WINDOWS if slices(seed) and not varies and chosen.random() < 0.5 else usual
        usual = DRAWING if draws(seed) and chosen.random() < 0.4 else usual
        found = chosen.choice(usual if chosen.random() < (0.97 if varies else 0.85) else RARE)
        while "$a" in found:
            found = found.replace("$a", chosen.choice("abc"), 1)
        return found.replace("$i", counter).replace("$z", str(turns - 1))

    turns = chosen.choice([20, 30, 80] if asks else [17, 18, 20, 23, 30])
    lines = [
        "k = q = 1; t = 0.5; d = xs[0] + 1; p = (a, b); lst = []; out = []; i = 0",
        f"w = dj.zeros(({max(91, 3 * turns + 1)}, 5), dtype=dj.float64); v = w[4]",
        "x = y = d; ys = w + 0.25",
    ]
    lines += ["s = 0.5; e = float(1); r = 0"] * asks
    lines += ["z = w[5:7]; r = 0"] * slices(seed)
    is_keeping = keeps(seed) and not varies
    lines += KEPT * is_keeping
    if chosen.random() < 0.5:
        lines.append("a = a + 1; b = b * 0.5")
    head = chosen.choice(HEADS)
    lines += [line.format(n=turns, m=3 * turns) for line in head if not varies]
    counted = ["for i in range(count):"] if seed % 2 else ["while i < count:", " i += 1"]
    lines += counted if varies else []
    lines += [" " + statement("i") for _ in range(chosen.randint(1, 5))]
    has_branches = seed % 4 == 2
    if has_branches:
        number = ("np.int64({})" if is_of_arrays(seed) else "dj.tensor({})").format
        lines.insert(2, f"n = 0; f = False; u = {number(3)} + 0; m = a.sum(); ns = xs[:, 0] * 7")
        lines.insert(3, "ns = ns.astype(np.int64)" if is_of_arrays(seed) else "ns = ns.long()")
        for _ in range(chosen.randint(1, 3)):
            lines += (" " + branch(chosen, statement)).split("\n")
    if chosen.random() < 0.2:
        lines += [" for j in range(18):", "  " + statement("j").replace("break", "pass")]
    if chosen.random() < 0.3 and not has_branches:
        lines.append(" if a.abs().sum() < 0.5: break")
    names = chosen.sample(
        ["a", "b", "c", "k", "t", "i", "d", "p", "lst", "v", "x", "q"], chosen.randint(2, 5)
    )
    names += ["u", "m", "n", "f"] * has_branches + ["s", "e", "r"] * asks
    names += ["on", "st", "o2", "*kept", "*dct.values()"] * is_keeping
    names += [chosen.choice(JOINED)] * any("append" in line for line in lines)
    names += ["z"] * slices(seed)
    names += ["w"] * any("w[" in line or "v" in line for line in lines[3:])
    lines.append(f"return ({', '.join(names)},)")
    found = HELPER * has_branches
    given = "a, b, c, xs, obj, count" if varies else "a, b, c, xs, obj"
    found += "\n".join([f"def function({given}):", *(" " + line for line in lines)]) + "\n"
    if is_of_arrays(seed):
        for own, other in NUMPY.items():
            found = found.replace(own, other)
    return found


def branch(chosen: random.Random, statement: Callable[[str], str]) -> str:
    """An `if` on data, some lines long."""
    found = chosen.choice(BRANCHES)
    while "$c" in found:
        found = found.replace("$c", chosen.choice(CONDITIONS), 1)
    while "$s" in found:
        arm = statement("i")
        found = found.replace("$s", "pass" if arm.startswith("if ") else arm, 1)
    while "$a" in found:
        found = found.replace("$a", chosen.choice("abc"), 1)
    return found.replace("$i", "i")


def asks_for_numbers(seed: int) -> bool:
    """Whether the program asks tensors for numbers of Python's."""
    return seed % 5 == 4


def keeps(seed: int) -> bool:
    """Whether the program keeps things in objects, and writes texts."""
    return seed % 6 in (0, 5)


def slices(seed: int) -> bool:
    """Whether the program takes slices that follow its counter."""
    return seed % 11 in (2, 5, 7)


def draws(seed: int) -> bool:
    """Whether the program draws random numbers."""
    return seed % 7 == 3 and not is_of_arrays(seed)


def is_of_arrays(seed: int) -> bool:
    """Whether the program is one of NumPy's."""
    return seed % 3 == 1


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    else:
        yield value


def gradients(results: list[Any], args: list[Any]) -> list[Any]:
    """The gradients of arguments, of a sum in which each result counts differently."""
    needing = [x for x in results if isinstance(x, dj.Tensor) and x.requires_grad]
    if needing:
        sum(((k + 1) * x * x).sum() for k, x in enumerate(needing)).backward()  # type: ignore[union-attr]
    grads = [getattr(x, "grad", None) for x in args]
    given = [None if grad is None else grad.numpy().copy() for grad in grads]
    kept = [getattr(x, "requires_grad", None) for x in results]
    return [given, kept]


def state(
    function: Callable[..., Any], seed: int, differentiated: bool = False, *count: int
) -> list[Any]:
    """What one call gives, and leaves; or what gradients there are of what it gives."""
    values, holder = np.random.default_rng(seed), Holder()
    args: list[Any] = [values.random(shape) for shape in ((5,), (5,), (5,), (7, 5))]
    args = args if is_of_arrays(seed) else list(map(dj.tensor, args))
    if differentiated and not is_of_arrays(seed):
        for arg in args[seed // 3 % 3 :: 1 + seed % 2]:
            arg.requires_grad_()
    written = io.StringIO()
    dj.manual_seed(seed)
    try:
        with contextlib.redirect_stdout(written):
            found = list(flat(function(*args, holder, *count)))
        if differentiated:
            return gradients(found, args)
    except Exception as error:
        return [type(error).__name__, str(error)]
    shown = [*found, *args, *flat(list(vars(holder).values())), dj.get_rng_state()]
    tensors = [x for x in shown if isinstance(x, (dj.Tensor, np.ndarray))]
    arrays = [np.asarray(x) for x in tensors]
    alike = [
        (tensors[k] is tensors[m], np.shares_memory(arrays[k], arrays[m]))
        for k in range(len(tensors))
        for m in range(k)
    ]
    kept = [type(x) if isinstance(x, (dj.Tensor, np.ndarray)) else x for x in found]
    if asks_for_numbers(seed):  # floats of Python's are rounded as the elements that they come from
        kept = [(float, np.float64(x)) if type(x) is float else x for x in kept]
    return [
        kept,
        [(x.dtype, x.strides, x.copy()) for x in arrays],
        alike,
        parts(written.getvalue()),
    ]


def parts(text: str) -> list[Any]:
    """A text, in which numbers of many digits are rounded as the elements are that they show."""
    found = re.split(r"(-?\d+\.\d*(?:e[-+]\d+)?)", text)
    return [np.float64(part) if place % 2 else part for place, part in enumerate(found)]


def difference(expected: Any, found: Any, path: str = "") -> str | None:
    """Where two states differ first, or None."""
    if isinstance(expected, (list, tuple)) and type(expected) is type(found):
        if len(expected) != len(found):
            return f"{path}: length {len(expected)} expected, found {len(found)}"
        each = enumerate(zip(expected, found, strict=True))
        return next((d for k, (a, b) in each if (d := difference(a, b, f"{path}[{k}]"))), None)
    if isinstance(expected, (np.ndarray, np.floating)) and type(expected) is type(found):
        is_equal = expected.shape == found.shape and np.allclose(
            expected, found, 1e-9, SHOWN if path.startswith("[3]") else 1e-12, equal_nan=True
        )
    else:
        is_equal = type(expected) is type(found) and expected == found
    return None if is_equal else f"{path}: {expected!r} expected, found {found!r}"


def compare_text(
    program: str, seed: int, backend: str = "numpy", differentiated: bool = False
) -> str | None:
    """The first difference between the eager and the compiled run of a program, or None."""
    space: dict[str, Any] = {"dj": dj, "np": np, "__name__": f"loops_{seed}"}
    exec(compile(program, f"<loops {seed}>", "exec"), space)
    function = space["function"]
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = state(function, seed, differentiated)
        options = {"activation_memory_budget": 0.0} if differentiated and seed % 4 == 3 else None
        compiled = dj.compile(function, backend=backend, options=options)
        told = [difference(expected, state(compiled, seed, differentiated)) for _ in range(2)]
        dj.reset()
    found = told[0] or told[1]
    return f"program {seed}: {found}" if found else None


def compare_counts(seed: int) -> str | None:
    """The first difference between the gradients of eager and compiled runs, or None."""
    if is_of_arrays(seed):
        return None
    space: dict[str, Any] = {"dj": dj, "np": np, "__name__": f"loops_{seed}"}
    exec(compile(text(seed, True), f"<loops {seed}>", "exec"), space)
    function = space["function"]
    with dj.config.override(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = dj.compile(function)
        told = [
            difference(state(function, seed, True, n), state(compiled, seed, True, n))
            for n in (20, 26, 17, 31, 3)
        ]
        dj.reset()
    found = next(filter(None, told), None)
    return f"program {seed}: {found}" if found else None


def compare(seed: int, backend: str = "numpy") -> str | None:
    return compare_text(text(seed), seed, backend)


def compare_gradients(seed: int, backend: str = "numpy") -> str | None:
    if is_of_arrays(seed):
        return None
    return compare_text(text(seed), seed, backend, differentiated=True)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, text))
