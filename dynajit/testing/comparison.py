"""`assert_close`: two values are equal within tolerances, or an AssertionError says where not.

Contract: tensors, arrays, numbers, booleans, None, and sequences and mappings of them, compared in
NumPy. Tolerances that are not given follow from the dtypes.

Source: the PyTorch 2.x documentation of `torch.testing.assert_close`.
"""

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import Any, Final

import numpy as np

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType, float64
from dynajit.eager.tensor.creation import from_numpy, tensor
from dynajit.eager.tensor.tensor import Tensor

_TOLERANCES: Final = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
"""dtype name -> (rtol, atol); other dtypes must be equal."""


@record
class _Rules:
    """What counts as close; `where` is the place within containers, as text."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    check_stride: bool
    message: str | Callable[[str], str] | None
    where: str = ""

    def at(self, key: Any) -> "_Rules":
        """The rules one container further in."""
        return replace(self, where=f"{self.where}[{key!r}]")

    def fail(self, text: str) -> AssertionError:
        """The error for a mismatch described by `text`."""
        if self.where:
            text = f"{text}\n\nThe failure occurred for item {self.where}"
        if self.message is None:
            return AssertionError(text)
        return AssertionError(self.message(text) if callable(self.message) else self.message)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Args:
        actual, expected: tensors, arrays, numbers, or sequences or mappings of them.
        allow_subclasses: the two may be of classes of which one derives from the other.
        rtol, atol: both or neither; by default those of the dtype with the larger ones.
        equal_nan: two NaN are equal.
        check_device, check_layout: have no effect: all tensors are strided and on the CPU.
        check_dtype, check_stride: these must be equal, too.
        msg: the error's text, or what makes it from the text that it would have.

    Raises:
        AssertionError: the values differ.
        TypeError: they cannot be compared.
        ValueError: one of `rtol` and `atol` was given.
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise InvalidValueError(
            f"rtol and atol must both be specified or both be left out; {missing} is missing."
        )
    rules = _Rules(allow_subclasses, rtol, atol, equal_nan, check_dtype, check_stride, msg)
    _compare(actual, expected, rules)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` of older programs: dtypes may differ, NaN are equal.

    Raises:
        AssertionError: the values differ.
    """
    warnings.warn(
        "testing.assert_allclose() is deprecated; use testing.assert_close().",
        FutureWarning,
        stacklevel=2,
    )
    tensors = [_as_tensor(actual), _as_tensor(expected)]
    if rtol is None and atol is None:
        rtol, atol = _tolerances_of([given.dtype for given in tensors])
    assert_close(
        *tensors,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return from_numpy(value) if isinstance(value, np.ndarray) else tensor(value)


def _compare(actual: Any, expected: Any, rules: _Rules) -> None:
    if _is_sequence(actual) and _is_sequence(expected):
        _compare_sequences(actual, expected, rules)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _compare_mappings(actual, expected, rules)
    elif actual is None or expected is None:
        if actual is not expected:
            raise rules.fail(f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            raise rules.fail(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, rules)
    elif _is_tensor(actual) and _is_tensor(expected) and _related(actual, expected, rules):
        _compare_tensors(actual, expected, rules)
    else:
        raise ArgumentError(
            "No comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}."
        )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, (bool, np.bool_))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic, Number))


def _related(actual: Any, expected: Any, rules: _Rules) -> bool:
    """Whether the classes may be compared as tensors."""
    if isinstance(actual, Number) != isinstance(expected, Number) or not rules.allow_subclasses:
        return type(actual) is type(expected)
    return isinstance(actual, type(expected)) or isinstance(expected, type(actual))


def _compare_sequences(actual: Any, expected: Any, rules: _Rules) -> None:
    if len(actual) != len(expected):
        raise rules.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for position, pair in enumerate(zip(actual, expected, strict=True)):
        _compare(*pair, rules.at(position))


def _compare_mappings(actual: Any, expected: Any, rules: _Rules) -> None:
    if set(actual) != set(expected):
        only_actual = sorted(map(repr, set(actual) - set(expected)))
        only_expected = sorted(map(repr, set(expected) - set(actual)))
        raise rules.fail(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {only_expected}\n"
            f"Additional keys in the actual mapping: {only_actual}"
        )
    for key in actual:
        _compare(actual[key], expected[key], rules.at(key))


def _tolerances(rules: _Rules, types: Sequence[DType]) -> tuple[float, float]:
    if rules.rtol is not None and rules.atol is not None:
        return rules.rtol, rules.atol
    return _tolerances_of(types)


def _tolerances_of(types: Sequence[DType]) -> tuple[float, float]:
    found = [_TOLERANCES.get(dtype.name, (0.0, 0.0)) for dtype in types]
    return max((r for r, _ in found), default=0.0), max((a for _, a in found), default=0.0)


def _compare_numbers(actual: Any, expected: Any, rules: _Rules) -> None:
    if rules.check_dtype and type(actual) is not type(expected):
        raise rules.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    exact = all(isinstance(x, (int, np.integer)) for x in (actual, expected))
    rtol, atol = _tolerances(rules, () if exact else (float64,))
    a, b = complex(actual), complex(expected)
    if a == b or (rules.equal_nan and cmath.isnan(a) and cmath.isnan(b)):
        return
    difference = abs(a - b)
    finite = cmath.isfinite(a) and cmath.isfinite(b)
    if finite and difference <= atol + rtol * abs(b):
        return
    word = "equal" if rtol == atol == 0 else "close"
    relative = difference / abs(b) if b else float("inf")
    raise rules.fail(
        f"Scalars are not {word}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_up_to(atol)}\n"
        f"Relative difference: {relative}{_up_to(rtol)}"
    )


def _up_to(tolerance: float) -> str:
    return f" (up to {tolerance} allowed)" if tolerance else ""


def _elements(value: Any) -> tuple[Any, DType]:
    """The elements as an array that NumPy computes with, and their dtype."""
    array = value.array if isinstance(value, Tensor) else np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.name == "bfloat16":
        return array.astype(np.float32), dtype
    return array, dtype


def _compare_tensors(actual: Any, expected: Any, rules: _Rules) -> None:
    a, dtype_a = _elements(actual)
    b, dtype_b = _elements(expected)
    if a.shape != b.shape:
        raise rules.fail(
            f"The values for attribute 'shape' do not match: {list(a.shape)} != {list(b.shape)}."
        )
    if rules.check_dtype and dtype_a is not dtype_b:
        raise rules.fail(
            f"The values for attribute 'dtype' do not match: {dtype_a!r} != {dtype_b!r}."
        )
    if rules.check_stride and _strides(actual) != _strides(expected):
        raise rules.fail(
            "The values for attribute 'stride()' do not match: "
            f"{_strides(actual)} != {_strides(expected)}."
        )
    rtol, atol = _tolerances(rules, (dtype_a, dtype_b))
    both = np.promote_types(a.dtype, b.dtype)
    both = np.promote_types(both, np.float64) if both.kind in "fc" else both
    a, b = a.astype(both), b.astype(both)
    close = _are_close(a, b, rtol, atol, rules.equal_nan)
    if not close.all():
        raise rules.fail(_report(a, b, close, rtol, atol))


def _strides(value: Any) -> tuple[int, ...]:
    array = value.array if isinstance(value, Tensor) else np.asarray(value)
    return tuple(stride // array.itemsize for stride in array.strides)


def _are_close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    if a.dtype.kind not in "fc":
        difference = np.where(a > b, a, b) - np.where(a > b, b, a) if a.dtype.kind != "b" else a ^ b
        return (a == b) | (difference <= atol + rtol * np.abs(b.astype(np.float64)))
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
        close = (a == b) | (finite & (np.abs(a - b) <= atol + rtol * np.abs(b)))
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


def _report(a: Any, b: Any, close: Any, rtol: float, atol: float) -> str:
    """Where and by how much two arrays differ."""
    wide = complex if a.dtype.kind == "c" else float
    with np.errstate(all="ignore"):
        absolute = np.where(close, 0, np.abs(a.astype(wide) - b.astype(wide)))
        relative = absolute / np.abs(b.astype(wide))
    relative = np.where(close, 0, relative)
    word = "equal" if rtol == atol == 0 else "close"
    if a.ndim == 0:
        return (
            f"Scalars are not {word}!\n\nExpected {b.item()} but got {a.item()}.\n"
            f"Absolute difference: {absolute.item()}{_up_to(atol)}\n"
            f"Relative difference: {relative.item()}{_up_to(rtol)}"
        )
    wrong = int((~close).sum())
    return (
        f"Tensor-likes are not {word}!\n\n"
        f"Mismatched elements: {wrong} / {a.size} ({wrong / a.size:.1%})\n"
        f"Greatest absolute difference: {_greatest(absolute)}{_up_to(atol)}\n"
        f"Greatest relative difference: {_greatest(relative)}{_up_to(rtol)}"
    )


def _greatest(differences: Any) -> str:
    place = np.unravel_index(int(np.argmax(differences)), differences.shape)
    return f"{differences[place]} at index {tuple(int(i) for i in place)}"
