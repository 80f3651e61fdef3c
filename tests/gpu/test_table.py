"""Every row of the op table on a GPU, over the samples of the conformance test, against NumPy.

What a GPU adds in another order or computes with other functions may differ in the last digits; on
the stand-in the functions are NumPy's. Rows of integers and booleans, and those that only move
elements, agree exactly.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops import Kind, Op
from tests.support.gpu import layouts
from tests.support.rows.row_graphs import ROWS, accepted
from tests.support.rows.tape import refuses, run

pytestmark = pytest.mark.one_python

GPU = dj.device("cuda", 0)
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}
# Factors of matrices are not unique: their products are compared in test_linear_algebra.
NOT_UNIQUE = (
    "symmetric_eigen", "general_eigen", "singular_values", "orthogonal_triangular", "pivoted_lu",
)  # fmt: skip


def on_gpu(operand: Any) -> Any:
    return layouts.tensor_on_gpu(operand) if isinstance(operand, np.ndarray) else operand


def attributes_on_gpu(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: GPU if name == "device" else value for name, value in attributes.items()}


def assert_close(expected: np.ndarray, actual: np.ndarray, what: str) -> None:
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape), what
    name = dtypes.from_numpy(expected.dtype).name
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    tolerance = TOLERANCE.get(name, 1e-12)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), tolerance, tolerance, err_msg=what
    )


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_a_row_gives_on_the_gpu_what_it_gives_on_the_cpu(op: Op, dtype: DType) -> None:
    if op.name in NOT_UNIQUE:
        pytest.skip("factors are compared by their products")
    if not op.inputs and "device" not in op.attributes:
        pytest.skip("a number, wherever it is needed")
    for sample in accepted(op, dtype):
        try:
            expected = run(op, sample.inputs, sample.attributes)
        except DTypeError:
            continue
        operands = [on_gpu(operand) for operand in sample.inputs]
        result = op(*operands, **attributes_on_gpu(sample.attributes))

        assert GPU is result.device, sample.name
        assert_close(expected, result.numpy(force=True), sample.name)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_a_rows_derivative_on_the_gpu_is_that_on_the_cpu(op: Op) -> None:
    if op.name in NOT_UNIQUE:
        pytest.skip("factors are compared by their products")
    for sample in accepted(op, dtypes.float32):
        if not sample.differentiable:
            continue
        expected, actual = (_gradients(op, sample, place) for place in (dj.device("cpu"), GPU))
        for position, (ours, theirs) in enumerate(zip(expected, actual, strict=True)):
            what = f"{sample.name}, input {position}"
            assert (ours is None) == (theirs is None), what
            if ours is not None:
                assert GPU is theirs.device
                scale = max(1.0, float(np.abs(ours.numpy()).max(initial=0.0)))
                assert_close(ours.numpy() / scale, theirs.numpy(force=True) / scale, what)


def _gradients(op: Op, sample: Any, place: Any) -> list[Any]:
    """The gradient of the sum of the result, weighted, for every floating operand that has one."""
    leaves = []
    for position, operand in enumerate(sample.inputs):
        if isinstance(operand, np.ndarray):
            tensor = on_gpu(operand) if place is GPU else dj.from_numpy(np.array(operand))
            is_floating = operand.dtype.kind in "fc" or operand.dtype.kind == "V"
            has_gradient = is_floating and not refuses(op, position)
            operand = tensor.requires_grad_() if has_gradient else tensor
        leaves.append(operand)
    attributes = attributes_on_gpu(sample.attributes) if place is GPU else sample.attributes
    result = op(*leaves, **attributes)
    if getattr(result, "requires_grad", False):
        weights = np.random.default_rng(0).uniform(0.5, 1.5, tuple(result.shape))
        start = dj.from_numpy(weights.astype(result.dtype.numpy))
        result.backward(start.to(place))
    return [leaf.grad if isinstance(leaf, dj.Tensor) else None for leaf in leaves]


def test_random_numbers_have_the_bits_of_the_cpu() -> None:
    """Uniform ones in every dtype; normal ones up to the last digit of a logarithm."""
    for dtype in dtypes.FLOATING:
        for row in (op for op in ROWS if op.kind is Kind.RANDOM):
            drawn = [
                row(99, 5, shape=(1000,), dtype=dtype, device=place, shift=2).cpu()
                for place in (dj.device("cpu"), GPU)
            ]
            if row.name == "rand":
                assert dj.equal(*drawn), dtype
            else:
                assert_close(drawn[0].numpy(), drawn[1].numpy(), row.name)
