"""Library functions of complex numbers: parts, conjugates, angles, and views as pairs.

Contract: as `ops.functions`. `conj`, `adjoint` and `H` of complex tensors are views, and so is the
negated imaginary part of a conjugate: tensors, and graph values, say by `_mirrors` what their
memory is seen as.
"""

import math
from typing import Any

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import (
    cast,
    describe_tensor,
    is_tensor,
    require_tensor,
    unchanged_by,
)
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.dtypes_of_operands import require_category
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.table.families import floating_of
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.overriding import PRIORITY


@public(out=Out.SAME_DTYPE)
def complex(real: Any, imag: Any) -> Any:
    """Complex numbers with the parts `real` and `imag`. Shape: broadcast.

    Raises:
        DTypeError: the parts are not both float32 or both float64.
    """
    for name, part in (("real", real), ("imag", imag)):
        require_tensor(part, "complex", name)
    return TABLE.complex(real, imag)


@public(out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.FULL)
def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers of magnitude `abs` at `angle` radians. Shape: broadcast.

    Raises:
        DTypeError: the operands are not both float32 or both float64.
    """
    for name, part in (("abs", abs), ("angle", angle)):
        require_tensor(part, "polar", name)
    require_category("polar", Category.FLOATING, abs=abs, angle=angle)
    if abs.dtype is not angle.dtype:
        raise DTypeError(
            f"polar: Expected object of dtype {abs.dtype.name} but got {angle.dtype.name} for "
            "second argument"
        )
    return TABLE.complex(TABLE.mul(abs, TABLE.cos(angle)), TABLE.mul(abs, TABLE.sin(angle)))


@public(out=Out.ABSENT)
def real(input: Any) -> Any:
    """The real parts, as a view; a real tensor itself."""
    if not input.dtype.is_complex:
        return input
    return TABLE.real(input)


@public(out=Out.ABSENT)
def imag(input: Any) -> Any:
    """The imaginary parts, as a view.

    Raises:
        DTypeError: the tensor is real.
    """
    if not input.dtype.is_complex:
        raise DTypeError("imag is not implemented for tensors with non-complex dtypes.")
    return TABLE.imag(input)


@public(out=Out.ABSENT)
def view_as_real(input: Any) -> Any:
    """A complex tensor seen as pairs of its parts. Shape: (*input.shape, 2).

    Raises:
        DTypeError: the tensor is real.
        ArgumentRuntimeError: it is a conjugate view.
    """
    if not require_tensor(input, "view_as_real").dtype.is_complex:
        raise DTypeError("view_as_real is only supported for complex tensors")
    return TABLE.view_as_real(input)


@public(out=Out.ABSENT)
@autocast(cpu=Autocast.FULL)
def view_as_complex(input: Any) -> Any:
    """Pairs along the last dimension seen as complex numbers. Shape: input.shape[:-1].

    Raises:
        DTypeError: neither float32 nor float64.
        ShapeError: the last dimension is not 2, or its pairs do not lie side by side in memory.
    """
    require_tensor(input, "view_as_complex")
    # Graph values, which have a priority above tensors' (`ops.table.dispatch`), know no strides:
    # capture asks what eager execution would have.
    if input.__dynajit_priority__ <= PRIORITY and input.shape and input.shape[-1] == 2:
        *outer, last = input.stride()
        if last != 1:
            raise ShapeError("view_as_complex: Tensor must have a last dimension with stride 1")
        if any(step % 2 for step in outer):
            raise ShapeError(
                "view_as_complex: Tensor must have a stride divisible by 2 for all but last "
                "dimension"
            )
    return TABLE.view_as_complex(input)


@public(out=Out.ABSENT, method=True)
def conj(input: Any) -> Any:
    """Complex conjugates, as a view through which writes reach `input`; a real tensor itself."""
    return TABLE.conj_view(input) if input.dtype.is_complex else input


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def conj_physical(input: Any) -> Any:
    """Complex conjugates; a real tensor itself. Complex ones are a new tensor, no view."""
    return TABLE.conj(input) if input.dtype.is_complex else input


@public(out=Out.ABSENT, method=True)
def resolve_conj(input: Any) -> Any:
    """The tensor itself, or a copy of a conjugate view."""
    return TABLE.clone(input) if is_conj(input) else input


@public(out=Out.ABSENT, method=True)
def resolve_neg(input: Any) -> Any:
    """The tensor itself, or a copy of a negated view."""
    return TABLE.clone(input) if is_neg(input) else input


@public(out=Out.ABSENT, method=True)
def is_conj(input: Any) -> bool:
    """Whether the memory of the tensor holds the conjugates of its elements."""
    return bool(input._mirrors()[0])


@public(out=Out.ABSENT, method=True)
def is_neg(input: Any) -> bool:
    """Whether the memory of the tensor holds the negatives of its elements."""
    return bool(input._mirrors()[1])


def neg_view(input: Any) -> Any:
    """`Tensor._neg_view`: negatives, as a view through which writes reach `input`."""
    return TABLE.neg_view(input)


def conj_view(input: Any) -> Any:
    """`Tensor._conj`: as `conj`, of complex tensors only."""
    return TABLE.conj_view(input)


@public(method=True)
def angle(input: Any) -> Any:
    """Angles in (-pi, pi]; of real numbers pi below 0, else 0, and NaN of NaN."""
    if input.dtype.is_complex:
        return TABLE.angle(input)
    x = cast(input, floating_of(input.dtype))
    if input.dtype.category is Category.BOOL:
        return TABLE.mul(x, 0.0)
    turned = TABLE.mul(cast(TABLE.lt(x, 0), x.dtype), math.pi)
    return unchanged_by(TABLE.where(TABLE.isnan(x), math.nan, turned), x)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True, sparse=True)
def sgn(input: Any) -> Any:
    """The sign of real numbers; of complex ones the number of magnitude 1 (or 0) in their
    direction."""
    return TABLE.sgn(input) if input.dtype.is_complex else TABLE.sign(input)


@public(out=Out.ABSENT, method=True)
def isreal(input: Any) -> Any:
    """True where the imaginary part is 0: everywhere in real tensors."""
    if input.dtype.is_complex:
        return TABLE.eq(TABLE.imag(input), 0)
    return TABLE.full(True, shape=tuple(input.shape), dtype=dtypes.bool_, device=input.device)


@public(out=Out.ABSENT, method=True)
def adjoint(input: Any) -> Any:
    """The last two dims swapped, and complex numbers conjugated.

    Raises:
        ShapeError: fewer than two dims.
    """
    rank = len(input.shape)
    if not rank:
        return conj(input)
    if rank < 2:
        raise ShapeError("tensor.adjoint() is only supported on matrices or batches of matrices.")
    return conj(TABLE.permute(input, dims=(*range(rank - 2), rank - 1, rank - 2)))


def hermitian(input: Any) -> Any:
    """`Tensor.H`: the conjugate transpose of a matrix.

    Raises:
        ShapeError: not two dims.
    """
    if len(input.shape) not in (0, 2):
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got "
            f"{describe_tensor(input) if is_tensor(input) else input}"
        )
    return adjoint(input)
