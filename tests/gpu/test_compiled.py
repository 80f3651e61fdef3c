"""Compiled functions on a GPU: kernels launched from C, on a GPU or its stand-ins."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

pytestmark = pytest.mark.usefixtures("driver", "strict_programs")
rng = np.random.default_rng(0)


def tensor(*shape: int, dtype: Any = np.float32) -> Any:
    return dj.tensor(rng.standard_normal(shape).astype(dtype), device="cuda")


def check(function: Any, *arguments: Any, tolerance: float = 1e-5) -> Any:
    """Compiled results are those of eager execution on the CPU, and are on the GPU."""
    compiled = dj.compile(function, fullgraph=True)
    got = compiled(*arguments)
    want = function(*(a.cpu() if isinstance(a, dj.Tensor) else a for a in arguments))
    assert got.is_cuda
    np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=tolerance, atol=tolerance)
    return compiled


def test_a_pointwise_chain_is_one_kernel() -> None:
    check(lambda x, y: (x * y + 1).exp() - y, tensor(33, 7), tensor(7))


def test_rows_are_reduced() -> None:
    check(lambda x: F.softmax(x, dim=-1), tensor(9, 300))
