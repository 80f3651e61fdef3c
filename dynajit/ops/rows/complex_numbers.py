"""Rows of complex numbers: parts, conjugates, directions, and the two views between pairs and them.

Contract: complex64 has float32 parts, complex128 float64 ones; there is no complex dtype of 16-bit
floats. `real`, `imag`, `view_as_real` and `view_as_complex` are views; `conj_view` and `neg_view`
are, too, of memory that holds conjugates or negatives of their elements (`conj` is a copy). No
formula here is that of a complex derivative, so all of them are used as they stand (`Op.analytic`):
the gradient of a real loss L for z = x + iy is dL/dx + i dL/dy, as in PyTorch. Native code computes
with pairs (`ir.passes.split_complex_numbers`).
"""

from typing import Any

import numpy as np

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import equals
from dynajit.core.types.value_types import Shape, TensorType, ValueType
from dynajit.ops.native import _vecmath
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import (
    broadcast_shapes,
    common_device,
    describe,
    extern,
    movement,
    require_tensor,
)
from dynajit.ops.table.scalar import Effort, Result, define, scalar


def _complex(name: str, x: ValueType) -> TensorType:
    """The type of a complex operand.

    Raises:
        DTypeError: it is real.
    """
    call = describe(name, ("x",), (x,))
    type = require_tensor(x, call, "x")
    if not type.dtype.is_complex:
        raise DTypeError(f"{call}: {type.dtype.name} is refused.  Expected a complex dtype.")
    return type


def _parts_infer(name: str) -> Any:
    def infer(x: ValueType) -> TensorType:
        type = _complex(name, x)
        return type.with_shape(type.shape).with_dtype(dtypes.real_of(type.dtype))

    return infer


def _same_infer(name: str) -> Any:
    def infer(x: ValueType) -> TensorType:
        type = _complex(name, x)
        return type.with_shape(type.shape)

    return infer


# ---------------------------------------------------------------------------------------------
# views


def _doubled(sizes: Shape, strides: Shape, wanted: Shape) -> Shape:
    """Strides in real numbers."""
    return tuple(2 * stride for stride in strides)


@movement(
    infer=_parts_infer("real"),
    array=lambda xp, x: x.real,
    view=True,
    vjp={"x": lambda g: g},
    pairs=lambda ops, x: x[0],
    strides=_doubled,
    whole=lambda ops, x, part: ops.complex(part, ops.imag(x)),
    samples=sample_rules.leading,
)
def real(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The real parts of complex x. Shape: as x."""
    return m.real(load(0, index))


@movement(
    infer=_parts_infer("imag"),
    array=lambda xp, x: x.imag,
    view=True,
    vjp={"x": lambda g: g * 1j},
    pairs=lambda ops, x: x[1],
    strides=_doubled,
    whole=lambda ops, x, part: ops.complex(ops.real(x), part),
    samples=sample_rules.leading,
)
def imag(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The imaginary parts of complex x. Shape: as x."""
    return m.imag(load(0, index))


def _view_as_real_infer(x: ValueType) -> TensorType:
    type = _complex("view_as_real", x)
    return type.with_shape((*type.shape, 2)).with_dtype(dtypes.real_of(type.dtype))


def _parts_side_by_side(ops: Any, x: tuple[Any, Any]) -> Any:
    """Both parts along a new last dimension."""
    shape = (*x[0].shape, 1)
    return ops.cat(*(ops.reshape(part, shape=shape) for part in x), dim=len(shape) - 1)


def _view_as_real_array(xp: Any, x: Any) -> Any:
    """A last dimension over the two parts; NumPy reinterprets memory along a dense last one."""
    return x[..., None].view(x.real.dtype)


@movement(
    infer=_view_as_real_infer,
    array=_view_as_real_array,
    view=True,
    vjp={"x": lambda ops, g: ops.view_as_complex(g)},
    pairs=_parts_side_by_side,
    strides=lambda sizes, strides, wanted: (*(2 * stride for stride in strides), 1),
    whole=lambda ops, x, part: ops.view_as_complex(part),
    samples=sample_rules.leading,
)
def view_as_real(m: Any, load: Any, index: Any, types: Any) -> Any:
    """Complex x as pairs of its parts. Shape: (*x.shape, 2)."""
    value = load(0, index[:-1])
    return m.where(m.equal(index[-1], 0), m.real(value), m.imag(value))


def _view_as_complex_infer(x: ValueType) -> TensorType:
    call = describe("view_as_complex", ("x",), (x,))
    type = require_tensor(x, call, "x")
    if type.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(
            f"{call}: view_as_complex is only supported for float and double tensors, but got a "
            f"tensor of {type.dtype.name}."
        )
    if not type.rank:
        raise ShapeError(f"{call}: Input tensor must have one or more dimensions")
    if not equals(type.shape[-1], 2):
        raise ShapeError(f"{call}: Tensor must have a last dimension of size 2")
    return type.with_shape(type.shape[:-1]).with_dtype(dtypes.complex_of(type.dtype))


def _parts_of_last_dim(ops: Any, x: Any) -> tuple[Any, ...]:
    last = len(x.shape) - 1
    return tuple(ops.select(x, dim=last, index=k) for k in (0, 1))


def _view_as_complex_array(xp: Any, x: Any) -> Any:
    """A copy where the pairs do not lie side by side, as gradients may."""
    if x.strides[-1] != x.itemsize or any(step % (2 * x.itemsize) for step in x.strides[:-1]):
        x = xp.array(x, order="C")
    return x.view(dtypes.complex_of(dtypes.from_numpy(x.dtype)).numpy)[..., 0]


@movement(
    infer=_view_as_complex_infer,
    array=_view_as_complex_array,
    view=True,
    vjp={"x": lambda ops, g: ops.view_as_real(g)},
    pairs=_parts_of_last_dim,
    strides=lambda sizes, strides, wanted: tuple(stride // 2 for stride in strides[:-1]),
    whole=lambda ops, x, part: ops.view_as_real(part),
    samples=sample_rules.leading,
)
def view_as_complex(m: Any, load: Any, index: Any, types: Any) -> Any:
    """Pairs along the last dimension as complex numbers. Shape: x.shape[:-1]."""
    return m.complex(load(0, (*index, 0)), load(0, (*index, 1)))


@movement(
    infer=_same_infer("conj_view"),
    array=lambda xp, x: xp.conj(x),
    view=True,
    mirrors=True,
    vjp={"x": lambda ops, g: ops.conj(g)},
    pairs=lambda ops, x: (x[0], -x[1]),
    strides=lambda sizes, strides, wanted: strides,
    whole=lambda ops, x, part: ops.conj(part),
    samples=sample_rules.leading,
)
def conj_view(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The conjugates of complex x, as a view. Shape, dtype: as x."""
    value = load(0, index)
    return m.complex(m.real(value), m.neg(m.imag(value)))


def _neg_view_infer(x: ValueType) -> TensorType:
    call = describe("neg_view", ("x",), (x,))
    type = require_tensor(x, call, "x")
    if type.dtype is dtypes.bool_:
        raise DTypeError(f"{call}: bool has no negatives.")
    return type.with_shape(type.shape)


@movement(
    infer=_neg_view_infer,
    array=lambda xp, x: xp.negative(x),
    view=True,
    mirrors=True,
    vjp={"x": lambda ops, g: ops.neg(g)},
    strides=lambda sizes, strides, wanted: strides,
    whole=lambda ops, x, part: ops.neg(part),
    samples=sample_rules.leading,
)
def neg_view(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The negatives of x, as a view. Shape, dtype: as x."""
    dtype = types[0].dtype
    return m.cast(m.neg(m.cast(load(0, index), dtypes.compute_dtype(dtype))), dtype)


# ---------------------------------------------------------------------------------------------
# functions


def _complex_infer(real: ValueType, imag: ValueType) -> TensorType:
    call = describe("complex", ("real", "imag"), (real, imag))
    x, y = require_tensor(real, call, "real"), require_tensor(imag, call, "imag")
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(
            f"{call}: Expected both inputs to be Float or Double tensors but got {x.dtype.name} "
            f"and {y.dtype.name}."
        )
    if x.dtype is not y.dtype:
        raise DTypeError(f"{call}: Expected both inputs to have one dtype.")
    shape = broadcast_shapes([x.shape, y.shape], call)
    return TensorType(shape, dtypes.complex_of(x.dtype), common_device((x, y), call))


def _complex_of_arrays(real: np.ndarray, imag: np.ndarray) -> Any:
    """Parts may be infinite."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty_like(real, np.result_type(real.dtype, np.complex64), order="C")
    result.real, result.imag = real, imag
    return result


for _name, _arity, _function in (
    ("real", 1, lambda x: x.real), ("imag", 1, lambda x: x.imag),
    ("complex", 2, _complex_of_arrays),
):  # fmt: skip
    _made = scalar(_function, result=Result.GIVEN, floating=None, effort=Effort.SOME)
    define(_made(_name, _arity))


@extern(
    infer=_complex_infer,
    vjp={"real": lambda ops, g: ops.real(g), "imag": lambda ops, g: ops.imag(g)},
    analytic=False,
    name="complex",
    layout=result_layouts.iterated,
    pairs=lambda ops, real, imag: (real, imag),
    linear=("real", "imag"),
    samples=sample_rules.pointwise,
)
def complex_(xp: Any, real: Any, imag: Any) -> Any:
    """The complex numbers with these parts. Shape: broadcast."""
    return _complex_of_arrays(real, imag)


@extern(
    infer=_same_infer("conj"),
    vjp={"x": lambda ops, g: ops.conj(g)},
    analytic=False,
    layout=result_layouts.iterated,
    pairs=lambda ops, x: (x[0], -x[1]),
    linear=("x",),
    samples=sample_rules.pointwise,
)
def conj(xp: Any, x: Any) -> Any:
    """Complex conjugates. Shape, dtype: as x."""
    return xp.conj(x)


def _sgn_vjp(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """i s Im(g conj(s)) / |x|: what turns z, of what g says; 0 at 0."""
    size = ops.abs(x)
    is_zero = ops.eq(size, 0)
    turn = ops.imag(g * ops.conj(out)) / ops.where(is_zero, 1.0, size)
    return ops.where(is_zero, 0.0, turn) * (out * 1j)


def _sgn_of_pairs(ops: Any, x: tuple[Any, Any]) -> tuple[Any, ...]:
    size = ops.hypot(*x)
    is_zero = ops.eq(size, 0.0)
    return tuple(ops.where(is_zero, 0.0, part / size) for part in x)


@extern(
    infer=_same_infer("sgn"),
    vjp={"x": _sgn_vjp},
    analytic=False,
    layout=result_layouts.iterated,
    pairs=_sgn_of_pairs,
    samples=sample_rules.pointwise,
)
def sgn(xp: Any, x: Any) -> Any:
    """x / |x|, and 0 at 0. Shape, dtype: as x."""
    size = xp.abs(x)
    return xp.where(size == 0, 0, x / size)


def _angle_vjp(ops: Any, g: Any, x: Any) -> Any:
    """g i x / |x|^2; 0 at 0."""
    square = ops.square(ops.abs(x))
    is_zero = ops.eq(square, 0)
    return ops.where(is_zero, 0.0, g / ops.where(is_zero, 1.0, square)) * (x * 1j)


@extern(
    infer=_parts_infer("angle"),
    vjp={"x": _angle_vjp},
    analytic=False,
    layout=result_layouts.iterated,
    pairs=lambda ops, x: ops.atan2(x[1], x[0]),
    samples=sample_rules.pointwise,
)
def angle(xp: Any, x: Any) -> Any:
    """Angles of complex x in (-pi, pi], in radians. Shape: as x."""
    return _vecmath.arctan2(x.imag, x.real)
