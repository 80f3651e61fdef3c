"""Python numbers that differ from call to call: few versions, and exactly Python's results.

`FORMS` are programs with an int that counts; each is called forty times. `HARD` gets numbers of all
kinds, in two orders: beyond 64 bits, infinities and NaN, enums, bools, and what is no number.
"""

import enum
import math
import operator
import random
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
from dynajit.nn import functional as F

#: What one call after another gives a function is compiled at most so often.
MOST_VERSIONS: Final = 3

Form = Callable[[Any, Any], Any]

FORMS: Final[dict[str, Form]] = {
    "i % 10 == 0": lambda x, i: x + 1 if i % 10 == 0 else x * 2,
    "i % 2": lambda x, i: x * (i % 2),
    "i // 3": lambda x, i: x * (i // 3),
    "0.9 ** i": lambda x, i: x * 0.9**i,
    "i ** 2": lambda x, i: x * i**2,
    "2 ** i": lambda x, i: x * (2.0**i),
    "(i+1) ** -1": lambda x, i: x * (i + 1) ** -1,
    "i << 1": lambda x, i: x * (i << 1),
    "i >> 1": lambda x, i: x * (i >> 1),
    "i & 7": lambda x, i: x * (i & 7),
    "i | 8": lambda x, i: x * (i | 8),
    "i ^ 5": lambda x, i: x * (i ^ 5),
    "~i": lambda x, i: x * ~i,
    "-i": lambda x, i: x * -i,
    "+i": lambda x, i: x * +i,
    "1 / (i + 1)": lambda x, i: x * (1 / (i + 1)),
    "abs(i - 20)": lambda x, i: x * abs(i - 20),
    "int(i * 0.5)": lambda x, i: x * int(i * 0.5),
    "float(i)": lambda x, i: x * float(i),
    "float(i) ** 0.5": lambda x, i: x * float(i) ** 0.5,
    "round(i / 7)": lambda x, i: x * round(i / 7),
    "round(i / 7, 2)": lambda x, i: x * round(i / 7, 2),
    "min(1, (i + 1) / 10)": lambda x, i: x * min(1.0, (i + 1) / 10),
    "max(i, 5)": lambda x, i: x * max(i, 5),
    "min(max(i, 5), 30)": lambda x, i: x * min(max(i, 5), 30),
    "divmod(i, 7)": lambda x, i: x * divmod(i, 7)[0] + divmod(i, 7)[1],
    "pow(i, 2)": lambda x, i: x * pow(i, 2),
    "pow(3, i, 7)": lambda x, i: x * pow(3, i, 7),
    "math.cos(i / 40)": lambda x, i: x * math.cos(i / 40),
    "math.sqrt(i)": lambda x, i: x * math.sqrt(i),
    "math.exp(-i)": lambda x, i: x * math.exp(-i),
    "math.log(i + 1)": lambda x, i: x * math.log(i + 1),
    "math.log(i + 1, 2)": lambda x, i: x * math.log(i + 1, 2),
    "math.floor(i / 3)": lambda x, i: x * math.floor(i / 3),
    "math.ceil(i / 3)": lambda x, i: x * math.ceil(i / 3),
    "math.pow(i, 2)": lambda x, i: x * math.pow(i, 2),
    "math.fmod(i, 7)": lambda x, i: x * math.fmod(i, 7),
    "math.gcd(i, 12)": lambda x, i: x * math.gcd(i, 12),
    "math.isqrt(i)": lambda x, i: x * math.isqrt(i),
    "math.hypot(i, 3)": lambda x, i: x * math.hypot(i, 3),
    "math.atan2(i, 3)": lambda x, i: x * math.atan2(i, 3),
    "math.tanh(i)": lambda x, i: x * math.tanh(i),
    "math.pi * i": lambda x, i: x * (math.pi * i),
    "math.trunc(i / 2)": lambda x, i: x * math.trunc(i / 2),
    "math.copysign(i, -1)": lambda x, i: x * math.copysign(i, -1),
    "i.bit_length()": lambda x, i: x * i.bit_length(),
    "(i / 2).is_integer()": lambda x, i: x * 2 if (i / 2).is_integer() else x,
    "i % 3 in (0, 1)": lambda x, i: x * 2 if i % 3 in (0, 1) else x,
    "i in (3, 5)": lambda x, i: x * 2 if i in (3, 5) else x,
    "i in range(5, 20)": lambda x, i: x * 2 if i in range(5, 20) else x,
    "0 <= i < 20": lambda x, i: x * 2 if 0 <= i < 20 else x,
    "not i % 5": lambda x, i: x * 2 if not i % 5 else x,
    "i and 3": lambda x, i: x * (i and 3),
    "bool(i % 4)": lambda x, i: x * 2 if bool(i % 4) else x,
    "i / 40 < 0.5": lambda x, i: x * 2 if i / 40 < 0.5 else x,
    "math.cos(i) > 0": lambda x, i: x * 2 if math.cos(i) > 0 else x,
    "math.isclose": lambda x, i: x * 2 if math.isclose(i / 3, 4.0) else x,
    "i == 7": lambda x, i: x * 2 if i == 7 else x,
    "list[i % 3]": lambda x, i: x * [1.0, 2.0, 3.0][i % 3],
    "tuple[i & 1]": lambda x, i: x * (1.0, 2.0)[i & 1],
    "x[i % 3]": lambda x, i: x[i % 3] * 2,
    "x[i]": lambda x, i: x[i // 20] * 2,
    "x[i:]": lambda x, i: x[i % 2 :] * 2,
    "x[-1 - i % 3]": lambda x, i: x[-1 - i % 3] * 2,
    "x.select": lambda x, i: x.select(0, i % 3),
    "narrow": lambda x, i: x.narrow(0, i % 2, 2),
    "clamp(-i, i)": lambda x, i: x.clamp(-i, i),
    "full((3,), i)": lambda x, i: x + dj.full((3,), i),
    "full_like": lambda x, i: x + dj.full_like(x, i),
    "add(alpha=i)": lambda x, i: x.add(x, alpha=i),
    "roll(x, i)": lambda x, i: x.roll(i),
    "lerp": lambda x, i: x.lerp(x * 2, i / 40),
    "leaky_relu": lambda x, i: F.leaky_relu(-x, i / 40),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, i),
    "where": lambda x, i: dj.where(x > 0, i, x),
    "where(x > i)": lambda x, i: dj.where(x > i, x, 0.0),
    "elu": lambda x, i: F.elu(-x, i / 40),
    "tensor(i)": lambda x, i: x + dj.tensor(i),
    "tensor([i, i])": lambda x, i: x.sum() + dj.tensor([i, i + 1]),
    "addcmul": lambda x, i: dj.addcmul(x, x, x, value=i),
    "softplus": lambda x, i: F.softplus(x, beta=i + 1),
    "arange(i)": lambda x, i: dj.arange(i + 2).sum() + x,
    "ones(i)": lambda x, i: dj.ones(i + 2).sum() + x,
    "zeros(i//2)": lambda x, i: dj.zeros(i // 2 + 2).sum() + x,
    "sum of ints": lambda x, i: x * sum([i, 1, 2]),
    "sum of range": lambda x, i: x * sum(range(i % 3)),
    "x ** i": lambda x, i: x ** (i / 7),
    "x // (i+1)": lambda x, i: x // (i + 1),
    "x % (i+1)": lambda x, i: x % (i + 1),
    "cosine lr": lambda x, i: x - 0.1 * 0.5 * (1 + math.cos(math.pi * i / 40)) * x,
    "warmup": lambda x, i: x * (i / 10 if i < 10 else 0.5 * (1 + math.cos((i - 10) / 30))),
    "int(math.log2)": lambda x, i: x * int(math.log2(i + 1)),
    "operator.mod": lambda x, i: x * operator.mod(i, 7),
    "returned": lambda x, i: (x * 2, i % 7, i / 3),
    "list": lambda x, i: (x * 2, [i * 2, {"a": i // 2}]),
    "gelu-like": lambda x, i: x.pow(2).mul(i % 5).add(i % 7),
    "f-string": lambda x, i: (x * 2, f"step {i % 3}"),
    "i is None": lambda x, i: x if i is None else x * i,
    "isinstance": lambda x, i: x * (i % 7) if isinstance(i, int) else x,
    "x[..., i % 3]": lambda x, i: x[..., i % 3] * 2,
    "y[:, i % 3]": lambda x, i: x.repeat(2, 1)[:, i % 3] * 2,
    "range(i % 3)": lambda x, i: sum((x * j for j in range(i % 3)), x),
}


def same(expected: Any, actual: Any) -> bool:
    """Equal values of the same classes; elements up to the rounding of float32."""
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, dj.Tensor):
        a, b = expected.numpy(), actual.numpy()
        is_alike = (a.dtype, a.shape) == (b.dtype, b.shape)
        return is_alike and np.allclose(a, b, rtol=2e-6, atol=1e-7, equal_nan=True)
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return repr(expected) == repr(actual)


def vector() -> Any:
    return dj.tensor([0.5, -1.25, 2.0])


@pytest.mark.parametrize("name", FORMS)
def test_a_number_that_counts_costs_three_versions_at_most(name: str) -> None:
    function = FORMS[name]
    compiled = dj.compile(function)
    for i in range(40):
        assert same(function(vector(), i), compiled(vector(), i)), i

    report = compiled.report()
    assert report.graphs <= MOST_VERSIONS
    assert 0 == len(report.breaks)


def returned(i: Any) -> Any:
    if i < 10:
        return i / 10
    return 0.5 * (1 + math.cos(math.pi * (i - 10) / 30))


def assigned(x: Any, i: Any) -> Any:
    if i % 7 == 3:
        rate = 0.25 - i
    else:
        rate = i / (i % 7 - 3)
    return x * rate


def within_others(x: Any, i: Any) -> Any:
    half, lowest = 10, 0.125
    rates = [
        rate + lowest * i if (i - 1 - half) % (2 * half) == 0 else rate / (i - 1 - half) - lowest
        for rate in (0.5, 1.5)
    ]
    return x * rates[0] + rates[1]


#: A number that a condition on numbers chooses; the other expression may raise.
CHOICES: Final[dict[str, Form]] = {
    "of two": lambda x, i: x * (i / 10 if i < 10 else 10 / i),
    "a divisor": lambda x, i: x * (1.0 if i == 5 else 1 / (i - 5)),
    "not": lambda x, i: x * (math.sqrt(i - 20) if not i < 20 else -i * 1.0),
    "a function": lambda x, i: x * (max(i, 3) if i >= 2 else abs(-i)),
    "in front of more": lambda x, i: x * (2 * (i + 1 if i > 3 else i - 1) + 1),
    "two of them": lambda x, i: x * ((i if i > 3 else -i) + (2 * i if i < 30 else 0)),
    "returned": lambda x, i: x * returned(i),
    "assigned": assigned,
    "within others": within_others,
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_between_numbers_is_one_version(name: str) -> None:
    function = CHOICES[name]
    compiled = dj.compile(function, fullgraph=True)
    for i in range(2, 40):
        assert same(function(vector(), i), compiled(vector(), i)), i

    assert 1 == compiled.report().graphs


def test_an_error_of_what_is_chosen_is_the_programs() -> None:
    def function(x: Any, i: int) -> Any:
        return x * (1 / (i - 7) if i > 3 else i * 0.5)

    compiled = dj.compile(function)
    for i in (2, 6, 7, 8, 3):
        assert same(end_of(function, vector(), i), end_of(compiled, vector(), i)), i


HARD: Final[dict[str, Form]] = {
    "x*(i%3)": lambda x, i: x * (i % 3),
    "i//3": lambda x, i: (x * 1, i // 3),
    "7//i": lambda x, i: (x * 1, 7 // i),
    "1/i": lambda x, i: (x * 1, 1 / i),
    "i%-3": lambda x, i: (x * 1, i % -3),
    "7%i": lambda x, i: (x * 1, 7 % i),
    "i<<2": lambda x, i: (x * 1, i << 2),
    "1<<i": lambda x, i: (x * 1, 1 << i if not (isinstance(i, int) and i > 100) else 0),
    "i>>1": lambda x, i: (x * 1, i >> 1),
    "1>>i": lambda x, i: (x * 1, 1 >> i),
    "i&7": lambda x, i: (x * 1, i & 7),
    "~i": lambda x, i: (x * 1, ~i),
    "-i": lambda x, i: (x * 1, -i),
    "i**2": lambda x, i: (x * 1, i**2),
    "i**-1": lambda x, i: (x * 1, i ** (-1)),
    "i**0.5": lambda x, i: (x * 1, i**0.5),
    "2**i": lambda x, i: (x * 1, 2**i if not (isinstance(i, int) and i > 1000) else 0),
    "abs": lambda x, i: (x * 1, abs(i)),
    "int": lambda x, i: (x * 1, int(i)),
    "float": lambda x, i: (x * 1, float(i)),
    "round": lambda x, i: (x * 1, round(i)),
    "round2": lambda x, i: (x * 1, round(i, 2)),
    "round-1": lambda x, i: (x * 1, round(i, -1)),
    "bool": lambda x, i: x + 1 if i else x - 1,
    "min": lambda x, i: (x * 1, min(i, 3)),
    "max": lambda x, i: (x * 1, max(2.5, i)),
    "divmod": lambda x, i: (x * 1, divmod(i, 4)),
    "divmod2": lambda x, i: (x * 1, divmod(9, i)),
    "sqrt": lambda x, i: (x * 1, math.sqrt(i)),
    "log": lambda x, i: (x * 1, math.log(i)),
    "exp": lambda x, i: (x * 1, math.exp(i)),
    "floor": lambda x, i: (x * 1, math.floor(i)),
    "ceil": lambda x, i: (x * 1, math.ceil(i)),
    "cos": lambda x, i: (x * 1, math.cos(i)),
    "isnan": lambda x, i: (x * 1, math.isnan(i)),
    "gcd": lambda x, i: (x * 1, math.gcd(i, 12)),
    "isqrt": lambda x, i: (x * 1, math.isqrt(i)),
    "fact": lambda x, i: (x * 1, math.factorial(i) if not (isinstance(i, int) and i > 100) else 1),
    "copysign": lambda x, i: (x * 1, math.copysign(1, i)),
    "fmod": lambda x, i: (x * 1, math.fmod(i, 3)),
    "i==1": lambda x, i: x + 1 if i == 1 else x,
    "i<2": lambda x, i: x + 1 if i < 2 else x,
    "i>=2.5": lambda x, i: x + 1 if i >= 2.5 else x,
    "i%2==0": lambda x, i: x + 1 if i % 2 == 0 else x,
    "i*i>5": lambda x, i: x + 1 if i * i > 5 else x,
    "list[i]": lambda x, i: x * [1, 2, 3][i],
    "list[i%3]": lambda x, i: x * [1, 2, 3][i % 3],
    "dict[i]": lambda x, i: x * {0: 1, 1: 2, 2: 3, 3: 4}[i],
    "range": lambda x, i: x * len(range(i if not (isinstance(i, int) and i > 10**18) else 1)),
    "x[i]": lambda x, i: x[i],
    "x[i%3]": lambda x, i: x[i % 3],
    "x[:i]": lambda x, i: x[:i],
    "x*i": lambda x, i: x * i,
    "x+i": lambda x, i: x + i,
    "x/i": lambda x, i: x / i,
    "x**i": lambda x, i: x**i,
    "x>i": lambda x, i: x > i,
    "x*(i*i)": lambda x, i: x * (i * i),
    "x+(i-1)": lambda x, i: x + (i - 1),
    "clamp": lambda x, i: x.clamp(max=i),
    "full": lambda x, i: dj.full((2,), i),
    "bitlen": lambda x, i: (x * 1, i.bit_length()),
    "isint": lambda x, i: (x * 1, i.is_integer()),
    "hex": lambda x, i: (x * 1, hex(i)),
    "str": lambda x, i: (x * 1, str(i)),
    "f": lambda x, i: (x * 1, f"{i:.2f}"),
    "in": lambda x, i: x + 1 if i in (1, 2, 3) else x,
    "in range": lambda x, i: x + 1 if i in range(2, 20, 3) else x,
    "in set": lambda x, i: x + 1 if i in {1, 2} else x,
    "hash": lambda x, i: (x * 1, hash(i) if i == i else 0),
    "is": lambda x, i: (x * 1, type(i)),
    "chained": lambda x, i: x + 1 if 0 < i <= 3 else x,
    "leaky": lambda x, i: dj.nn.functional.leaky_relu(x, i),
    "elu": lambda x, i: dj.nn.functional.elu(x, i),
    "lerp": lambda x, i: x.lerp(x * 2, i),
    "pow3": lambda x, i: (x * 1, pow(i, 3, 7)),
    "roll": lambda x, i: x.roll(i),
    "sum": lambda x, i: (x * 1, sum([i, 1, 0.5])),
    "int div": lambda x, i: x * int(i / 2),
    "where": lambda x, i: dj.where(x > 0, x, i),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, i),
    "cmp2": lambda x, i: x + 1 if i > i * 0.5 else x,
    "math.pow": lambda x, i: (x * 1, math.pow(i, 2)),
    "trunc": lambda x, i: (x * 1, math.trunc(i)),
    "iadd": lambda x, i: (x * 1, operator.iadd(i, 3)),
    "np": lambda x, i: (x * 1, +i),
    "choice": lambda x, i: (x * 1, i / 2 if i < 3 else 2.5 / (i - 3)),
    "choice of classes": lambda x, i: (x * 1, i * 2 if i > 1 else i * 0.5),
    "choice of roots": lambda x, i: (x * 1, math.sqrt(i) if i > 2 else math.log(i)),
    "choice of a literal": lambda x, i: x * (1.0 if i == 2 else -i),
    "choice of large ones": lambda x, i: (x * 1, i * i if i != 1 else float(i)),
}


class Colour(enum.IntEnum):
    """Numbers of a class of their own."""

    RED = 1
    BLUE = 2


NUMBERS: Final = (
    0, 1, 2, 3, -1, -7, 10, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30,
    True, False, 0.0, -0.0, 0.5, -2.5, 1e308, 1e-308, math.inf, -math.inf, math.nan, Colour.RED,
    Colour.BLUE, 1 + 2j, None, "a",
)  # fmt: skip


def end_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives: class and text of its error, or the result."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore:.*NumPy backend:RuntimeWarning")
@pytest.mark.parametrize("name", HARD)
def test_numbers_of_all_kinds_give_what_python_gives(name: str) -> None:
    function = HARD[name]
    shuffled = random.Random(1).sample(NUMBERS, len(NUMBERS))
    for numbers, backend in ((NUMBERS, "native"), (shuffled, "eager")):
        compiled = dj.compile(function, backend=backend)
        for number in numbers:
            expected = end_of(function, vector(), number)
            assert same(expected, end_of(compiled, vector(), number)), number


class Whole:
    """Has an index; an error for negative ones."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def __index__(self) -> int:
        self.asked += 1
        if self.number < 0:
            raise ValueError(f"no index {self.number}")
        return self.number


class Real(Whole):
    """Is a float, in a way that is noticed."""

    def __float__(self) -> float:
        return float(self.__index__())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * [1.0, 2.0, 3.0][n],
        lambda x, n: x * operator.index(n),
        lambda x, n: x * float(n),
        lambda x, n: x * math.sqrt(n),
        lambda x, n: x * len(range(n)),
    ],
)
def test_objects_that_stand_for_numbers_are_asked_as_often_as_by_python(function: Form) -> None:
    compiled = dj.compile(function)
    for number in (0, 1, 2, -1, 1, 3, 2, -5, 0):
        plain, captured = Real(number), Real(number)
        assert same(end_of(function, vector(), plain), end_of(compiled, vector(), captured))
        assert plain.asked == captured.asked


@pytest.mark.parametrize(
    "body",
    [
        lambda x, i: x + i * 1.5,
        lambda x, i: x + (i - 0.5),
        lambda x, i: x * ((i * i) * 0.5),
        lambda x, i: x + i / 7,
        lambda x, i: x + float(i),
    ],
)
def test_what_was_done_before_a_number_is_too_large_is_done(body: Form) -> None:
    """The error came in front of the effects, which were lost."""

    def function(x: Any, i: int, log: list[int]) -> Any:
        log.append(i.bit_length())
        return body(x, i)

    compiled = dj.compile(function)
    for number in (1, 2, 3, 10**400, 4, -(10**400)):
        expected: list[int] = []
        actual: list[int] = []
        outcome = end_of(function, vector(), number, expected)
        assert same(outcome, end_of(compiled, vector(), number, actual)), number
        assert expected == actual


# -- where the number stands ----------------------------------------------------------------------

BODIES: Final[dict[str, Form]] = {
    "branch": lambda x, i: x + 1 if i % 10 == 0 else x * 2,
    "power": lambda x, i: x * 0.9**i,
    "cosine": lambda x, i: x * (0.5 * (1 + math.cos(math.pi * i / 40))),
    "quotient": lambda x, i: x * (i // 3),
    "item": lambda x, i: x * [1.0, 2.0, 3.0][i % 3],
    "least": lambda x, i: x * min(1.0, (i + 1) / 10),
    "element": lambda x, i: x[i % 3],
}

counter = 0


def places(body: Form) -> dict[str, tuple[Callable[[Any], Any], Callable[[int], None]]]:
    """name of a place -> a function of a tensor that reads a number there, and what writes it."""
    holder, table, items = types.SimpleNamespace(n=0), {"n": 0}, [0]
    cell = 0

    class Counting(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = -1

        def forward(self, x: Any) -> Any:
            self.n += 1
            return body(x, self.n)

    def write_cell(number: int) -> None:
        nonlocal cell
        cell = number

    def of_cell(x: Any) -> Any:
        return body(x, cell)

    def of_global(x: Any) -> Any:
        return body(x, counter)

    def write_global(number: int) -> None:
        global counter
        counter = number

    def nothing(number: int) -> None:
        """The function counts."""

    return {
        "attribute": (lambda x: body(x, holder.n), lambda n: setattr(holder, "n", n)),
        "dict": (lambda x: body(x, table["n"]), lambda n: table.update(n=n)),
        "list": (lambda x: body(x, items[0]), lambda n: items.__setitem__(0, n)),
        "cell": (of_cell, write_cell),
        "global": (of_global, write_global),
        "module": (Counting(), nothing),
    }


@pytest.mark.parametrize("place", ["attribute", "dict", "list", "cell", "global", "module"])
@pytest.mark.parametrize("name", BODIES)
def test_it_does_not_matter_where_the_number_stands(
    name: str, place: str, compile_count: Callable[[], int]
) -> None:
    body = BODIES[name]
    function, write = places(body)[place]
    compiled = dj.compile(function)
    for i in range(40):
        write(i)
        assert same(body(vector(), i), compiled(vector()))

    assert compile_count() <= MOST_VERSIONS


@pytest.mark.parametrize("name", BODIES)
def test_a_number_after_a_break_costs_no_more(name: str, compile_count: Callable[[], int]) -> None:
    body = BODIES[name]

    def function(x: Any, i: int) -> Any:
        y = x * 1
        dj.graph_break()
        return body(y, i)

    compiled = dj.compile(function)
    for i in range(40):
        assert same(body(vector(), i), compiled(vector(), i))

    assert compile_count() <= 1 + MOST_VERSIONS


def test_a_schedule_and_a_rare_branch_in_a_training_loop_cost_four_graphs(
    compile_count: Callable[[], int],
) -> None:
    def advance(w: Any, x: Any, step: int, seen: list[float]) -> Any:
        rate = 0.1 * 0.5 * (1 + math.cos(math.pi * step / 200))
        gradient = 2 * x * (w * x - 3.0)
        if step % 10 == 0:
            w = w * 0.99
        return w - rate * gradient

    compiled = dj.compile(advance, fullgraph=True)
    expected = actual = dj.zeros(4)
    x = dj.tensor([0.5, 1.0, 1.5, 2.0])
    for step in range(200):
        expected, actual = advance(expected, x, step, []), compiled(actual, x, step, [])

    assert same(expected, actual)
    assert compile_count() <= 4
