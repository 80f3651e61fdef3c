"""Reduction rows: many elements to one, along the dims in `dim`.

Contract: every row has the input `x` and the attributes `dim` (sorted, non-negative; an empty
tuple reduces nothing) and `keepdim`. Accumulators are tuples; `combine(m, a, b)` is associative
with `a` the earlier elements, so results may be combined in any grouping but not reordered.
PyTorch's signatures (`dim=None`, negative dims, `dtype=`) are normalised in `ops.functions`.
Source: the PyTorch 2.x documentation of `torch.<name>`.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops.native import _native_orders
from dynajit.ops.native._sums import add_reduce, sum_of
from dynajit.ops.table.families import (
    ACCUMULATED,
    POSITION,
    REAL,
    TRUTH,
    Decorator,
    reduced_shape,
    reduction,
)
from dynajit.ops.table.op_table import Autocast


def keep_dims(ops: Any, value: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool) -> Any:
    """A reduced value (or its gradient) with size 1 in each reduced dim.

    Args:
        ops: the op table.
        value: result of a reduction of a value of type `x_type` along `dim`.
        x_type: type of what was reduced.
        dim, keepdim: the reduction's attributes.
    """
    if keepdim or not dim:
        return value
    return ops.reshape(value, shape=reduced_shape(x_type.shape, dim, True))


def _sum_vjp(ops: Any, g: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool) -> Any:
    return keep_dims(ops, g, x_type, dim, keepdim)


# Elements summed one after the other before their sum is added to other sums: the error of a sum
# of n elements grows with BLOCK + log n instead of n, as in PyTorch's and NumPy's pairwise sums.
BLOCK: Final = 64


def _sum_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """In PyTorch's order where `sum_of` has it. NumPy sums pairwise along the innermost axis only:
    other long axes are summed in blocks."""
    if xp is np:
        found = sum_of(x, dim, keepdim)
        if found is not NotImplemented:
            return found
    # The size is asked first: on small arrays the search for long axes costs more than the sum.
    if x.size > 2 * BLOCK and x.ndim > 1 and x.dtype.kind in "fc":
        inner = min(range(x.ndim), key=lambda d: (x.shape[d] == 1, abs(x.strides[d])))
        for d in dim:
            if d != inner:
                x = _block_sums(xp, x, d)
    return xp.add.reduce(x, axis=dim, keepdims=keepdim)


def _block_sums(xp: Any, x: Any, d: int) -> Any:
    """x with dimension d replaced by at most 2 * BLOCK partial sums."""
    while x.shape[d] > 2 * BLOCK:
        count = x.shape[d] // BLOCK
        before = (slice(None),) * d
        whole = x[(*before, slice(0, count * BLOCK))]
        blocks = whole.reshape(*x.shape[:d], count, BLOCK, *x.shape[d + 1 :])
        sums = xp.add.reduce(blocks, axis=d + 1)
        rest = x[(*before, slice(count * BLOCK, None))]
        x = xp.concatenate([sums, xp.add.reduce(rest, axis=d, keepdims=True)], axis=d)
    return x


@reduction(
    array=_sum_array,
    ufunc="add",
    reduce=add_reduce,
    dtype=ACCUMULATED,
    identity=lambda dtype: (0,),
    vjp={"x": _sum_vjp},
    analytic=False,
    autocast=Autocast.FULL,
    takes=dtypes.UNSIGNED,
    linear=("x",),
)
def sum(m: Any, a: Any, b: Any) -> Any:
    """Sum along `dim`; 0 where empty. Dtype: as x if floating, else int64.

    16-bit floats accumulate in float32.
    """
    return (a[0] + b[0],)


def _prod_vjp(
    ops: Any, g: Any, x: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool
) -> Any:
    """The product of the other elements, right also where x has zeros, and differentiable.

    With `u` the zero elements (value 0, derivative 1), `s` the others (1 at the zeros) and `p` the
    product of `s`: one zero leaves the gradient p at the zero and p / s * u elsewhere (value 0,
    but its derivative is not), two zeros leave p times the other zero, more leave nothing up to
    second order.
    """
    is_zero = ops.eq(x, 0)
    zeros = ops.sum(is_zero, dim=dim, keepdim=True)
    u = ops.where(is_zero, x, 0.0)
    s = ops.where(is_zero, 1.0, x)
    p = ops.prod(s, dim=dim, keepdim=True)
    total = ops.sum(u, dim=dim, keepdim=True)
    elsewhere = ops.where(ops.eq(zeros, 0), 1.0, ops.where(ops.eq(zeros, 1), total, 0.0))
    at_zero = ops.where(ops.eq(zeros, 1), 1.0, ops.where(ops.eq(zeros, 2), total - u, 0.0))
    others = ops.where(is_zero, p * at_zero, p / s * elsewhere)
    return keep_dims(ops, g, x_type, dim, keepdim) * others


def _prod_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return xp.multiply.reduce(x, axis=dim, keepdims=keepdim)


@reduction(
    array=_prod_array,
    ufunc="multiply",
    dtype=ACCUMULATED,
    identity=lambda dtype: (1,),
    vjp={"x": _prod_vjp},
    domain=(0.3, 1.7),
    autocast=Autocast.FULL,
    takes=dtypes.UNSIGNED,
    single=True,
    scatters=True,
)
def prod(m: Any, a: Any, b: Any) -> Any:
    """Product along `dim`; 1 where empty. Dtype: as x if floating, else int64."""
    return (a[0] * b[0],)


def _extremum_vjp(
    ops: Any, g: Any, x: Any, out: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool
) -> Any:
    """Equal shares to all elements that equal the result; NaN, which nothing equals, gives NaN."""
    chosen = ops.eq(x, keep_dims(ops, out, x_type, dim, keepdim))
    count = ops.sum(chosen, dim=dim, keepdim=True)
    return keep_dims(ops, g, x_type, dim, keepdim) * chosen / count


def _extremum_of_all_vjp(
    ops: Any, g: Any, x: Any, out: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool
) -> Any:
    """Equal shares to all elements that equal the result, or are NaN, as it is then."""
    chosen = ops.logical_or(ops.eq(x, keep_dims(ops, out, x_type, dim, keepdim)), ops.ne(x, x))
    count = ops.sum(chosen, dim=dim, keepdim=True)
    return ops.where(chosen, keep_dims(ops, g, x_type, dim, keepdim) / count, 0.0)


def _undivided_vjp(
    ops: Any, g: Any, x: Any, out: Any, x_type: TensorType, dim: tuple[int, ...], keepdim: bool
) -> Any:
    """All of it to each element that equals the result."""
    chosen = ops.eq(x, keep_dims(ops, out, x_type, dim, keepdim))
    return ops.where(chosen, keep_dims(ops, g, x_type, dim, keepdim), 0.0)


def _amax_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return _extremum_array(xp, xp.maximum, x, dim, keepdim)


def _amin_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return _extremum_array(xp, xp.minimum, x, dim, keepdim)


def _extremum_array(xp: Any, function: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    if x.size:
        return function.reduce(x, axis=dim, keepdims=keepdim)
    return xp.empty(reduced_shape(x.shape, dim, keepdim), x.dtype)


def _extreme(ufunc: str, vjp: Callable[..., Any], scatters: bool = False) -> Decorator:
    """A row of the largest or smallest element, with the formula of its gradient."""
    return reduction(
        array=_amax_array if ufunc == "maximum" else _amin_array,
        ufunc=ufunc,
        dtype=REAL,
        identity=lambda dtype: None,
        vjp={"x": vjp},
        single=True,
        scatters=scatters,
    )


@_extreme("maximum", _extremum_vjp, scatters=True)
def amax(m: Any, a: Any, b: Any) -> Any:
    """Largest element along `dim`; NaN if there is one; ties share the gradient. Dtype: as x.

    Raises BoundsError where no element is left to choose.
    """
    return (m.maximum(a[0], b[0]),)


@_extreme("minimum", _extremum_vjp, scatters=True)
def amin(m: Any, a: Any, b: Any) -> Any:
    """Smallest element along `dim`; NaN if there is one; ties share the gradient. Dtype: as x.

    Raises BoundsError where no element is left to choose.
    """
    return (m.minimum(a[0], b[0]),)


@_extreme("maximum", _extremum_of_all_vjp)
def largest(m: Any, a: Any, b: Any) -> Any:
    """`amax` of all elements as `max` has it: if it is NaN, all that are NaN share the gradient."""
    return (m.maximum(a[0], b[0]),)


@_extreme("minimum", _extremum_of_all_vjp)
def smallest(m: Any, a: Any, b: Any) -> Any:
    """`amin` of all elements as `min` has it: if it is NaN, all that are NaN share the gradient."""
    return (m.minimum(a[0], b[0]),)


@_extreme("maximum", _undivided_vjp)
def farthest(m: Any, a: Any, b: Any) -> Any:
    """`amax` of differences, as distances have it: ties do not share the gradient."""
    return (m.maximum(a[0], b[0]),)


def _with_position(m: Any, x: Any, position: Any) -> tuple[Any, Any]:
    return x, position


def _position_of(m: Any, accumulator: tuple[Any, Any]) -> Any:
    return accumulator[1]


def _with_winner(
    m: Any, a: tuple[Any, Any], b: tuple[Any, Any], value: Any, better: Any
) -> tuple[Any, Any]:
    """`value`, and the later position if that is `better`, or NaN while the earlier is not.

    Choices inside each other: C compilers keep them in vector registers, and not conditions that
    are combined.
    """
    position = m.where(better, b[1], a[1])
    position = m.where(m.isnan(b[0]), b[1], position)
    return value, m.where(m.isnan(a[0]), a[1], position)


def _argmax_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return _position_array(xp, xp.argmax, x, dim, keepdim)


def _argmin_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return _position_array(xp, xp.argmin, x, dim, keepdim)


def _position_array(xp: Any, function: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """Row-major position among the reduced dims, which are moved together to the end."""
    if len(dim) == 1 and x.size:
        found = function(x, axis=dim[0])
        return xp.expand_dims(found, dim) if keepdim else found
    shape = reduced_shape(x.shape, dim, keepdim)
    if not x.size:
        return xp.zeros(shape, np.int64)
    kept = tuple(d for d in range(x.ndim) if d not in dim)
    moved = x.transpose(kept + dim)
    reduced = math.prod(x.shape[d] for d in dim)
    flat = moved.reshape([x.shape[d] for d in kept] + [reduced])
    return function(flat, axis=-1).reshape(shape)


def _positions(array: Callable[..., Any], native: Callable[..., Any]) -> Decorator:
    """A row of the position of the element that it chooses."""
    return reduction(
        array=array,
        native=native,
        dtype=POSITION,
        identity=lambda dtype: None,
        init=_with_position,
        finish=_position_of,
        gives_positions=True,
    )


@_positions(_argmax_array, _native_orders.argmax)
def argmax(m: Any, a: Any, b: Any) -> Any:
    """Row-major position, among the reduced dims, of the first largest element or first NaN.

    Dtype: int64; bool is refused. Raises BoundsError where no element is left to choose.
    """
    return _with_winner(m, a, b, m.maximum(a[0], b[0]), b[0] > a[0])


@_positions(_argmin_array, _native_orders.argmin)
def argmin(m: Any, a: Any, b: Any) -> Any:
    """Row-major position, among the reduced dims, of the first smallest element or first NaN.

    Dtype: int64; bool is refused. Raises BoundsError where no element is left to choose.
    """
    return _with_winner(m, a, b, m.minimum(a[0], b[0]), b[0] < a[0])


def _any_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return xp.logical_or.reduce(x, axis=dim, keepdims=keepdim)


def _all_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return xp.logical_and.reduce(x, axis=dim, keepdims=keepdim)


@reduction(
    array=_any_array,
    ufunc="logical_or",
    dtype=TRUTH,
    identity=lambda dtype: (False,),
    takes=dtypes.STORED,
)
def any(m: Any, a: Any, b: Any) -> Any:
    """Some element along `dim` is true (not 0; NaN is true). Dtype: bool (uint8 for uint8)."""
    return (m.logical_or(a[0], b[0]),)


@reduction(
    array=_all_array,
    ufunc="logical_and",
    dtype=TRUTH,
    identity=lambda dtype: (True,),
    takes=dtypes.STORED,
)
def all(m: Any, a: Any, b: Any) -> Any:
    """Every element along `dim` is true (not 0; NaN is true). Dtype: bool (uint8 for uint8)."""
    return (m.logical_and(a[0], b[0]),)
