"""Dtypes for storage alone: elements are PyTorch's, are moved and cast, and not computed with.

PyTorch decides where it is installed.
"""

from typing import Any

import numpy as np
import pytest

import dynajit
from dynajit.core.errors import DTypeError, DTypeNotImplementedError
from dynajit.core.types import dtypes

torch = pytest.importorskip("torch", reason="PyTorch says what is right")

NAMES = [dtype.name for dtype in dtypes.STORED]
SHORT = [dtype.name for dtype in dtypes.SHORT]
UNSIGNED = [dtype.name for dtype in dtypes.UNSIGNED]
OTHERS = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def codes(tensor: Any) -> list[int]:
    """The bytes of a tensor's elements; all that are no numbers alike."""
    library = dynajit if isinstance(tensor, dynajit.Tensor) else torch
    found = tensor.contiguous().reshape(-1)
    nan = found.isnan().tolist()
    return [
        -1 if no else code for code, no in zip(found.view(library.uint8).tolist(), nan, strict=True)
    ]


def samples() -> np.ndarray:
    """Floats of all sizes, halves between neighbours, and what is no number."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    edges = np.arange(256, dtype=np.uint32) << 23
    halves = np.concatenate([edges, edges | 0x400000, edges | 0x3FFFFF, edges | 0x400001])
    small = np.arange(-520, 520, 0.0625, dtype=np.float32)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 57344, 61439, 61440, 1e9, -1e9]
    return np.concatenate([bits, halves.view(np.float32), small, np.array(ends, np.float32)])


@pytest.mark.parametrize("name", SHORT)
def test_all_codes_have_pytorchs_values(name: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(every).view(getattr(torch, name))
    result = dynajit.from_numpy(every.copy()).view(getattr(dynajit, name))
    for other in ("float16", "bfloat16", "float32", "float64"):
        np.testing.assert_array_equal(
            result.to(getattr(dynajit, other)).float().numpy(),
            expected.to(getattr(torch, other)).float().numpy(),
        )
    assert codes(expected.float().to(expected.dtype)) == codes(result.float().to(result.dtype))
    assert str(expected.tolist()) == str(result.tolist())
    if name != "float8_e8m0fnu":  # PyTorch prints its largest numbers in full
        assert str(expected).replace("torch.", "dynajit.") == str(result)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
def test_casts_round_as_pytorchs(name: str, source: str) -> None:
    values = samples()
    if source in ("int64", "bool"):
        values = np.arange(-70_000, 70_000, 37)
    expected = torch.from_numpy(values).to(getattr(torch, source)).to(getattr(torch, name))
    result = dynajit.from_numpy(values).to(getattr(dynajit, source)).to(getattr(dynajit, name))
    assert codes(expected) == codes(result)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("target", SHORT)
def test_casts_between_floats_of_8_bits_are_pytorchs(name: str, target: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(every).view(getattr(torch, name)).to(getattr(torch, target))
    result = dynajit.from_numpy(every).view(getattr(dynajit, name)).to(getattr(dynajit, target))
    assert codes(expected) == codes(result)


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("other", OTHERS)
def test_casts_of_unsigned_integers_are_pytorchs(name: str, other: str) -> None:
    values = np.array([0, 1, 2, 100, 127], np.int64)
    whole = np.array([-1, -300, 65535, 1 << 31, (1 << 62) + 1], np.int64)
    for library in (torch, dynajit):
        there = library.from_numpy(values).to(getattr(library, other)).to(getattr(library, name))
        assert there.to(library.int64).tolist()[2:] == (
            [1, 1, 1] if other == "bool" else [2, 100, 127]
        )
    expected = torch.from_numpy(whole).to(getattr(torch, name))
    result = dynajit.from_numpy(whole).to(getattr(dynajit, name))
    assert expected.tolist() == result.tolist()
    if other not in ("float16", "int8", "uint8", "int32"):  # what does not fit is undefined in C
        assert (
            expected.to(getattr(torch, other)).tolist()
            == result.to(getattr(dynajit, other)).tolist()
        )


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_pytorchs(name: str) -> None:
    limits = "iinfo" if name in UNSIGNED else "finfo"
    expected = getattr(torch, limits)(getattr(torch, name))
    result = getattr(dynajit, limits)(getattr(dynajit, name))
    assert str(expected) == str(result)
    fields = ["min", "max", "bits"]
    fields += ["eps", "tiny", "smallest_normal", "resolution"] if limits == "finfo" else []
    for field in fields:
        assert getattr(expected, field) == getattr(result, field)
    theirs, ours = getattr(torch, name), getattr(dynajit, name)
    for fact in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(theirs, fact) == getattr(ours, fact)


def moved(library: Any, name: str) -> list[Any]:
    """What movements and fills give, as lists of numbers."""
    dtype = getattr(library, name)
    values = library.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]).to(dtype)
    at = library.tensor([1, 0])
    filled = values.clone()
    filled[0, 1] = 64
    filled[1].fill_(2)
    copied = library.empty(2, 3, dtype=dtype)
    copied.copy_(library.ones(2, 3) * 4)
    return [
        values[1],
        values.t().contiguous(),
        values[at],
        values[:, [True, False, True]],
        library.cat([values, values]),
        library.stack([values[0], values[1]]),
        library.where(library.tensor([True, False, True]), values[0], values[1]),
        values.expand(2, 2, 3).clone(),
        values.roll(1, 1),
        values.reshape(3, 2),
        filled,
        copied,
        library.zeros(2, dtype=dtype),
        library.full((2,), 4, dtype=dtype),
        library.ones_like(values),
        values == values,
        values != values[0],
        values.isnan(),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_moved_and_compared_as_in_pytorch(name: str) -> None:
    expected = moved(torch, name)
    for theirs, ours in zip(expected, moved(dynajit, name), strict=True):
        assert str(theirs.dtype).replace("torch.", "dynajit.") == str(ours.dtype)
        assert theirs.tolist() == ours.tolist()


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers_keep_all_bits(name: str) -> None:
    largest = int(torch.iinfo(getattr(torch, name)).max)
    for library in (torch, dynajit):
        tensor = library.tensor([largest, 3], dtype=getattr(library, name))
        assert tensor.tolist() == [largest, 3]
        assert tensor[0].item() == largest
        assert (tensor & tensor).tolist() == [largest, 3]
        assert (tensor ^ tensor).tolist() == [0, 0]
        assert (tensor * tensor).tolist() == [(largest * largest) % (largest + 1), 9]
        assert tensor.numpy().dtype == np.dtype(name)
        assert library.from_numpy(tensor.numpy()).dtype is getattr(library, name)


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_called_as_pytorchs(name: str) -> None:
    expected = torch.zeros(1, dtype=getattr(torch, name)).type()
    result = dynajit.zeros(1, dtype=getattr(dynajit, name))
    assert expected == result.type()
    assert getattr(dynajit, name) is dynajit.zeros(1).type(expected).dtype
    assert getattr(dynajit, name) is result.storage().dtype


@pytest.mark.parametrize("name", NAMES)
def test_what_computes_refuses(name: str) -> None:
    for library in (torch, dynajit):
        values = library.tensor([1.0, 2.0]).to(getattr(library, name))
        for call in (lambda x: x + x, lambda x: x - 1, lambda x: x < x, lambda x: x.max()):
            with pytest.raises(NotImplementedError):
                call(values)
    ours = dynajit.tensor([1.0]).to(getattr(dynajit, name))
    with pytest.raises(DTypeNotImplementedError, match="not computed with"):
        ours @ ours


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_promote_as_in_pytorch(name: str) -> None:
    for other in (*OTHERS, "complex64", *NAMES):
        try:
            expected = torch.promote_types(getattr(torch, name), getattr(torch, other))
        except RuntimeError:
            with pytest.raises(DTypeError, match="no common dtype"):
                dynajit.promote_types(getattr(dynajit, name), getattr(dynajit, other))
            continue
        found = dynajit.promote_types(getattr(dynajit, name), getattr(dynajit, other))
        assert str(expected).replace("torch.", "dynajit.") == str(found)


def scaled(x: Any) -> Any:
    """A program that keeps its values in 8 bits for a while."""
    short = (x * 2).to(dynajit.float8_e4m3fn)
    return short.float() + 1


def weighted(weight: Any, x: Any) -> Any:
    """A program with a weight in 8 bits."""
    return x @ (weight.float() * 0.5)


def test_compiled_functions_leave_such_elements_to_eager_execution() -> None:
    x = dynajit.tensor([[0.3, 500.0], [-2.7, 1.0]])
    weight = x.to(dynajit.float8_e5m2)
    for function, arguments in ((scaled, (x,)), (weighted, (weight, x))):
        compiled = dynajit.compile(function)
        for _ in range(2):
            assert function(*arguments).tolist() == compiled(*arguments).tolist()
        reasons = dynajit.explain(function)(*arguments).break_reasons
        assert reasons
        assert all("float8" in str(reason) for reason in reasons)
