"""`numpy.add.at` and its kin in compiled functions: NumPy's steps one by one, to the bit."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

PLACES = [
    "i",
    "(i, j)",
    "(i[:, None], j)",
    "i - 2",
    "[0, 1, 0]",
    "[[0, 1], [1, 0]]",
    "([0, 1], j[:2])",
]
VALUES = ["2", "w[:, None]", "w[0]", "w[:1]", "1.5"]
FUNCTIONS = ["add", "subtract", "multiply", "maximum", "divide", "fmin", "power"]


def _arguments(dtype: str) -> list[Any]:
    random = np.random.default_rng(0)
    numbers = random.integers(1, 9, (4, 6)) + 0.375 * (np.dtype(dtype).kind in "fc")
    i, j = random.integers(0, 4, 40), random.integers(0, 6, 40)
    return [numbers.astype(dtype), i, j, numbers[:, 0].repeat(10).astype(dtype)]


def _outcome(function: Any, arguments: list[Any]) -> list[Any]:
    try:
        function(*arguments)
    except Exception as error:
        return [type(error), str(error), arguments[0].tobytes()]
    return [arguments[0].dtype, arguments[0].tobytes()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_elements_are_numpys(name: str, dtype: str) -> None:
    wrong = []
    for places in PLACES:
        for value in VALUES:
            source = f"lambda a, i, j, w: np.{name}.at(a, {places}, {value})"
            function = eval(source, {"np": np})
            expected = _outcome(function, _arguments(dtype))
            if expected != _outcome(dj.compile(function, backend="numpy"), _arguments(dtype)):
                wrong.append(source)
    assert [] == wrong


def test_a_tuple_has_an_index_for_each_dim() -> None:
    """It was taken for one array of indices along the first dim."""

    def function(a: Any, i: Any, j: Any) -> Any:
        np.add.at(a, (i, j), 1.0)
        return a

    compiled = dj.compile(function, fullgraph=True)
    for size in (5, 8, 30):
        random = np.random.default_rng(size)
        i, j = random.integers(0, 3, size), random.integers(0, 4, size)
        expected, found = (call(np.zeros((3, 4)), i, j) for call in (function, compiled))
        np.testing.assert_array_equal(expected, found)


def test_sums_of_halves_round_after_every_step() -> None:
    def function(a: Any, i: Any, w: Any) -> Any:
        np.add.at(a, i, w)
        return a

    places, small = np.zeros(3000, int), np.full(3000, 0.25, np.float16)
    expected = function(np.ones(2, np.float16), places, small)
    found = dj.compile(function, fullgraph=True)(np.ones(2, np.float16), places, small)

    assert found.tolist() == expected.tolist() == [512.0, 1.0]


def test_an_index_out_of_range_is_numpys_error() -> None:
    def function(a: Any, i: Any) -> Any:
        np.maximum.at(a, i, 2.0)
        return a

    compiled = dj.compile(function)
    compiled(np.zeros(4), np.array([1, 2]))
    a = np.zeros(4)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        compiled(a, np.array([1, 4]))
