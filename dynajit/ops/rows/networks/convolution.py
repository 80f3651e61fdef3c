"""Convolution and its two transposes: rows that are each other's derivatives.

Contract: `convolution` is bilinear in x (N, C, *sizes) and weight (O, C / groups, *size) and gives
(N, O, *counts); `convolution_input` and `convolution_weight` are its transposes in x and in weight.
The windows lie as `ops.rows.networks.windows` says, over one to three dims. All three stay one
node: most calls until code generation, which has kernels for them; the others until
`expand_composites` makes them windows and matrix products, or, where each group has one channel, a
product and a sum over the windows, which are fused. Eager execution uses
`ops.rows.networks.convolution_forms`.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.errors import DTypeError, DTypeNotImplementedError, ShapeError
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.core.types.value_types import Shape, Size, TensorType, ValueType, numel
from dynajit.ops.rows.composites import wide
from dynajit.ops.rows.networks import convolution_forms
from dynajit.ops.rows.networks.windows import Geometry, require_windows, window_counts
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import composite, describe, operand_type, require_tensor


def _operands(name: str, names: tuple[str, str], types: Sequence[ValueType | None]) -> Any:
    """The two operands' types: floating, of one dtype, of one rank of 3 to 5.

    Raises:
        DTypeError, ShapeError: they are not.
    """
    call = describe(name, names, types)
    first = require_tensor(types[0], call, names[0])
    second = require_tensor(types[1], call, names[1])
    if first.dtype is not second.dtype:
        raise DTypeError(
            f"{call}: Input type ({first.dtype.name}) and weight type ({second.dtype.name}) should "
            "be the same.  Cast one with .to(dtype)."
        )
    _require_floating(call, first.dtype)
    if not 3 <= first.rank <= 5 or second.rank != first.rank:
        raise ShapeError(
            f"{call}: expected two operands with 3 to 5 dimensions, batch and channels first, and "
            f"as many each, but got {first.rank} and {second.rank}."
        )
    return call, first, second


def _require_floating(call: object, dtype: DType) -> None:
    if not dtype.is_floating_point:
        raise DTypeNotImplementedError(
            f"{call}: convolution is not implemented for {dtype.name}.  Expected a floating dtype; "
            "cast with .float()."
        )


def _check_groups(call: object, outputs: Size, groups: int) -> None:
    if groups < 1 or not agree(outputs % groups, 0):
        raise ShapeError(
            f"{call}: Given groups={groups}, expected weight to be at least {groups} at dimension "
            f"0 and divisible by {groups}, but got {outputs} output channels."
        )


# ---------------------------------------------------------------------------------------------
# type rules


def _convolution_infer(
    x: ValueType | None,
    weight: ValueType | None,
    bias: ValueType | None,
    *,
    groups: int,
    **geometry: Any,
) -> TensorType:
    call, image, kernel = _operands("convolution", ("x", "weight"), (x, weight))
    outputs, per_group, *size = kernel.shape
    _check_groups(call, outputs, groups)
    if not agree(image.shape[1], per_group * groups):
        raise ShapeError(
            f"{call}: Given groups={groups}, weight of size {list(kernel.shape)}, expected input"
            f"{list(image.shape)} to have {per_group * groups} channels, but got {image.shape[1]} "
            "channels instead."
        )
    if bias is not None:
        vector = require_tensor(bias, call, "bias")
        if vector.rank != 1 or not agree(vector.shape[0], outputs):
            raise ShapeError(
                f"{call}: Given weight of size {list(kernel.shape)}, expected bias to be "
                f"1-dimensional with {outputs} elements, but got bias of size "
                f"{list(vector.shape)} instead."
            )
        if vector.dtype is not image.dtype:
            raise DTypeError(
                f"{call}: Input type ({image.dtype.name}) and bias type ({vector.dtype.name}) "
                "should be the same.  Cast one with .to(dtype)."
            )
    counts = require_windows(call, image.shape[2:], size, Geometry(**geometry))
    result: TensorType = image.with_shape((image.shape[0], outputs, *counts))
    return result


def _input_infer(
    y: ValueType | None, weight: ValueType | None, *, shape: Shape, groups: int, **geometry: Any
) -> TensorType:
    call, image, kernel = _operands("convolution_input", ("y", "weight"), (y, weight))
    outputs, per_group, *size = kernel.shape
    _check_groups(call, outputs, groups)
    if not agree(image.shape[1], outputs):
        raise ShapeError(
            f"{call}: Given transposed=1, weight of size {list(kernel.shape)}, expected input"
            f"{list(image.shape)} to have {outputs} channels, but got {image.shape[1]} channels "
            "instead."
        )
    _require_counts(call, image, shape, size, Geometry(**geometry))
    result: TensorType = image.with_shape((image.shape[0], per_group * groups, *shape))
    return result


def _weight_infer(
    y: ValueType | None, x: ValueType | None, *, size: Shape, groups: int, **geometry: Any
) -> TensorType:
    call, out, image = _operands("convolution_weight", ("y", "x"), (y, x))
    _check_groups(call, out.shape[1], groups)
    _check_groups(call, image.shape[1], groups)
    _require_counts(call, out, image.shape[2:], size, Geometry(**geometry))
    result: TensorType = out.with_shape((out.shape[1], image.shape[1] // groups, *size))
    return result


def _require_counts(
    call: object, out: TensorType, shape: Shape, size: Sequence[Size], geometry: Geometry
) -> None:
    counts = window_counts(shape, size, geometry)
    if not shapes_agree(out.shape[2:], counts):
        raise ShapeError(
            f"{call}: expected {list(counts)} outputs per channel for inputs of {list(shape)}, "
            f"but got {list(out.shape[2:])}."
        )


# ---------------------------------------------------------------------------------------------
# windows as columns

LANES: Final = 16
"""Columns that a product computes together, see `core.arrays._products`."""

COPIED: Final = 64
"""Products in whose time an element is copied, or so."""


def _shares_columns(
    batch: Size, outputs: Size, channels: Size, counts: Shape, size: Shape, groups: int
) -> bool:
    """True if the images of windows of one element are the columns of one product: where an image
    alone does not fill the vectors of its columns, and what that costs is more than copies."""
    plane = numel(counts)
    if groups != 1 or not all(isinstance(n, int) for n in (plane, outputs, channels)):
        return False
    if batch == 1 or any(k != 1 for k in size):
        return False
    whole = -(-plane // LANES) * LANES
    return min(outputs, channels) * (whole - plane) >= COPIED * whole


def _columns(
    ops: Any, x: Any, size: Shape, geometry: Geometry, groups: int, is_shared: bool
) -> Any:
    """The windows of x as matrices (N, groups, C / groups * numel(size), numel(counts)); without
    the dim of groups where there is one; as one, (C * numel(size), N * numel(counts)), if
    `is_shared`."""
    rank, n = len(x.shape), len(size)
    batch, channels = x.shape[:2]
    if _is_pointwise(size, geometry):
        cut, counts = x, tuple(x.shape[2:])
    else:
        cut = ops.windows(x, size=tuple(size), **geometry.attributes())
        counts = tuple(cut.shape[2:rank])
        dims = (0, 1, *range(rank, rank + n), *range(2, rank))
        cut = ops.permute(cut, dims=dims)
    inner = channels // groups * numel(tuple(size))
    if is_shared:
        flat = ops.reshape(cut, shape=(batch, inner, numel(counts)))
        turned = ops.permute(flat, dims=(1, 0, 2))
        return ops.reshape(turned, shape=(inner, batch * numel(counts)))
    lead = (batch,) if groups == 1 else (batch, groups)
    return ops.reshape(cut, shape=(*lead, inner, numel(counts)))


def _is_pointwise(size: Shape, geometry: Geometry) -> bool:
    """True if the windows are the elements of x."""
    return (
        all(isinstance(k, int) and k == 1 for k in size)
        and all(s == 1 for s in geometry.stride)
        and not any(geometry.before)
        and not any(geometry.after)
    )


def _matrices(ops: Any, x: Any, groups: int, is_shared: bool) -> Any:
    """x (N, groups * m, *counts) as (N, groups, m, numel(counts)), without groups where one; as
    (m, N * numel(counts)) if `is_shared`."""
    batch, channels, *counts = x.shape
    plane = numel(tuple(counts))
    if is_shared:
        turned = ops.permute(ops.reshape(x, shape=(batch, channels, plane)), dims=(1, 0, 2))
        return ops.reshape(turned, shape=(channels, batch * plane))
    flat = (channels,) if groups == 1 else (groups, channels // groups)
    return ops.reshape(x, shape=(batch, *flat, plane))


def _images(ops: Any, matrix: Any, batch: Size) -> Any:
    """A matrix (m, N * p) as (N, m, p): the reverse of `_matrices` where columns are shared."""
    rows, columns = matrix.shape
    return ops.permute(ops.reshape(matrix, shape=(rows, batch, columns // batch)), dims=(1, 0, 2))


def _kernel_matrices(ops: Any, weight: Any, groups: int) -> Any:
    """weight (groups * m, c, *size) as (groups, m, c * numel(size)), without groups where one."""
    outputs, *inner = weight.shape
    lead = (outputs,) if groups == 1 else (groups, outputs // groups)
    return ops.reshape(weight, shape=(*lead, numel(tuple(inner))))


def _swapped(ops: Any, x: Any) -> Any:
    rank = len(x.shape)
    return ops.permute(x, dims=(*range(rank - 2), rank - 1, rank - 2))


def _is_depthwise(channels: Size, groups: int) -> bool:
    return groups > 1 and isinstance(channels, int) and channels == groups


def _lanes(ops: Any, y: Any, weight: Any, groups: int) -> tuple[Any, Any]:
    """y as (N, groups, m, *counts, 1...) and weight as (groups, m, 1..., *size)."""
    batch, outputs, *counts = y.shape
    size = tuple(weight.shape[2:])
    ones = (1,) * len(size)
    out = ops.reshape(y, shape=(batch, groups, outputs // groups, *counts, *ones))
    kernel = ops.reshape(weight, shape=(groups, outputs // groups, *ones, *size))
    return out, kernel


# ---------------------------------------------------------------------------------------------
# the rows


def _convolution_vjp_x(
    ops: Any, g: Any, x_type: TensorType, weight: Any, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    return ops.convolution_input(
        g, weight, shape=x_type.shape[2:], stride=stride, before=before, after=after,
        dilation=dilation, groups=groups,
    )  # fmt: skip


def _convolution_vjp_weight(
    ops: Any, g: Any, x: Any, weight_type: TensorType, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    return ops.convolution_weight(
        g, x, size=weight_type.shape[2:], stride=stride, before=before, after=after,
        dilation=dilation, groups=groups,
    )  # fmt: skip


def _convolution_vjp_bias(ops: Any, g: Any) -> Any:
    return ops.sum(wide(ops, g), dim=(0, *range(2, len(g.shape))))


@composite(
    infer=_convolution_infer,
    array=convolution_forms.convolution,
    vjp={
        "x": _convolution_vjp_x,
        "weight": _convolution_vjp_weight,
        "bias": _convolution_vjp_bias,
    },
    layout=result_layouts.suggested_by_any,
    linear=("bias",),
    factors=("x", "weight"),
    flops=lambda out, x, weight, bias: 2 * math.prod(out) * math.prod(weight[1:]),
    samples=sample_rules.convolved,
    widens=True,
)
def convolution(
    ops: Any, x: Any, weight: Any, bias: Any, *, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """Sums of windows times weights (cross-correlation): x (N, C, *sizes), weight (O, C / groups,
    *size), bias (O) or None -> (N, O, *counts)."""
    geometry = Geometry(stride, before, after, dilation)
    result = _convolution_infer(
        operand_type(x), operand_type(weight), operand_type(bias), groups=groups,
        **geometry.attributes(),
    )  # fmt: skip
    size = tuple(weight.shape[2:])
    if _is_depthwise(x.shape[1], groups):
        out = _depthwise(ops, x, weight, size, geometry, groups)
    else:
        is_shared = _shares_columns(
            x.shape[0], weight.shape[0], weight.shape[1], tuple(result.shape[2:]), size, groups
        )
        columns = _columns(ops, x, size, geometry, groups, is_shared)
        out = ops.matmul(_kernel_matrices(ops, weight, groups), columns)
        out = _images(ops, out, x.shape[0]) if is_shared else out
    out = ops.reshape(out, shape=result.shape)
    if bias is not None:
        ones = (1,) * len(size)
        out = out + ops.reshape(bias, shape=(*bias.shape, *ones))
    return out


def _depthwise(ops: Any, x: Any, weight: Any, size: Shape, geometry: Geometry, groups: int) -> Any:
    """The convolution where each group has one channel."""
    batch, n = x.shape[0], len(size)
    cut = ops.windows(x, size=size, **geometry.attributes())
    counts = cut.shape[2 : 2 + n]
    lanes = ops.reshape(cut, shape=(batch, groups, 1, *counts, *size))
    kernel = ops.reshape(weight, shape=(groups, weight.shape[0] // groups, *((1,) * n), *size))
    return ops.sum(lanes * kernel, dim=tuple(range(3 + n, 3 + 2 * n)))


def _input_vjp_y(
    ops: Any, g: Any, weight: Any, stride: Any, before: Any, after: Any, dilation: Any, groups: int
) -> Any:
    return ops.convolution(
        g, weight, None, stride=stride, before=before, after=after, dilation=dilation,
        groups=groups,
    )  # fmt: skip


def _input_vjp_weight(
    ops: Any, g: Any, y: Any, weight_type: TensorType, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    return ops.convolution_weight(
        y, g, size=weight_type.shape[2:], stride=stride, before=before, after=after,
        dilation=dilation, groups=groups,
    )  # fmt: skip


@composite(
    infer=_input_infer,
    array=convolution_forms.convolution_input,
    vjp={"y": _input_vjp_y, "weight": _input_vjp_weight},
    layout=result_layouts.transposed,
    factors=("y", "weight"),
    flops=lambda out, y, weight: 2 * math.prod(y) * math.prod(weight[1:]),
    samples=sample_rules.convolved,
    widens=True,
)
def convolution_input(
    ops: Any, y: Any, weight: Any, *, shape: Shape, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """The transpose of `convolution` in x: y (N, O, *counts), weight (O, C / groups, *size) ->
    (N, C, *shape). A transposed convolution is this row."""
    geometry = Geometry(stride, before, after, dilation)
    result = _input_infer(
        operand_type(y), operand_type(weight), shape=shape, groups=groups, **geometry.attributes()
    )
    batch, channels = result.shape[:2]
    size, counts = tuple(weight.shape[2:]), tuple(y.shape[2:])
    n = len(size)
    if _is_depthwise(channels, groups):
        lanes, kernel = _lanes(ops, y, weight, groups)
        cut = ops.sum(lanes * kernel, dim=(2,))
    else:
        is_shared = _shares_columns(batch, weight.shape[0], weight.shape[1], counts, size, groups)
        matrices = _swapped(ops, _kernel_matrices(ops, weight, groups))
        columns = ops.matmul(matrices, _matrices(ops, y, groups, is_shared))
        columns = _images(ops, columns, batch) if is_shared else columns
        if _is_pointwise(size, geometry):
            return ops.reshape(columns, shape=result.shape)
        cut = ops.reshape(columns, shape=(batch, channels, *size, *counts))
        cut = ops.permute(cut, dims=(0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)))
    return ops.fold_windows(cut, shape=shape, **geometry.attributes())


def _weight_vjp_y(
    ops: Any, g: Any, x: Any, stride: Any, before: Any, after: Any, dilation: Any, groups: int
) -> Any:
    return ops.convolution(
        x, g, None, stride=stride, before=before, after=after, dilation=dilation, groups=groups
    )


def _weight_vjp_x(
    ops: Any, g: Any, y: Any, x_type: TensorType, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    return ops.convolution_input(
        y, g, shape=x_type.shape[2:], stride=stride, before=before, after=after,
        dilation=dilation, groups=groups,
    )  # fmt: skip


@composite(
    infer=_weight_infer,
    array=convolution_forms.convolution_weight,
    vjp={"y": _weight_vjp_y, "x": _weight_vjp_x},
    factors=("y", "x"),
    flops=lambda out, y, x: 2 * math.prod(y) * math.prod(out[1:]),
    samples=sample_rules.convolved_weight,
    widens=True,
)
def convolution_weight(
    ops: Any, y: Any, x: Any, *, size: Shape, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """The transpose of `convolution` in weight: y (N, O, *counts), x (N, C, *sizes) ->
    (O, C / groups, *size)."""
    geometry = Geometry(stride, before, after, dilation)
    result = _weight_infer(
        operand_type(y), operand_type(x), size=size, groups=groups, **geometry.attributes()
    )
    n = len(size)
    if _is_depthwise(x.shape[1], groups):
        cut = ops.windows(x, size=tuple(size), **geometry.attributes())
        counts = tuple(cut.shape[2 : 2 + n])
        lanes = ops.reshape(cut, shape=(x.shape[0], groups, 1, *counts, *size))
        outputs = y.shape[1] // groups
        factor = ops.reshape(y, shape=(x.shape[0], groups, outputs, *counts, *((1,) * n)))
        gradient = ops.sum(lanes * factor, dim=(0, *range(3, 3 + n)))
    else:
        is_shared = _shares_columns(
            x.shape[0], y.shape[1], x.shape[1], tuple(y.shape[2:]), tuple(size), groups
        )
        columns = _columns(ops, x, tuple(size), geometry, groups, is_shared)
        products = ops.matmul(_matrices(ops, y, groups, is_shared), _swapped(ops, columns))
        gradient = products if is_shared else ops.sum(products, dim=(0,))
    return ops.reshape(gradient, shape=result.shape)
