"""Tensor and scalar types: strides, sizes, printing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import ScalarType, TensorType, contiguous_strides, numel


@given(st.lists(st.integers(1, 5), max_size=5))
def test_contiguous_strides_are_numpys_in_elements(shape):
    expected = tuple(s // 8 for s in np.empty(shape, np.float64).strides)
    assert expected == contiguous_strides(tuple(shape))


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (0, 4), (3, 0)])
def test_strides_of_empty_shapes_are_pytorchs(shape):
    torch = pytest.importorskip("torch")
    assert torch.empty(shape).stride() == contiguous_strides(shape)


def test_a_symbolic_size_gives_symbolic_strides():
    n, m = symbol("n", 1), symbol("m", 1)
    assert (n * m, m, 1) == contiguous_strides((4, n, m))
    assert n * m * 4 is numel((4, n, m))


def test_the_empty_shape_has_one_element():
    assert numel(()) == 1
    assert numel((3, 0)) == 0


def test_a_type_without_strides_is_contiguous():
    type = TensorType((2, 3), dtypes.float32)
    assert type.is_contiguous
    assert TensorType((2, 3), dtypes.float32, strides=(3, 1)).is_contiguous
    assert not TensorType((2, 3), dtypes.float32, strides=(1, 2)).is_contiguous


def test_another_shape_or_dtype_forgets_the_layout():
    type = TensorType((2, 3), dtypes.float32, strides=(1, 2))
    assert TensorType((6,), dtypes.float32) == type.with_shape((6,))
    assert TensorType((2, 3), dtypes.int8) == type.with_dtype(dtypes.int8)
    assert (2, 6) == (type.rank, type.numel)


def test_types_print_as_in_messages():
    assert str(TensorType((2, symbol("n")), dtypes.float32)) == "float32[2, n]"
    assert str(TensorType((), dtypes.int64, Device("cuda", 1))) == "int64[]@cuda:1"
    assert [str(ScalarType(c)) for c in Category] == ["bool", "int", "float", "complex"]


def test_equal_types_hash_alike():
    assert len({TensorType((2,), dtypes.int8), TensorType((2,), dtypes.int8)}) == 1


def test_a_scalar_broadcasts_like_a_zero_dim_tensor():
    assert ScalarType(Category.FLOATING).shape == ()
    assert [ScalarType(c).c for c in Category][:3] == ["int64_t", "int64_t", "double"]
