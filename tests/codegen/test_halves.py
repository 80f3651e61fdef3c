"""Generated C converts between float16 and float32 as NumPy does, bit for bit."""

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.core.types import dtypes
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def converted(codegen, x, dtype):
    graph = codegen.graph_of(lambda x: ops.cast(x, dtype=dtype), codegen.type_of(x))
    return compile_graph(graph)(x)[0]


def same_bits(expected, actual):
    """Equal to the last bit; of NaN only that it is one."""
    assert expected.dtype == actual.dtype
    np.testing.assert_array_equal(np.isnan(expected), np.isnan(actual))
    numbers = ~np.isnan(expected)
    integer = np.dtype(f"u{expected.itemsize}")
    np.testing.assert_array_equal(expected[numbers].view(integer), actual[numbers].view(integer))


def test_every_half_becomes_its_float(codegen):
    same_bits(HALVES.astype(np.float32), converted(codegen, HALVES, dtypes.float32))


def test_every_half_comes_back_from_its_float(codegen):
    same_bits(HALVES, converted(codegen, HALVES.astype(np.float32), dtypes.float16))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_floats_between_halves_are_rounded_to_even(codegen):
    finite = HALVES[np.isfinite(HALVES)].astype(np.float64)
    finite.sort()
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    top = np.float32([65504, 65519.996, 65520, 65536, 1e38, np.inf, 1e-45, 2.0**-25, 2.0**-24])
    x = np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)),
                        np.nextafter(middle, np.float32(-np.inf)), top, -top])  # fmt: skip

    same_bits(x.astype(np.float16), converted(codegen, x, dtypes.float16))
