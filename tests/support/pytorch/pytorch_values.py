"""Values and functions of PyTorch as those of dynajit, and results back, to be compared.

A `Translation` turns the arguments of one call into dynajit's: one object stays one object, and
views stay views of storage with the same contents. Functions that PyTorch's tests write around an
operator are made anew with dynajit in the place of `torch`. What has no counterpart raises
`Untranslated`. Imports PyTorch.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

MOST_DIMENSIONS = 64  # NumPy's
WRITTEN_FOR_TESTS = "torch.testing._internal"


class Untranslated(Exception):
    """A value that dynajit has no counterpart of; the message says which."""


def named(path: str) -> Any:
    """What dynajit has under a dotted name below `torch`, or as a method of tensors; or None."""
    found: Any = dj
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None or isinstance(found, DType):  # cfloat is a dtype, and a method
        found = getattr(dj.Tensor, path, found)
    return found


class Translation:
    """Of the arguments of one call. Mutable: remembers the tensors it has translated."""

    def __init__(self) -> None:
        self.tensors: list[tuple[torch.Tensor, dj.Tensor]] = []

    def __call__(self, value: Any) -> Any:
        """The value for dynajit. Raises `Untranslated`."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.Size):
            return dj.Size(value)
        if isinstance(value, slice):
            return slice(self(value.start), self(value.stop), self(value.step))
        if isinstance(value, (tuple, list)):
            return type(value)(self(part) for part in value)
        if isinstance(value, dict):
            return {name: self(part) for name, part in value.items()}
        if isinstance(value, torch.device):
            return dj.device(str(value))
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return _constant(str(value).removeprefix("torch."))
        if isinstance(value, torch.Generator):
            raise Untranslated("a generator")
        return function(value) if callable(value) else value

    def _tensor(self, value: torch.Tensor) -> dj.Tensor:
        for theirs, ours in self.tensors:
            if theirs is value:
                return ours
        if value.layout is not torch.strided or value.is_nested or value.is_quantized:
            raise Untranslated(f"a tensor of layout {value.layout}")
        if value.device.type != "cpu" or value.ndim > MOST_DIMENSIONS:
            raise Untranslated(f"a tensor of {value.ndim} dimensions on {value.device}")
        _constant(str(value.dtype).removeprefix("torch."))
        made = _copy(value.detach()).requires_grad_(value.requires_grad)
        self.tensors.append((value, made))
        return made


def _constant(name: str) -> Any:
    """A dtype, a layout or a memory format."""
    found = getattr(dj, name, None)
    if found is None:
        raise Untranslated(name)
    return found


def _copy(value: torch.Tensor) -> dj.Tensor:
    """A tensor over a copy of the whole storage, with the same sizes, strides and offset, seen
    conjugated or negated where the other is."""
    if value.is_conj():
        return _copy(value.conj()).conj().detach()
    if value.is_neg():
        return _copy(value._neg_view())._neg_view().detach()
    if not value.numel() and value.is_contiguous():
        return dj.from_numpy(array_of(value))
    stored = value.untyped_storage().nbytes() // value.element_size()
    if not stored:
        raise Untranslated("a tensor whose storage is gone")
    whole = array_of(torch.as_strided(value, (stored,), (1,), 0))
    if value.is_contiguous() and stored == value.numel() and 1 not in value.shape:
        return dj.from_numpy(whole.reshape(tuple(value.shape)))
    return dj.as_strided(
        dj.from_numpy(whole), tuple(value.shape), value.stride(), value.storage_offset()
    )


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """A copy of the tensor's values."""
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(dtypes.bfloat16.numpy).copy()
    return np.array(tensor.numpy())


def from_dynajit(value: Any) -> Any:
    """Tensors and dtypes in a result of dynajit as PyTorch's, dense; the rest as it is."""
    if isinstance(value, dj.Tensor):
        return _dense(value.detach())
    if isinstance(value, DType):
        return getattr(torch, value.name)
    if isinstance(value, (tuple, list)):
        return [from_dynajit(part) for part in value]
    if isinstance(value, dict):
        return {name: from_dynajit(part) for name, part in value.items()}
    return value


def _dense(value: dj.Tensor) -> torch.Tensor:
    if value.layout is not dj.strided:
        value = value.to_dense()
    array = np.array(value.resolve_conj().resolve_neg().array)
    if array.dtype == dtypes.bfloat16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def function(theirs: Any) -> Any:
    """dynajit's function for one of PyTorch's. Raises `Untranslated`."""
    if is_written_for_tests(theirs):
        return written_again(theirs, dj)
    if isinstance(theirs, functools.partial):
        return functools.partial(function(theirs.func), *theirs.args, **theirs.keywords)
    module = getattr(theirs, "__module__", None) or ""
    name = getattr(theirs, "__name__", repr(theirs))
    if name == "wrapper_set_seed":
        return _call
    for place in (module, "torch", "torch.Tensor"):
        found = named(f"{place}.{name}".removeprefix("torch."))
        if found is not None:
            return found
    raise Untranslated(f"{module}.{name}")


def written_again(theirs: types.FunctionType, library: Any) -> types.FunctionType:
    """A function of PyTorch's tests with the library as `torch`, and without seeds of its own."""
    world = dict(theirs.__globals__) | {"torch": library, "wrapper_set_seed": _call}
    for name in theirs.__code__.co_names:
        helper = world.get(name)
        if is_written_for_tests(helper) and helper is not theirs:
            world[name] = written_again(helper, library)
    closure = [_cell(cell.cell_contents, library) for cell in theirs.__closure__ or ()]
    made = types.FunctionType(
        theirs.__code__, world, theirs.__name__, theirs.__defaults__, tuple(closure)
    )
    made.__kwdefaults__ = theirs.__kwdefaults__
    return made


def is_written_for_tests(value: Any) -> bool:
    """Whether it is a function that PyTorch's tests wrote around operators."""
    return isinstance(value, types.FunctionType) and value.__module__.startswith(WRITTEN_FOR_TESTS)


def _call(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(*args, **kwargs)


def _cell(value: Any, library: Any) -> types.CellType:
    if is_written_for_tests(value):
        return types.CellType(written_again(value, library))
    if library is dj and isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return types.CellType(function(value))
    return types.CellType(value)


def flat(value: Any) -> list[Any]:
    """The parts of nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


WIDER = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


def wider(value: Any) -> Any:
    """Tensors, and dtypes that are asked for, with more digits."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(WIDER.get(value.dtype, value.dtype))
    if isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(wider(part) for part in value)
    if isinstance(value, dict):
        return {name: wider(part) for name, part in value.items()}
    return value


def leaves(value: Any) -> Any:
    """Tensors that require gradients with the same contents, and without a history."""
    if isinstance(value, torch.Tensor):
        is_plain = value.is_leaf and not value._is_view()
        return value if is_plain else value.detach().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(leaves(part) for part in value)
    if isinstance(value, dict):
        return {name: leaves(part) for name, part in value.items()}
    return value


def why_not_same(expected: Any, actual: Any, exact: Callable[[], Any] | None = None) -> str | None:
    """What differs between a result of PyTorch and one of dynajit, `from_dynajit`; or None.

    Numbers of tensors may differ by what `torch.testing.assert_close` allows for their dtype. Where
    they differ more, they may be as far from the exact values, those of wider operands, as the
    farthest of PyTorch's own, or as the largest of them is from the next number of its dtype:
    terms that cancel leave a rounding of their own size, and which one depends on the processor's
    library of products.
    """
    left, right = flat(expected), flat(actual)
    if len(left) != len(right):
        return f"{len(right)} results instead of {len(left)}"
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        reason = _why_not_same(one, other)
        if reason and exact is not None and "values" in reason:
            exacts = flat(exact())
            if len(exacts) == len(left) and _is_as_close(exacts[place], one, other):
                continue
        if reason:
            return f"result {place}: {reason}"
    return None


def _why_not_same(expected: Any, actual: Any) -> str | None:
    if not isinstance(expected, torch.Tensor):
        same = type(expected) is type(actual) and (
            expected == actual or (expected != expected and actual != actual)
        )
        if isinstance(expected, float) and isinstance(actual, float):
            same = same or abs(expected - actual) <= 1.3e-6 * abs(expected)
        return None if same else f"{actual!r} instead of {expected!r}"
    if not isinstance(actual, torch.Tensor):
        return f"{type(actual)} instead of a tensor"
    expected = _plain(expected)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return (
            f"{actual.dtype} {tuple(actual.shape)} instead of "
            f"{expected.dtype} {tuple(expected.shape)}"
        )
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False)
    except AssertionError as error:
        lines = str(error).splitlines()
        return "values: " + "; ".join(x for x in lines if "ifference" in x or "Expected" in x)
    return None


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.to_dense() if tensor.layout is not torch.strided else tensor).resolve_conj()


def _is_as_close(exact: Any, expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """Whether dynajit's values are as close to the exact ones as PyTorch's, or as one rounding of
    the largest."""
    if not isinstance(exact, torch.Tensor) or exact.dtype not in WIDER.values():
        return False
    exact, expected = _plain(exact), _plain(expected)
    theirs, ours = ((x.to(exact.dtype) - exact).abs() for x in (expected, actual))
    finite = theirs.isfinite()
    same_elsewhere = torch.equal(finite, ours.isfinite()) and torch.allclose(
        actual[~finite], expected[~finite], equal_nan=True
    )
    if not (same_elsewhere and bool(finite.any())):
        return False
    rounding = torch.finfo(actual.dtype).eps * exact[finite].abs().max()
    return bool(ours[finite].max() <= torch.maximum(theirs[finite].max(), rounding))
