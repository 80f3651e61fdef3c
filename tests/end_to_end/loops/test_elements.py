"""Loops over single elements of arrays leave and raise what plain NumPy leaves and raises.

How they are run (as loops of the graph, unrolled, or as plain Python) is no matter of these tests.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

pytestmark = pytest.mark.one_python

N = 24


def prefix(y, x):
    for i in range(1, y.shape[0]):
        y[i] = 0.5 * y[i - 1] + x[i]


def gauss_seidel(a):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0


def floyd_warshall(d):
    for k in range(d.shape[0]):
        for i in range(d.shape[0]):
            for j in range(d.shape[1]):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def lu(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def matrix_product(c, a, b):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def edit_distance(d, a, b):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            least = min(d[i - 1, j] + 1, d[i, j - 1] + 1)
            d[i, j] = min(least, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))


def histogram(h, b):
    for i in range(b.shape[0]):
        h[b[i]] += 1


def shifted_view(a):
    ahead, behind = a[1:], a[:-1]
    for i in range(behind.shape[0]):
        ahead[i] = behind[i] * 1.5


def reversed_view(a):
    back = a[::-1]
    for i in range(a.shape[0]):
        back[i] = a[i] + 1


def negative_indices(a):
    for i in range(1, a.shape[0]):
        a[-i - 1] = a[-i] - a[-i - 1]


def cast_on_assignment(a, x):
    for i in range(a.shape[0]):
        a[i] = x[i] * 3.7


def wrapping(a):
    for i in range(1, a.shape[0]):
        a[i] = a[i - 1] * np.int32(3) + a[i]


def too_far(a):
    for i in range(a.shape[0]):
        a[i + 3] = a[i] + 1


def by_data_too_far(h, b):
    for i in range(b.shape[0]):
        h[b[i] + 20] += 1


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random(shape)


def integers(most: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, most, shape)


PROGRAMS: dict[Callable[..., None], tuple[np.ndarray[Any, Any], ...]] = {
    prefix: (floats(N), floats(N)),
    gauss_seidel: (floats(24, 22),),
    floyd_warshall: (floats(5, 5),),
    lu: (floats(7, 7) + 7 * np.eye(7),),
    matrix_product: (np.zeros((5, 6)), floats(5, 4), floats(4, 6)),
    edit_distance: (np.add.outer(np.arange(8), np.arange(7)), integers(3, 7), integers(3, 6)),
    histogram: (np.zeros(6, np.int64), integers(6, N)),
    shifted_view: (floats(N),),
    reversed_view: (floats(N),),
    negative_indices: (floats(N),),
    cast_on_assignment: (np.zeros(N, np.int32), floats(N)),
    wrapping: (integers(1 << 20, N).astype(np.int32),),
    too_far: (floats(N),),
    by_data_too_far: (np.zeros(N, np.int64), integers(6, N)),
}


def outcome(function: Callable[..., Any], given: tuple[np.ndarray[Any, Any], ...]) -> Any:
    """What a call gives or the class of what it raises, and what the arguments hold then."""
    arrays = [array.copy() for array in given]
    try:
        with np.errstate(all="ignore"):
            function(*arrays)
    except Exception as error:
        return type(error), arrays
    return None, arrays


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("is_empty", [False, True], ids=["turns", "no_turns"])
def test_memory_and_exceptions_are_those_of_plain_numpy(
    program: Callable[..., None], is_empty: bool
) -> None:
    given = PROGRAMS[program]
    if is_empty:
        given = tuple(array[(slice(0, 0),) * array.ndim] for array in given)
    compiled = dj.compile(program)
    raised, expected = outcome(program, given)
    for _ in range(2):
        seen, arrays = outcome(compiled, given)
        assert seen is raised
        for array, plain in zip(arrays, expected, strict=True):
            assert array.dtype == plain.dtype
            np.testing.assert_allclose(array, plain, rtol=1e-12, atol=0)


def test_an_index_out_of_range_in_a_late_turn_raises_as_in_plain_numpy() -> None:
    assert outcome(too_far, PROGRAMS[too_far])[0] is IndexError
    assert outcome(by_data_too_far, PROGRAMS[by_data_too_far])[0] is IndexError
