"""Symbolic integers: every expression equals its value, in Python and in C."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynajit.core.types import symint
from dynajit.core.types.symint import SymInt, symbol

N = symbol("n", 1)
M = symbol("m", 0, 100)
S = symbol("s", None, None)  # may be negative
SYMBOLS = {"n": N, "m": M, "s": S}

VALUES = st.fixed_dictionaries(
    {"n": st.integers(1, 50), "m": st.integers(0, 100), "s": st.integers(-40, 40)}
)


def expressions():
    """Trees of (operator, left, right), ints and symbol names."""
    leaves = st.one_of(st.integers(-12, 12), st.sampled_from(sorted(SYMBOLS)))
    operators = st.sampled_from(["+", "-", "*", "//", "%", "min", "max"])
    return st.recursive(leaves, lambda t: st.tuples(operators, t, t), max_leaves=8)


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": symint.floordiv,
    "%": symint.mod,
    "min": symint.minimum,
    "max": symint.maximum,
}
PLAIN = {**OPERATIONS, "//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min, "max": max}


def build(tree, leaves, operations):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return leaves[tree]
    operator, left, right = tree
    return operations[operator](build(left, leaves, operations), build(right, leaves, operations))


C_FUNCTIONS = {
    "dj_floordiv": lambda a, b: a // b,
    "dj_mod": lambda a, b: a % b,
    "dj_min_index": min,
    "dj_max_index": max,
}


@settings(max_examples=300)
@given(expressions(), VALUES)
def test_an_expression_has_the_value_that_python_gives(tree, values):
    try:
        expected = build(tree, values, PLAIN)
    except ZeroDivisionError:
        return
    try:
        expression = build(tree, SYMBOLS, OPERATIONS)
    except ZeroDivisionError:
        return  # a constant divisor 0 in a part that the plain evaluation never reached
    assert expected == symint.substitute(expression, values)
    assert expected == eval(symint.python(expression), {"min": min, "max": max}, values)
    low, high = symint.bounds(expression)
    assert low is None or low <= expected
    assert high is None or expected <= high


@settings(max_examples=200)
@given(expressions(), VALUES)
def test_printed_c_has_the_same_value(tree, values):
    try:
        expected = build(tree, values, PLAIN)
        expression = build(tree, SYMBOLS, OPERATIONS)
    except ZeroDivisionError:
        return
    # Plain / and % are printed for non-negative operands only, where C and Python agree.
    actual = eval(symint.c(expression).replace("/", "//"), C_FUNCTIONS, dict(values))
    assert expected == actual


def test_equal_expressions_are_one_object():
    assert (N + M) * 2 is 2 * M + 2 * N
    assert (N + 1) * (N - 1) is N * N - 1
    assert symbol("n", 1) is N
    assert symbol("n", 2) is not N
    assert len({N + 1, 1 + N, N + 2}) == 2


def test_constants_come_back_as_plain_integers():
    assert N - N == 0
    assert isinstance((N + 3) - N, int)
    assert (2 * N) // (2 * N) == 1


def test_sums_that_a_divisor_divides_split():
    assert (4 * N + 8) // 4 is N + 2
    assert (4 * N + 8) % 4 == 0
    assert (6 * N + 5) % 3 == 2
    assert (6 * N + 5) // 3 is 2 * N + 1


def test_an_index_below_the_size_divides_to_nothing():
    i = symbol("i", 0, 7)
    assert i // 8 == 0
    assert i % 8 is i
    assert (8 * N + i) // 8 is N
    assert (8 * N + i) % 8 is i


def test_nested_divisions_join():
    assert (S // 3) // 4 is S // 12


def test_a_quotient_and_its_remainder_join_again():
    position = symbol("position", 0, 2**20 - 1)
    rows, row, column = position // 131072, position // 1024 % 128, position % 1024
    assert rows * 131072 + row * 1024 + column is position
    assert row * 1024 + column is position % 131072
    assert (S // 7) * 14 * M + N + (S % 7) * 2 * M is S * M * 2 + N
    assert (S // N) * N * M + (S % N) * M is S * M
    assert (S // N // 4) * N * 4 + (S // N % 4) * N + S % N is S
    assert (S % 7) * (S % 7) + (S // 7) * (S % 7) * 7 is S * (S % 7)
    assert symint.symbols(S // 7 * 8 + S % 7 + S % 6) == {"s"}


def test_digits_in_a_base_that_may_be_negative_stay():
    digits = symint.mod(M // N, S) * N + M % N
    assert symint.substitute(digits, {"m": 7, "n": 2, "s": -3}) == 7 // 2 % -3 * 2 + 7 % 2


@settings(max_examples=300)
@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=4),
    st.lists(st.sampled_from([0, 1, 1, 2]), min_size=5, max_size=5),
    st.sampled_from(sorted(SYMBOLS)),
    st.sampled_from(["", "n", "m"]),
    VALUES,
)
def test_digits_in_any_base_have_the_value_that_python_gives(bases, factors, name, scale, values):
    def digits(x, by):
        total, unit = 0, 1
        for base, factor in zip(bases, factors[: len(bases)], strict=True):
            total = total + x // unit % base * unit * factor * by
            unit *= base
        return total + x // unit * unit * factors[-1] * by

    expression = digits(SYMBOLS[name], SYMBOLS.get(scale, 1))
    expected = digits(values[name], values.get(scale, 1))
    assert symint.substitute(expression, values) == expected
    if set(factors[: len(bases)]) | {factors[-1]} == {1}:
        assert expression == SYMBOLS[name] * SYMBOLS.get(scale, 1)


def test_extrema_with_known_order_vanish():
    i = symbol("i", 0, 7)
    assert symint.minimum(i, 8) is i
    assert symint.maximum(i, 0) is i
    assert symint.maximum(i, 9) == 9
    assert symint.minimum(N, N) is N


def test_division_by_the_constant_zero_raises():
    for function in (symint.floordiv, symint.mod):
        with pytest.raises(ZeroDivisionError):
            function(3, 0)
        with pytest.raises(ZeroDivisionError):
            function(N, 0)


def test_truth_is_known_where_the_range_excludes_zero():
    assert bool(N)
    with pytest.raises(ValueError, match="not known"):
        bool(M)


def test_plain_c_division_needs_non_negative_operands():
    assert "((m + 1) / n)" == symint.c((M + 1) // N)
    assert "dj_floordiv(s, 3)" == symint.c(S // 3)
    assert "(m % 3)" == symint.c(M % 3)


def test_symbols_and_substitution():
    expression = (N * M + 3) // (N + 1)
    assert {"n", "m"} == symint.symbols(expression)
    assert frozenset() == symint.symbols(3)
    assert isinstance(symint.substitute(expression, {"n": 2}), SymInt)
    assert (2 * 5 + 3) // 3 == symint.substitute(expression, {"n": 2, "m": 5})


def test_the_product_of_sizes_is_linear_algebra():
    sizes = [symbol(f"d{i}", 1) for i in range(3)]
    assert math.prod(sizes) is sizes[2] * sizes[0] * sizes[1]
    assert math.prod(sizes) // sizes[1] is sizes[0] * sizes[2]


ROWS, COLUMNS = symbol("r", 2), symbol("c", 2)
I, J = symbol("i", 0, None, ROWS), symbol("j", 0, None, COLUMNS)
K = symbol("k", 0, 3)


def test_indices_below_a_symbolic_size_take_positions_apart():
    position = I * COLUMNS + J

    assert (position // COLUMNS, position % COLUMNS) == (I, J)
    assert ((position * 4 + K) // 4 // COLUMNS, (position * 4 + K) % 4) == (I, K)
    assert (position // (ROWS * COLUMNS), position % (ROWS * COLUMNS)) == (0, position)
    assert (I * (ROWS + COLUMNS) + J) // (ROWS + COLUMNS) == I
    assert (position // 4) // COLUMNS is position // (4 * COLUMNS)


def test_ranges_of_what_is_below_a_symbolic_size():
    assert symint.bounds(ROWS - I) == (1, None)
    assert symint.bounds(ROWS * COLUMNS - COLUMNS * I - J) == (1, None)
    assert symint.bounds(ROWS * COLUMNS - ROWS)[0] == 2
    assert symint.extremes(COLUMNS * I + J) == (0, ROWS * COLUMNS - 1)
    assert symint.is_at_least(ROWS, (I * COLUMNS + J) // COLUMNS + 1)
    assert not symint.is_at_least(I, 1)


DIVISORS = st.sampled_from([2, 3, COLUMNS, ROWS, COLUMNS * 2, ROWS * COLUMNS, ROWS + COLUMNS])


@settings(max_examples=300)
@given(st.lists(st.tuples(DIVISORS, st.booleans()), min_size=1, max_size=3),
       st.integers(2, 9), st.integers(2, 9), st.data())  # fmt: skip
def test_divisions_by_symbolic_sizes_have_the_value_that_python_gives(steps, rows, columns, data):
    known = {"r": rows, "c": columns, "k": data.draw(st.integers(0, 3))}
    known["i"] = data.draw(st.integers(0, rows - 1))
    known["j"] = data.draw(st.integers(0, columns - 1))
    value = (I * COLUMNS + J) * 4 + K
    expected = (known["i"] * columns + known["j"]) * 4 + known["k"]
    for divisor, is_remainder in steps:
        by = symint.substitute(divisor, known)
        value = symint.mod(value, divisor) if is_remainder else symint.floordiv(value, divisor)
        expected = expected % by if is_remainder else expected // by
        assert symint.substitute(value, known) == expected
        low, high = symint.bounds(value)
        assert (low is None or low <= expected) and (high is None or expected <= high)
        for least, most in [symint.extremes(value)]:
            assert least is None or symint.substitute(least, known) <= expected
            assert most is None or symint.substitute(most, known) >= expected
