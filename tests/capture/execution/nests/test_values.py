"""Keys tell apart what different code is right for; numbers can be put in a value's place."""

from typing import Any

import pytest

from dynajit.capture.execution.nests.values import (
    SMALL,
    WHOLE,
    Array,
    Elements,
    Given,
    Group,
    Literal,
    NotNest,
    Number,
    Place,
    Range,
    Slice,
    extent_of,
    key_of,
    numbers_in,
    with_numbers,
)
from dynajit.core.types import dtypes


def number(name: str) -> Number:
    return Number(name, dtypes.int64, True, SMALL)


A, B, C = map(number, "abc")
ARRAY = Array(0, dtypes.float32, (Literal(4),), (Place(A), Place(Literal(0), ((0, Literal(1)),))))
VALUES = (
    A,
    ARRAY,
    Group((A, Literal(1), B)),
    Range(A, B, C, is_iterator=True),
    Elements(A, (ARRAY, ARRAY)),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_other_numbers_keep_the_key(value: Any) -> None:
    found = list(numbers_in(value))
    others = [Number(f"x{k}", n.dtype, n.is_python, n.extent) for k, n in enumerate(found)]
    made = with_numbers(value, iter(others))
    assert key_of(made) == key_of(value)
    assert [n.operand for n in numbers_in(made)] == [n.operand for n in others]
    assert [n.operand for n in numbers_in(value)] == [n.operand for n in found]


def test_keys_differ_where_code_differs() -> None:
    values = [
        None, Literal(1), Literal(1.0), Literal(True), Literal(0.0), Literal(-0.0), Given("x"),
        A, Number("a", dtypes.int64, False), Number("a", dtypes.float64, True),
        Number("a", dtypes.int64, True, WHOLE), *VALUES[1:], Range(A, B, Literal(1)),
        Range(A, B, C), Elements(A, (ARRAY,), 0),
        Array(1, dtypes.float32, ARRAY.sizes, ARRAY.places),
        Array(0, dtypes.float32, (A,), ARRAY.places), Slice(A, B, Literal(None)),
    ]  # fmt: skip
    assert len({key_of(value) for value in values}) == len(values)
    with pytest.raises(NotNest):
        key_of(object())


def test_extents_are_those_of_ints() -> None:
    assert extent_of(5) == SMALL and extent_of(1 << 62) == WHOLE and extent_of(5.0) == WHOLE
