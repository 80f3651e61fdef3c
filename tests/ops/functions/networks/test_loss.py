"""Losses have the dtypes of PyTorch's."""

import itertools
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.one_python

DTYPES = ("float16", "bfloat16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-7}


@pytest.mark.parametrize(("logits", "target"), list(itertools.product(DTYPES, DTYPES)))
def test_cross_entropy_with_probabilities_has_the_dtype_of_both(logits: str, target: str) -> None:
    def loss(m: Any) -> Any:
        x = m.linspace(-1, 1, 6).reshape(2, 3).to(getattr(m, logits))
        return m.nn.functional.cross_entropy(x, m.full((2, 3), 1 / 3).to(getattr(m, target)))

    found, expected = loss(dj), loss(torch)

    assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
    coarser = max(TOLERANCE[logits], TOLERANCE[target])
    assert float(found) == pytest.approx(float(expected), rel=2 * coarser)
