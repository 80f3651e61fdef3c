"""Rows of discrete Fourier transforms: of complex numbers, from real ones, and back to them.

Contract: sizes are those of the operand: `ops.functions.signals.fourier` cuts and pads before.
`norm` says what
the sums are divided by: nothing ("none"), the root of the number of elements ("ortho"), or that
number ("full"). Single precision stays single. `scipy.fft` computes, on a GPU `cupy.fft`; graphs
with such a row run on NumPy.

The transforms are linear, so each gradient is the adjoint transform, with the same division. Those
between real and complex numbers see only half of the frequencies: the others are their conjugates,
which the adjoint counts by a factor of 2 or 1/2 for all frequencies but 0 and n / 2.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.process.optional import load
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree
from dynajit.core.types.value_types import Size, TensorType, ValueType
from dynajit.ops.rows.composites import count_operand
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import describe, extern, require_tensor

#: SciPy's names of the divisions: a forward transform divides by n under "forward".
_FORWARD: Final[Mapping[str, str]] = {"none": "backward", "ortho": "ortho", "full": "forward"}
_INVERSE: Final[Mapping[str, str]] = {"none": "forward", "ortho": "ortho", "full": "backward"}


def _transforms(xp: Any) -> Any:
    """The module with the transforms: SciPy's on the CPU, CuPy's on a GPU."""
    if xp is not np:
        return xp.fft
    return load("scipy.fft", needed_for="a Fourier transform", install="scipy")


def _operand(name: str, x: ValueType, is_complex: bool) -> TensorType:
    """The type of the operand.

    Raises:
        DTypeError: not a complex dtype, or not float32 or float64.
    """
    call = describe(name, ("x",), (x,))
    type = require_tensor(x, call, "x")
    fits = type.dtype.is_complex if is_complex else type.dtype in (dtypes.float32, dtypes.float64)
    if not fits:
        wanted = "complex numbers" if is_complex else "float32 or float64"
        raise DTypeError(f"{call}: {type.dtype.name} is refused.  Expected {wanted}.")
    return type


def _resized(type: TensorType, dim: int, size: Size) -> tuple[Size, ...]:
    return (*type.shape[:dim], size, *type.shape[dim + 1 :])


# ---------------------------------------------------------------------------------------------
# complex to complex


def _fourier_infer(x: ValueType, *, dims: tuple[int, ...], inverse: bool, norm: str) -> TensorType:
    type = _operand("fourier", x, True)
    return type.with_shape(type.shape)


@extern(
    infer=_fourier_infer,
    vjp={
        "x": lambda ops, g, dims, inverse, norm: ops.fourier(
            g, dims=dims, inverse=not inverse, norm=norm
        )
    },
    analytic=False,
    linear=("x",),
    samples=sample_rules.along("dims"),
)
def fourier(xp: Any, x: Any, *, dims: tuple[int, ...], inverse: bool, norm: str) -> Any:
    """Sums of x[j] exp(-2 pi i j k / n) along `dims`, with the other sign if `inverse`."""
    if not dims or not x.size:
        return xp.array(x)
    if inverse:
        return _transforms(xp).ifftn(x, axes=dims, norm=_INVERSE[norm])
    return _transforms(xp).fftn(x, axes=dims, norm=_FORWARD[norm])


# ---------------------------------------------------------------------------------------------
# real to half of the complex frequencies, and back


def _weighted(ops: Any, half: Any, dim: int, size: Size, factor: float) -> Any:
    """`half` times `factor`, but for the frequencies 0 and size / 2, which have no conjugates."""
    count = half.shape[dim]
    index = ops.arange(0, 1, size=count, dtype=dtypes.int64, device=half.device)
    single = ops.logical_or(ops.eq(index, 0), ops.eq(index * 2, count_operand(ops, size)))
    weights = ops.where(single, 1.0, factor)
    shape = tuple(count if d == dim else 1 for d in range(len(half.shape)))
    return half * ops.reshape(weights, shape=shape)


def _half_fourier_infer(x: ValueType, *, dim: int, norm: str) -> TensorType:
    type = _operand("half_fourier", x, False)
    shape = _resized(type, dim, type.shape[dim] // 2 + 1)
    return type.with_shape(shape).with_dtype(dtypes.complex_of(type.dtype))


def _half_fourier_vjp(ops: Any, g: Any, x_type: TensorType, dim: int, norm: str) -> Any:
    size = x_type.shape[dim]
    return ops.real_fourier(_weighted(ops, g, dim, size, 0.5), dim=dim, size=size, norm=norm)


@extern(
    infer=_half_fourier_infer,
    vjp={"x": _half_fourier_vjp},
    analytic=False,
    linear=("x",),
    samples=sample_rules.along("dim"),
)
def half_fourier(xp: Any, x: Any, *, dim: int, norm: str) -> Any:
    """The frequencies 0 to n // 2 of `fourier` along `dim`, of real x with n elements there."""
    if not x.size:
        type = TensorType(x.shape, dtypes.from_numpy(x.dtype))
        shape = _resized(type, dim, x.shape[dim] // 2 + 1)
        return xp.zeros(shape, dtypes.complex_of(type.dtype).numpy)
    return _transforms(xp).rfft(x, axis=dim, norm=_FORWARD[norm])


def _real_fourier_infer(x: ValueType, *, dim: int, size: Size, norm: str) -> TensorType:
    type = _operand("real_fourier", x, True)
    if not agree(type.shape[dim], size // 2 + 1):
        raise ShapeError(
            f"real_fourier(x: {type}, dim={dim}, size={size}): expected {size // 2 + 1} "
            "frequencies along dim."
        )
    return type.with_shape(_resized(type, dim, size)).with_dtype(dtypes.real_of(type.dtype))


def _real_fourier_vjp(ops: Any, g: Any, dim: int, size: Size, norm: str) -> Any:
    return _weighted(ops, ops.half_fourier(g, dim=dim, norm=norm), dim, size, 2.0)


@extern(
    infer=_real_fourier_infer,
    vjp={"x": _real_fourier_vjp},
    analytic=False,
    linear=("x",),
    samples=sample_rules.along("dim"),
)
def real_fourier(xp: Any, x: Any, *, dim: int, size: Size, norm: str) -> Any:
    """The inverse `fourier` along `dim`, of `size` elements, which are real: x has the frequencies
    0 to size // 2, and the others are their conjugates."""
    if not x.size:
        type = TensorType(x.shape, dtypes.from_numpy(x.dtype))
        return xp.zeros(_resized(type, dim, size), dtypes.real_of(type.dtype).numpy)
    return _transforms(xp).irfft(x, n=size, axis=dim, norm=_INVERSE[norm])
