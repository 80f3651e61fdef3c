"""Random rows in C: the bits of their bodies, or no answer."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.ops import TABLE
from dynajit.ops.native import _philox
from dynajit.ops.rows.random import evaluate

FLOATS = [dtypes.float32, dtypes.float64]
SHAPES = [(), (0,), (1,), (5, 7), (1024,), (3, 1025)]
STREAMS = [(0, 0, 0), (7, 2**32 - 3, 5), (2**64 - 1, 2**64 - 5, 3), (-3, 11, 0)]


@pytest.mark.parametrize("name", ["rand", "randn"])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_draws_have_the_bits_of_the_body(name, shape, dtype):
    op = TABLE[name]
    for seed, offset, shift in STREAMS:
        attributes = op.bind({"shape": shape, "dtype": dtype, "shift": shift})
        expected = np.asarray(evaluate(op, seed, offset, attributes))
        result = op.rule.native(seed, offset, *attributes.values())
        assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
        assert expected.tobytes() == result.tobytes()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("p", [0.1, 0.5, 1 / 3, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_has_the_bits_of_its_rows(shape, p, dtype):
    x = dj.randn(*shape, dtype=dtype)
    for seed, offset, shift in STREAMS[:3]:
        with dj.no_grad():
            expected = TABLE.dropout.rule.function(TABLE, x, seed, offset, p=p, shift=shift)
        result = _philox.dropout(x.numpy(), seed, offset, p, shift)
        assert (tuple(expected.shape), dtype.numpy) == (result.shape, result.dtype)
        assert expected.numpy().tobytes() == result.tobytes()


def test_dropout_with_another_default_dtype_is_that_of_its_rows():
    x = np.ones(3, np.float32)
    assert _philox.dropout(x, 0, 0, 0.5, 0) is not NotImplemented
    dj.set_default_dtype(dj.float64)
    try:
        assert _philox.dropout(x, 0, 0, 0.5, 0) is NotImplemented
    finally:
        dj.set_default_dtype(dj.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _philox.rand(0, 0, (2,), dtypes.float16, CPU, 0),
        lambda: _philox.rand(0, 0, (-2,), dtypes.float32, CPU, 0),
        lambda: _philox.rand(0, 0, (2.0,), dtypes.float32, CPU, 0),
        lambda: _philox.rand(0, 0, (2,), dtypes.float32, dj.device("cuda"), 0),
        lambda: _philox.randn(0.0, 0, (2,), dtypes.float32, CPU, 0),
        lambda: _philox.randn(0, 0, (2,), dtypes.float32, CPU),
        lambda: _philox.dropout(np.ones((2, 3), np.float32).T, 0, 0, 0.5, 0),
        lambda: _philox.dropout(np.ones(2, np.float16), 0, 0, 0.5, 0),
        lambda: _philox.dropout(np.ones(2, np.float32), np.zeros(()), 0, 0.5, 0),
    ],
)
def test_what_is_not_plain_has_no_answer(call):
    assert call() is NotImplemented
