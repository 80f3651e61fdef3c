"""NumPy's Fourier transforms, over tensors; `axis` is NumPy's word for `dim`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt, is_at_least
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axis_of, in_dtype, refuse_given
from dynajit.ops.functions.signals import fourier
from dynajit.ops.table.op_table import TABLE


def _numbers(a: Any) -> Any:
    a = as_tensor(a)
    if a.dtype.category in (Category.BOOL, Category.INTEGER):
        return in_dtype(a, np.float64)
    if a.dtype.name not in ("float64", "complex128"):
        raise left("numpy.fft of short numbers")
    if not all(is_at_least(size, 1) for size in a.shape):
        raise left("numpy.fft of no elements")
    return a


def _enter(name: str, function: Callable[..., Any]) -> None:
    @stands_for(getattr(np.fft, name), needs_rows=Order.NOT_KNOWN)
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        refuse_given(f"fft.{name}", out=out)
        x = _numbers(a)
        if n is not None and not (type(n) in (int, SymInt) and is_at_least(n, 1)):
            raise left(f"numpy.fft.{name} of so few numbers")
        found = function(x, n, axis_of(x, axis), norm)
        return TABLE.laid_out(found, order=tuple(range(len(found.shape))))


for _name in ("fft", "ifft", "rfft", "irfft"):
    _enter(_name, getattr(fourier, _name))


def _enter_several(name: str, function: Callable[..., Any]) -> None:
    @stands_for(getattr(np.fft, name), needs_rows=Order.NOT_KNOWN)
    def transform(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None,
                  out: Any = None) -> Any:  # fmt: skip
        refuse_given(f"fft.{name}", out=out, s=s)
        x = _numbers(a)
        if axes != (-2, -1) or len(x.shape) != 2:
            raise left(f"numpy.fft.{name} of other than matrices")
        found = function(x, None, (-2, -1), norm)
        return TABLE.laid_out(found, order=(0, 1))


for _name in ("fft2", "ifft2"):
    _enter_several(_name, getattr(fourier, _name))
