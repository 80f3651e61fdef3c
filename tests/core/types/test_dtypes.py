"""Element types and promotion, against PyTorch's tables where it is installed."""

import itertools
import pickle

import numpy as np
import pytest

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category

PAIRS = list(itertools.product(dtypes.ALL, repeat=2))
NUMBERS = {
    Category.BOOL: True,
    Category.INTEGER: 2,
    Category.FLOATING: 2.5,
    Category.COMPLEX: 1j,
}


def theirs(torch, dtype):
    return getattr(torch, dtype.name)


def name_of(dtype):
    """The name of a torch dtype; complex32 does not exist here and widens."""
    return str(dtype).removeprefix("torch.").replace("complex32", "complex64")


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda d: d.name)
def test_promotion_is_pytorchs(a, b):
    torch = pytest.importorskip("torch")
    expected = name_of(torch.promote_types(theirs(torch, a), theirs(torch, b)))
    assert expected == dtypes.promote(a, b).name


def test_promotion_commutes_and_absorbs():
    for a, b in PAIRS:
        assert dtypes.promote(a, b) is dtypes.promote(b, a)
        assert dtypes.promote(a, a) is a


RANKS = list(itertools.product((0, 1), repeat=2))


@pytest.mark.parametrize(("rank_a", "rank_b"), RANKS)
def test_two_tensors_meet_in_pytorchs_dtype(rank_a, rank_b):
    torch = pytest.importorskip("torch")
    for a, b in PAIRS:
        x = torch.zeros((1,) * rank_a, dtype=theirs(torch, a))
        y = torch.zeros((1,) * rank_b, dtype=theirs(torch, b))
        expected = name_of(torch.result_type(x, y))
        assert expected == dtypes.result_type([(a, rank_a), (b, rank_b)]).name, (a, b)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_tensor_and_a_number_meet_in_pytorchs_dtype(rank):
    torch = pytest.importorskip("torch")
    for dtype, (category, number) in itertools.product(dtypes.ALL, NUMBERS.items()):
        x = torch.zeros((1,) * rank, dtype=theirs(torch, dtype))
        expected = name_of(torch.result_type(x, number))
        actual = dtypes.result_type([(dtype, rank)], [category]).name
        assert expected == actual, (dtype, number)


def test_three_operands_meet_level_by_level():
    torch = pytest.importorskip("torch")
    some = (dtypes.bool_, dtypes.uint8, dtypes.int64, dtypes.float16, dtypes.float64)
    for a, b, (category, number) in itertools.product(some, some, NUMBERS.items()):
        if category is Category.COMPLEX:
            continue
        x = torch.zeros(2, dtype=theirs(torch, a))
        y = torch.zeros((), dtype=theirs(torch, b))
        # PyTorch has no function of three operands: `where` promotes two, `clamp` three.
        if a is dtypes.bool_ and b is dtypes.bool_ and category is Category.BOOL:
            continue
        expected = name_of(torch.clamp(x, y, torch.as_tensor(number)).dtype)
        wrapped = dtypes.of_number(number)
        assert expected == dtypes.result_type([(a, 1), (b, 0), (wrapped, 0)]).name, (a, b, number)


def test_numbers_alone_have_default_dtypes():
    found = [dtypes.result_type([], [category]) for category in Category]
    assert [dtypes.bool_, dtypes.int64, dtypes.float32, dtypes.complex64] == found
    assert dtypes.float32 is dtypes.result_type([], [Category.INTEGER, Category.FLOATING])


def test_no_operand_is_refused():
    with pytest.raises(DTypeError, match="no operand"):
        dtypes.result_type([])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "bool"), (np.bool_(0), "bool"), (3, "int64"), (np.int8(3), "int64"),
        (2.0, "float32"), (np.float64(2), "float32"), (1j, "complex64"),
    ],
)  # fmt: skip
def test_a_number_knows_its_dtype(value, expected):
    assert expected == dtypes.of_number(value).name


def test_numpy_dtypes_round_trip():
    for dtype in dtypes.ALL:
        assert dtype is dtypes.from_numpy(dtype.numpy)
        assert dtype is dtypes.by_name(dtype.name)
        assert dtype.itemsize == np.zeros(1, dtype.numpy).itemsize


def test_unknown_dtypes_are_refused():
    with pytest.raises(DTypeError, match="datetime64"):
        dtypes.from_numpy(np.dtype("datetime64[s]"))
    with pytest.raises(DTypeError, match="'float'"):
        dtypes.by_name("float")


def test_categories_are_pytorchs():
    torch = pytest.importorskip("torch")
    for dtype in dtypes.ALL:
        other = theirs(torch, dtype)
        assert other.is_floating_point == dtype.is_floating_point
        assert other.is_complex == dtype.is_complex
        assert other.is_signed == dtype.is_signed
        assert other.itemsize == dtype.itemsize


def test_dtypes_pickle_to_themselves_and_print_their_name():
    for dtype in dtypes.ALL:
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert f"dynajit.{dtype.name}" == repr(dtype)


def test_sixteen_bit_floats_compute_in_float32():
    for dtype in dtypes.ALL:
        narrow = dtype in (dtypes.float16, dtypes.bfloat16)
        assert (dtypes.float32 if narrow else dtype) is dtypes.compute_dtype(dtype)
