"""Tensors from data."""

from typing import Any

import numpy as np
import pytest

import dynajit
from dynajit.core.errors import ArgumentError, DTypeError, InvalidValueError, ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.tensor.creation import (
    as_tensor,
    empty,
    empty_like,
    from_numpy,
    tensor,
)
from dynajit.eager.tensor.shared_memory import asarray, from_dlpack


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"),
        (1.0, "float32"),
        (True, "bool"),
        (1j, "complex64"),
        ([], "float32"),
        ([1, 2.5], "float32"),
        ([True, 2], "int64"),
        (np.float64(1), "float64"),
        ([np.float64(1)], "float64"),
        (np.zeros(2, np.int16), "int16"),
        (np.zeros(2), "float64"),
        ([np.zeros(2, np.float16)], "float16"),
        (range(3), "int64"),
        (((1, 2), (3, 4)), "int64"),
    ],
    ids=str,
)
def test_dtypes_are_inferred_as_in_pytorch(data: object, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    if not (isinstance(data, list) and data and isinstance(data[0], np.ndarray)):
        assert dtype == str(torch.tensor(data).dtype).removeprefix("torch.")

    assert dtype == tensor(data).dtype.name


def test_tensor_copies() -> None:
    array = np.zeros(2)
    x = tensor(array)
    array[0] = 1.0

    assert [0.0, 0.0] == x.tolist()


def test_tensors_of_one_element_are_numbers_in_sequences() -> None:
    assert [[1.0, 2.0], [3.0, 4.0]] == tensor([[tensor([1.0]), 2], [tensor(3.0), 4.0]]).tolist()
    with pytest.raises(InvalidValueError, match=r"shape \[2\].*stack or cat"):
        tensor([tensor([1.0, 2.0]), [3.0, 4.0]])


#: Data over a module `m` that is dynajit or PyTorch, and the dtype that PyTorch gives it.
MIXED = (
    (lambda m: [0.0, m.tensor(1.0, dtype=m.float64)], "float64"),
    (lambda m: [1, m.tensor(1.0, dtype=m.float64)], "float64"),
    (lambda m: [True, m.tensor(1.0, dtype=m.float64)], "float64"),
    (lambda m: [m.tensor(1), m.tensor(1.0)], "float32"),
    (lambda m: [m.tensor(1, dtype=m.int32), 1], "int64"),
    (lambda m: [1j, m.tensor(1.0, dtype=m.float64)], "complex128"),
    (lambda m: [m.tensor(1.0, dtype=m.bfloat16), m.tensor(1.0, dtype=m.float16)], "float32"),
    (lambda m: [m.tensor(1.0, dtype=m.bfloat16), 1.0], "float32"),
    (lambda m: [m.tensor(1.0, dtype=m.bfloat16)], "bfloat16"),
    (lambda m: [[m.tensor(1.0, dtype=m.float64)], [0.0]], "float64"),
    (lambda m: [np.int32(1), 1.0], "float32"),
    (lambda m: [np.float16(1), np.float64(1)], "float64"),
    (lambda m: [np.float32(1)], "float32"),
    (lambda m: [np.zeros(2), np.ones(2)], "float64"),
    (lambda m: [True, 2], "int64"),
    (lambda m: [1, 2.0], "float32"),
    (lambda m: [[], []], "float32"),
)


@pytest.mark.parametrize(("data", "dtype"), MIXED)
def test_sequences_have_the_dtype_that_holds_all_of_them(data: Any, dtype: str) -> None:
    assert dtype == tensor(data(dynajit)).dtype.name


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
@pytest.mark.parametrize(("data", "dtype"), MIXED)
def test_pytorch_gives_sequences_the_same_dtypes(data: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    assert f"torch.{dtype}" == str(torch.tensor(data(torch)).dtype)


def test_a_ragged_sequence_is_refused() -> None:
    with pytest.raises(ShapeError, match="ragged"):
        tensor([[1, 2], [3]])


@pytest.mark.parametrize("data", ["text", ["a"], [None], {1, 2}, 1 << 70, [1 << 70], object()])
def test_data_that_is_no_number_is_refused(data: object) -> None:
    with pytest.raises((DTypeError, ArgumentError), match=r"tensor\(\)"):
        tensor(data)


def test_values_must_fit_the_dtype() -> None:
    with pytest.raises(DTypeError, match=r"does not fit in uint8.*\[0, 255\]"):
        tensor([300], dtype=dtypes.uint8)


def test_a_dtype_must_be_a_dtype() -> None:
    with pytest.raises(DTypeError, match="expected a dtype"):
        tensor([1], dtype="float32")


def test_foreign_byte_order_is_converted_when_copying() -> None:
    assert [1.0, 2.0] == tensor(np.array([1.0, 2.0], ">f4")).tolist()


def test_negative_strides_are_copied() -> None:
    x = tensor(np.arange(3)[::-1])

    assert ([2, 1, 0], (1,)) == (x.tolist(), x.stride())


def test_from_numpy_shares_memory() -> None:
    array = np.zeros(2)
    x = from_numpy(array)
    array[0] = 1.0
    x[1] = 2.0

    assert ([1.0, 2.0], [1.0, 2.0]) == (x.tolist(), array.tolist())


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.arange(3)[::-1], ShapeError),
        (np.zeros(2, ">f4"), DTypeError),
        (np.zeros(2, np.longdouble), DTypeError),
        (np.zeros(2, object), DTypeError),
        ([1, 2], ArgumentError),
    ],
    ids=["negative", "byte order", "longdouble", "object", "list"],
)
def test_from_numpy_refuses_what_cannot_be_shared(array: object, error: type) -> None:
    with pytest.raises(error, match="from_numpy"):
        from_numpy(array)


def test_as_tensor_shares_where_it_can() -> None:
    array = np.zeros(2, np.float32)
    x = as_tensor(array)

    assert x.array is array
    assert as_tensor(x) is x
    assert dtypes.int64 is as_tensor(x, dtype=dtypes.int64).dtype
    assert [2, 1, 0] == as_tensor(np.arange(3)[::-1]).tolist()


def test_asarray_obeys_copy() -> None:
    x = tensor([1.0])

    assert asarray(x) is x
    assert asarray(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="copy"):
        asarray([1.0], copy=False)


def test_from_dlpack_shares_memory() -> None:
    x = tensor([1.0])
    y = from_dlpack(x)
    x.zero_()

    assert [0.0] == y.tolist()


def test_empty_has_the_shape_and_dtype() -> None:
    x = empty(2, 3, dtype=dtypes.int8)

    assert ((2, 3), dtypes.int8, (2, 3), (), (4,)) == (
        x.shape,
        x.dtype,
        empty_like(x).shape,
        empty_like(tensor(1)).shape,
        empty((4,)).shape,
    )
    with pytest.raises(ShapeError, match="negative"):
        empty(-1)


def test_requires_grad() -> None:
    assert tensor([1.0], requires_grad=True).requires_grad
