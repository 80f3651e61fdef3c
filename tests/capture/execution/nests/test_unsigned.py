"""Unsigned integers wrap as NumPy's in nests, and arrays of them are computed with there only."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_views import as_nest
from tests.end_to_end.loops.nests.test_nests import outcome, same

pytestmark = pytest.mark.one_python

KINDS = {"uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64}


def fnv(rows):
    out = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        h = np.uint32(2166136261)
        for j in range(rows.shape[1]):
            h = (h ^ np.uint32(rows[i, j])) * np.uint32(16777619)
        out[i] = h
    return out


def xorshift(n):
    out = np.zeros(n)
    x = np.uint64(88172645463325252)
    for i in range(n):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        out[i] = x / np.uint64(18446744073709551615)
    return out


def splitmix(n):
    out = np.zeros(n)
    s = np.uint64(42)
    for i in range(n):
        s += np.uint64(0x9E3779B97F4A7C15)
        z = (s ^ (s >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return out


def linear(n):
    out = np.zeros(n, np.int64)
    x = np.uint64(7)
    for i in range(n):
        x = x * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        out[i] = int(x >> np.uint64(33)) % 6
    return out


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (fnv, (np.arange(30).reshape(6, 5),)),
        (xorshift, (40,)),
        (splitmix, (40,)),
        (linear, (40,)),
    ],
)
def test_hashes_and_generators_are_those_of_numpy(function: Any, args: tuple[Any, ...]) -> None:
    with np.errstate(all="ignore"):
        assert same(outcome(function, args), as_nest(function, args))


SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "and_": "&", "or_": "|",
    "xor": "^", "lt": "<", "ge": ">=", "eq": "==",
}  # fmt: skip


@pytest.mark.parametrize("first", [2, -1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_operators_of_unsigned_numbers(kind: str, first: int) -> None:
    """Of small, middle and largest numbers, by halves that an int64 holds."""
    most = int(np.iinfo(KINDS[kind]).max)
    numbers = (most // 2 + 1, 1, 2, most // 2, most - 1, most)
    lines = ["def function(out):", "    for i in range(4):"]
    for row, number in enumerate(numbers):
        lines.append(f"        x, y = np.{kind}({numbers[first]}), np.{kind}({number})")
        for column, sign in enumerate(SIGNS.values()):
            lines.append(f"        v = np.uint64(x {sign} y)")
            lines.append(f"        out[{row}, {column}, 0] = v >> np.uint64(32)")
            lines.append(f"        out[{row}, {column}, 1] = v & np.uint64(4294967295)")
    space: dict[str, Any] = {"np": np}
    exec("\n".join(lines), space)
    found = np.zeros((len(numbers), len(SIGNS), 2), np.int64)
    with np.errstate(all="ignore"):
        dj.compile(space["function"], fullgraph=True)(found)
        for row, number in enumerate(numbers):
            x, y = KINDS[kind](numbers[first]), KINDS[kind](number)
            for column, name in enumerate(SIGNS):
                high, low = found[row, column].tolist()
                assert int(getattr(operator, name)(x, y)) == high << 32 | low


def of_a_negative_int(x):
    for i in range(len(x)):
        x[i] = np.uint32(7) + int(x[i] - 3)
    return x


def as_an_index(x):
    for i in range(len(x)):
        x[i] += x[np.uint64(18446744073709551615) - np.uint64(i)]
    return x


def as_an_int(x):
    for i in range(len(x)):
        x[i] += int(np.uint64(18446744073709551615) - np.uint64(i)) % 7
    return x


def beside_signed(x):
    for i in range(len(x)):
        x[i] += np.uint64(3) > np.int64(-1)
    return x


def left_behind(x):
    h = np.uint32(1)
    for i in range(len(x)):
        h = h * np.uint32(31) + np.uint32(i)
        x[i] += 1
    return x, h


@pytest.mark.parametrize(
    "function", [of_a_negative_int, as_an_index, as_an_int, beside_signed, left_behind]
)
def test_what_nests_do_not_do_is_done_by_plain_python(function: Callable[..., Any]) -> None:
    args = (np.arange(6.0),)
    with np.errstate(all="ignore"):
        assert same(outcome(function, args), outcome(dj.compile(function), args))


def checksum(data, table):
    c = np.uint32(0xFFFFFFFF)
    for i in range(len(data)):
        c = table[(c ^ data[i]) & np.uint32(0xFF)] ^ (c >> np.uint32(8))
    return c


def shifted_register(state, out):
    for i in range(len(out)):
        x = state[0]
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        state[0] = x
        out[i] = x


def congruences(seeds, _):
    found = np.zeros(len(seeds), np.uint32)
    for i in range(len(seeds)):
        s = seeds[i]
        for _ in range(3):
            s = s * np.uint32(1664525) + np.uint32(1013904223)
        found[i] = s
    return found, found[1:], found[0]


def histogram(image, _):
    found = np.zeros(256, np.uint64)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            found[image[i, j]] += 1
    return found


def rows(a, b):
    for i in range(1, len(a)):
        a[i] = (a[i] ^ (b[i - 1] << 1)) * 3
    return a


def among_floats(a, x):
    for i in range(len(a)):
        x[i] += a[i] * 0.5 - a[i] / 3
    return x


def random(shape, dtype):
    top = np.iinfo(dtype).max
    return np.random.default_rng(3).integers(0, top, shape, dtype=dtype, endpoint=True)


ARRAYS = [
    (checksum, (random(20, np.uint8), random(256, np.uint32))),
    (checksum, (random(20, np.uint32), random(256, np.uint32))),
    (shifted_register, (random(2, np.uint64), np.zeros(9, np.uint64))),
    (congruences, (random(9, np.uint32), 0)),
    (histogram, (random((7, 8), np.uint8), 0)),
    *((rows, (random((6, 5), d), random((6, 5), d))) for d in KINDS.values()),
    *((among_floats, (random(9, d), np.zeros(9))) for d in KINDS.values()),
    *((among_floats, (random(9, d), np.zeros(9, np.float32))) for d in KINDS.values()),
]


@pytest.mark.parametrize(("function", "args"), ARRAYS)
def test_arrays_of_unsigned_integers_are_read_and_written(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    with np.errstate(all="ignore"):
        assert same(outcome(function, args), as_nest(function, args))


def computed(a):
    """Each line is left to NumPy, or moves elements."""
    return (
        a + 1, a[::2], a.T * a, a.sum(), a.max(), a >> 3, a // 7, a == 3, a.astype(np.float64),
        a.astype(np.int64), np.sort(a, axis=None), a.argmax(), a.mean(), np.concatenate([a, a]),
        a.reshape(-1),
        np.where(a > 4, a, 0), a[a > 5], -a, ~a, a[0, 1], float(a[1, 1]), int(a[0, 0]), a.copy(),
        np.zeros_like(a), np.cumsum(a), np.minimum(a, 9), np.stack([a, a]), a.tolist(), a < a.T,
        np.flip(a), a.any(), np.dot(a, a), a / 2, a**2, np.roll(a, 1), np.unique(a), a[[0, 1]],
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_whole_arrays_of_unsigned_integers_are_those_of_numpy(kind: str) -> None:
    compiled = dj.compile(computed)
    for a in (random((3, 3), KINDS[kind]), np.arange(9, dtype=KINDS[kind]).reshape(3, 3)):
        with np.errstate(all="ignore"):
            expected, actual = computed(a), compiled(a)
        for number, (x, y) in enumerate(zip(expected, actual, strict=True)):
            assert same(x, y), number
