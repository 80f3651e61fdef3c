"""Sums of what several processes sent: the order in which they are taken."""

from fractions import Fraction

import numpy as np
import pytest

import dynajit as dj
from dynajit.distributed.sharding.transfers import joined_in_order

ORDERS = {
    1: "a",
    2: "(a+b)",
    3: "((a+b)+c)",
    4: "((a+b)+(c+d))",
    5: "(((a+b)+c)+(d+e))",
    6: "(((a+b)+(c+d))+(e+f))",
    7: "(((a+b)+(c+d))+((e+f)+g))",
    8: "(((a+b)+(c+d))+((e+f)+(g+h)))",
}
"""Number of processes -> neighbours first, after the first are paired down to a power of two."""


@pytest.mark.parametrize("count", ORDERS)
def test_neighbours_are_added_first(count: int) -> None:
    """Each sum rounded once, in float32."""
    values = np.random.default_rng(count).standard_normal((count, 500)).astype(np.float32)
    expected = eval(ORDERS[count], dict(zip("abcdefgh", values, strict=False)))

    found = joined_in_order([dj.tensor(row) for row in values])

    np.testing.assert_array_equal(expected, found.numpy())
    exact = float(sum(Fraction(float(x)) for x in values[:, 0]))
    assert abs(found[0].item() - exact) < 1e-5
