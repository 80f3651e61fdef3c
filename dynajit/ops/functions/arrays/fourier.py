"""NumPy's Fourier transforms, over tensors; `axis` is NumPy's word for `dim`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.types.dtypes import Category
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
    if not all(type(size) is int and size for size in a.shape):
        raise left("numpy.fft of sizes that vary, or of no elements,")
    return a


def _enter(name: str, function: Callable[..., Any]) -> None:
    @stands_for(getattr(np.fft, name), needs_rows=Order.NOT_KNOWN)
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        refuse_given(f"fft.{name}", out=out, n=n)
        x = _numbers(a)
        dim = axis_of(x, axis)
        if dim != len(x.shape) - 1:
            raise left(f"numpy.fft.{name} along another dim than the last")
        found = function(x, None, dim, norm)
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
