"""Collectives on several processes: what NumPy says that they give."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from tests.support.ranks import on_ranks

DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64",
]  # fmt: skip
DTYPES = "float32 float64 float16 bfloat16 int64 int8 uint8 bool complex64".split()  # noqa: SIM905


def reduced_of_every_dtype() -> dict[str, Any]:
    """Sums of transposed tensors, as float64 or complex numbers."""
    found = {}
    for name in DTYPES:
        dtype = getattr(dj, name)
        x = (dj.arange(6).reshape(2, 3).t() + dist.get_rank()).to(dtype)
        dist.all_reduce(x)
        found[name] = x.to(dj.complex128 if dtype.is_complex else dj.float64).numpy()
    return found


@pytest.mark.parametrize("size", [2, 4])
def test_sums_of_every_dtype_are_numpys(size: int) -> None:
    (by_rank,) = on_ranks([reduced_of_every_dtype], size)
    base = np.arange(6).reshape(2, 3).T
    parts = np.stack([base + rank for rank in range(size)])
    for found in by_rank:
        for name in DTYPES:
            expected = parts.astype(bool).any(0) if name == "bool" else parts.sum(0)
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
