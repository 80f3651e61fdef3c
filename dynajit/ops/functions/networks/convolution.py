"""Convolutions and their windows with the signatures of `torch.nn.functional`.

Contract: tensors in, tensors out; complex ones by their parts. Where sizes are symbolic, what a
check finds is decided by the sizes of the present call and guarded. `dynajit.nn.functional`
publishes them.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import DTypeError, ShapeError, ShapeValueError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, equals
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls.arguments import integers, is_integer, require_tensor
from dynajit.ops.calls.arguments import size as size_argument
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.elements.complex import complex as of_parts
from dynajit.ops.rows.networks.windows import Geometry, remembered, window_counts
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def per_dim(value: Any, n: int, name: str, function: str) -> tuple[int, ...]:
    """One integer per dim, from one for all or from as many; kernels are made for those of the
    call, so symbolic ones become known.

    Raises:
        ShapeError: neither.
    """
    if type(value) is int:
        return (value,) * n
    if is_integer(value):
        return (_known(value, function),) * n
    given = tuple([v if type(v) is int else _known(v, function) for v in value])
    return _one_per_dim(given, n, name, function)


def _one_per_dim(entries: tuple[Any, ...], n: int, name: str, function: str) -> tuple[Any, ...]:
    if len(entries) == 1:
        return entries * n
    if len(entries) != n:
        raise ShapeError(
            f"{function}: expected {name} to be a single integer value or a list of {n} values to "
            f"match the convolution dimensions, but got {name}={list(entries)}."
        )
    return entries


def _known(number: Any, function: str) -> int:
    return operator.index(size_argument(number, function))


def require_range(
    values: Sequence[Any], least: int, name: str, function: str, word: str = "must be"
) -> None:
    """Refuse entries below `least`.

    Raises:
        ShapeError: there is one.
    """
    for value in values:
        if value < least:
            wanted = "greater than zero" if least == 1 else "non-negative"
            raise ShapeError(f"{function}: {name} {word} {wanted}, but got {list(values)}.")


def batched(
    input: Any, n: int, function: str, run: Callable[[Any], Any], names: str = "convolution"
) -> Any:
    """`run` on (N, C, *sizes); an input (C, *sizes) is a batch of one.

    Raises:
        ShapeError: the input has another number of dims.
    """
    require_tensor(input, function)
    rank = len(input.shape)
    if rank == n + 2:
        return run(input)
    if rank != n + 1:
        # Of the adaptive pools PyTorch compares these sizes in Python, where a list is too short.
        is_short = rank <= n and n > 1 and function.startswith("adaptive")
        raise (ShapeValueError if is_short else ShapeError)(
            f"{function}: Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {names}, "
            f"but got input of size: {list(input.shape)}."
        )
    result = run(TABLE.reshape(input, shape=(1, *input.shape)))
    if isinstance(result, tuple):
        return tuple(TABLE.reshape(part, shape=tuple(part.shape)[1:]) for part in result)
    return TABLE.reshape(result, shape=tuple(result.shape)[1:])


@remembered
def require_positive_counts(
    sizes: Shape, size: tuple[Size, ...], geometry: Geometry, function: str
) -> Shape:
    """How many windows there are; asks about symbolic sizes, too.

    Raises:
        ShapeError: a window does not fit.
    """
    counts = window_counts(sizes, size, geometry)
    if any(count < 1 for count in counts):
        padded = [n + b + a for n, b, a in zip(sizes, geometry.before, geometry.after, strict=True)]
        spans = [d * (k - 1) + 1 for d, k in zip(geometry.dilation, size, strict=True)]
        raise ShapeError(
            f"{function}: Calculated padded input size per channel: {padded}.  Kernel size: "
            f"{spans}.  Kernel size can't be greater than actual input size."
        )
    return counts


# ---------------------------------------------------------------------------------------------
# convolutions


def _padding_of(
    padding: Any, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int], function: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each dim, from numbers, "valid" or "same"."""
    n = len(size)
    if not isinstance(padding, str):
        amounts = per_dim(padding, n, "padding", function)
        require_range(amounts, 0, "negative padding is not supported: padding", function)
        return amounts, amounts
    if padding == "valid":
        return (0,) * n, (0,) * n
    if padding != "same":
        raise ShapeError(
            f"{function}: Invalid padding string {padding!r}, should be one of 'valid', 'same'."
        )
    if any(step != 1 for step in stride):
        raise ShapeError(f"{function}: padding='same' is not supported for strided convolutions.")
    total = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def _require_kernel(weight: Any, n: int, function: str) -> tuple[int, ...]:
    require_tensor(weight, function, "weight")
    if len(weight.shape) != n + 2:
        raise ShapeError(
            f"{function}: Expected {n + 2}-dimensional weight, but got weight of size "
            f"{list(weight.shape)} instead."
        )
    return tuple(weight.shape)[2:]


def _by_parts(product: Callable[[Any, Any], Any], x: Any, weight: Any) -> Any:
    """`product(x, weight)`, which is linear in both; of complex ones by those of their parts."""
    if not (x.dtype.is_complex and weight.dtype.is_complex):
        return product(x, weight)
    a, b = TABLE.real(x), TABLE.imag(x)
    c, d = TABLE.real(weight), TABLE.imag(weight)
    real = TABLE.sub(product(a, c), product(b, d))
    return of_parts(real, TABLE.add(product(a, d), product(b, c)))


def _require_bias(bias: Any, channels: Size, words: str, weight: Any) -> None:
    if len(bias.shape) != 1 or not agree(bias.shape[0], channels):
        raise ShapeError(
            f"{words} weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{channels} elements, but got bias of size {list(bias.shape)} instead."
        )


def _plus_bias(result: Any, bias: Any, function: str) -> Any:
    """The result, (N, C, *sizes), and a number for each channel.

    Raises:
        DTypeError: they differ in dtype.
    """
    if bias.dtype is not result.dtype:
        raise DTypeError(
            f"{function}: Input type ({result.dtype.name}) and bias type ({bias.dtype.name}) "
            "should be the same.  Cast one with .to(dtype)."
        )
    return _plus_channels(result, bias)


def _plus_channels(result: Any, bias: Any) -> Any:
    return TABLE.add(
        result, TABLE.reshape(bias, shape=(*bias.shape, *((1,) * (len(result.shape) - 2))))
    )


def _plus_any_bias(result: Any, bias: Any, function: str) -> Any:
    """The same of a real result and a bias of another dtype: the sum has the result's dtype.

    Raises:
        DTypeError: the result is complex, or of a lesser kind than the bias.
    """
    if result.dtype.is_complex:
        return _plus_bias(result, bias, function)
    total = _plus_channels(result, bias)
    if total.dtype.category is not result.dtype.category:
        raise DTypeError(
            f"{function}: result type {total.dtype.name} can't be cast to the desired output type "
            f"{result.dtype.name}.  Cast the bias with .to(dtype)."
        )
    return TABLE.cast(total, dtype=result.dtype)


def _is_of_integers(
    x: "TensorMethods", weight: Any, function: str, only_int64: bool = False
) -> bool:
    """Whether a convolution is one of integers, of one dtype.

    Raises:
        UnsupportedError: bools; other integers than int64 where only those are computed.
    """
    if x.dtype is not weight.dtype or x.dtype.category not in (Category.BOOL, Category.INTEGER):
        return False
    if x.dtype.category is Category.BOOL or (only_int64 and x.dtype is not dtypes.int64):
        raise UnsupportedError(
            f"{function} is not implemented for {x.dtype.name}.  Cast with .long() or .float()."
        )
    return True


def _require_channels(x: "TensorMethods", channels: Size, groups: int, function: str) -> None:
    if groups < 1 or not agree(x.shape[1], channels):
        raise ShapeError(
            f"{function}: expected input of shape {list(x.shape)} to have {channels} channels with "
            f"groups={groups}."
        )


def _integer_windows(
    x: "TensorMethods", weight: Any, geometry: Geometry, groups: int, function: str
) -> Any:
    """A convolution of integers, which wrap: a product of the windows and the kernels."""
    _require_channels(x, weight.shape[1] * groups, groups, function)
    size, out = tuple(weight.shape)[2:], weight.shape[0]
    windows = TABLE.windows(x, size=size, value=0, **geometry.attributes())
    counts = tuple(windows.shape)[2 : 2 + len(size)]
    inside, spots, terms = weight.shape[1], numel(counts), numel(size)
    apart = TABLE.reshape(windows, shape=(x.shape[0], groups, inside, spots, terms))
    rows = TABLE.reshape(
        TABLE.permute(apart, dims=(0, 1, 3, 2, 4)),
        shape=(x.shape[0], groups, spots, inside * terms),
    )
    kernels = TABLE.reshape(weight, shape=(groups, out // groups, inside * terms))
    products = TABLE.matmul(rows, TABLE.permute(kernels, dims=(0, 2, 1)))
    turned = TABLE.permute(products, dims=(0, 1, 3, 2))
    return TABLE.reshape(turned, shape=(x.shape[0], out, *counts))


def _integer_windows_added(
    x: "TensorMethods", weight: Any, shape: Any, geometry: Geometry, groups: int, function: str
) -> Any:
    """A transposed convolution of integers: what each window gets, added up."""
    _require_channels(x, weight.shape[0], groups, function)
    size, counts, out = tuple(weight.shape)[2:], tuple(x.shape)[2:], weight.shape[1]
    inside, spots, terms = weight.shape[0] // groups, numel(counts), numel(size)
    rows = TABLE.permute(
        TABLE.reshape(x, shape=(x.shape[0], groups, inside, spots)), dims=(0, 1, 3, 2)
    )
    kernels = TABLE.reshape(weight, shape=(groups, inside, out * terms))
    products = TABLE.reshape(
        TABLE.matmul(rows, kernels), shape=(x.shape[0], groups, spots, out, terms)
    )
    turned = TABLE.permute(products, dims=(0, 1, 3, 2, 4))
    windows = TABLE.reshape(turned, shape=(x.shape[0], groups * out, *counts, *size))
    return TABLE.fold_windows(windows, shape=tuple(shape), **geometry.attributes())


def _convolve(
    n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    function = f"conv{n}d"
    size = _require_kernel(weight, n, function)
    steps = per_dim(stride, n, "stride", function)
    groups = groups if type(groups) is int else _known(groups, function)
    gaps = per_dim(dilation, n, "dilation", function)
    require_range(steps, 1, "non-positive stride is not supported: stride", function)
    require_range(gaps, 1, "dilation", function)
    before, after = _padding_of(padding, size, steps, gaps, function)
    geometry = Geometry(steps, before, after, gaps)

    def run(x: "TensorMethods") -> Any:
        require_positive_counts(tuple(x.shape)[2:], size, geometry, function)
        given = {**geometry.attributes(), "groups": groups}
        if bias is not None and not x.dtype.is_floating_point:
            _require_bias(bias, weight.shape[0], f"{function}: Given", weight)
        if not x.dtype.is_floating_point and _is_of_integers(x, weight, function):
            result = _integer_windows(x, weight, geometry, groups, function)
            return result if bias is None else _plus_bias(result, bias, function)
        if not x.dtype.is_complex:
            return TABLE.convolution(x, weight, bias, **given)
        result = _by_parts(lambda a, b: TABLE.convolution(a, b, None, **given), x, weight)
        return result if bias is None else _plus_bias(result, bias, function)

    return batched(input, n, function, run, function)


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of (N, C, L) or (C, L) with weight (O, C / groups, k)."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of (N, C, H, W) or (C, H, W) with weight (O, C / groups, kh, kw)."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of (N, C, D, H, W) or (C, D, H, W) with weight (O, C / groups, kd, kh, kw)."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


def _convolve_transposed(
    n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Any:  # fmt: skip
    function = f"conv_transpose{n}d"
    size = _require_kernel(weight, n, function)
    steps = per_dim(stride, n, "stride", function)
    groups = groups if type(groups) is int else _known(groups, function)
    gaps = per_dim(dilation, n, "dilation", function)
    edges = per_dim(padding, n, "padding", function)
    extra = per_dim(output_padding, n, "output_padding", function)
    require_range(steps, 1, "non-positive stride is not supported: stride", function)
    require_range(gaps, 1, "dilation", function)
    require_range(edges, 0, "negative padding is not supported: padding", function)
    require_range(extra, 0, "negative output_padding is not supported: output_padding", function)
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, gaps, strict=True)):
        raise ShapeError(
            f"{function}: output padding must be smaller than either stride or dilation, but got "
            f"output_padding={list(extra)}, stride={list(steps)}, dilation={list(gaps)}."
        )
    # Windows of the result lie as those of the convolution whose transpose this is; the extra
    # elements at the end are in no window, so they are padding taken away.
    after = tuple(p - e for p, e in zip(edges, extra, strict=True))
    geometry = Geometry(steps, edges, after, gaps)

    def run(x: "TensorMethods") -> Any:
        shape = tuple(
            (count - 1) * s + d * (k - 1) + 1 - b - a
            for count, k, s, b, a, d in zip(x.shape[2:], size, *geometry, strict=True)
        )
        if any(length < 1 for length in shape):
            raise ShapeError(
                f"{function}: Given input size per channel: {list(x.shape[2:])}.  Calculated "
                f"output size per channel: {list(shape)}.  Output size is too small."
            )
        given = {"shape": shape, **geometry.attributes(), "groups": groups}
        if _is_of_integers(x, weight, function, only_int64=True):
            result = _integer_windows_added(x, weight, shape, geometry, groups, function)
        else:
            result = _by_parts(lambda a, b: TABLE.convolution_input(a, b, **given), x, weight)
        if bias is None:
            return result
        _require_bias(bias, result.shape[1], f"{function}: Given transposed=1,", weight)
        if bias.dtype is result.dtype or n == 3:
            return _plus_bias(result, bias, function)
        return _plus_any_bias(result, bias, function)

    return batched(input, n, function, run, function)


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of (N, O, L) or (O, L) with weight (O, C / groups, k)."""
    return _convolve_transposed(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of (N, O, H, W) or (O, H, W) with weight (O, C / groups, kh, kw)."""
    return _convolve_transposed(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@public(out=Out.ABSENT)
@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of (N, O, D, H, W) or (O, D, H, W) with weight (O, C / groups, kd,
    kh, kw)."""
    return _convolve_transposed(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


# ---------------------------------------------------------------------------------------------
# unfold and fold


def _plain_geometry(
    kernel_size: Any, dilation: Any, padding: Any, stride: Any, function: str
) -> tuple[tuple[int, ...], Geometry]:
    size = per_dim(kernel_size, 2, "kernel_size", function)
    gaps = per_dim(dilation, 2, "dilation", function)
    edges = per_dim(padding, 2, "padding", function)
    steps = per_dim(stride, 2, "stride", function)
    require_range(size, 1, "kernel size", function, "should be")
    require_range(gaps, 1, "dilation", function, "should be")
    require_range(edges, 0, "padding", function, "should be")
    require_range(steps, 1, "stride", function, "should be")
    return size, Geometry(steps, edges, edges, gaps)


@public("nn.functional")
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Windows of (N, C, H, W) or (C, H, W) as columns: (N, C * kh * kw, windows)."""
    size, geometry = _plain_geometry(kernel_size, dilation, padding, stride, "unfold")

    def run(x: "TensorMethods") -> Any:
        counts = require_positive_counts(tuple(x.shape)[2:], size, geometry, "unfold")
        cut = TABLE.windows(x, size=size, **geometry.attributes())
        columns = TABLE.permute(cut, dims=(0, 1, 4, 5, 2, 3))
        shape = (x.shape[0], x.shape[1] * math.prod(size), numel(counts))
        return TABLE.reshape(columns, shape=shape)

    return batched(input, 2, "unfold", run, "unfold")


@public("nn.functional")
def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Any:  # fmt: skip
    """Columns (N, C * kh * kw, windows) added up where their windows lie: (N, C, H, W).

    Raises:
        ShapeError: the columns are not those of an output of this size.
    """
    shape = _one_per_dim(integers(output_size, "fold"), 2, "output_size", "fold")
    size, geometry = _plain_geometry(kernel_size, dilation, padding, stride, "fold")
    counts = require_positive_counts(shape, size, geometry, "fold")

    def run(x: "TensorMethods") -> Any:
        batch, rows, columns = x.shape
        if not equals(rows % math.prod(size), 0):
            raise ShapeError(
                "fold: Expected size of input's dimension 1 to be divisible by the product of "
                f"kernel_size, but got input.size(1)={rows} and kernel_size={size}."
            )
        if not agree(columns, numel(counts)):
            raise ShapeError(
                f"fold: Given output_size={shape}, kernel_size={size}, expected size of input's "
                f"dimension 2 to match the calculated number of sliding blocks "
                f"{' * '.join(map(str, counts))} = {numel(counts)}, but got "
                f"input.size(2)={columns}."
            )
        cut = TABLE.reshape(x, shape=(batch, rows // math.prod(size), *size, *counts))
        cut = TABLE.permute(cut, dims=(0, 1, 4, 5, 2, 3))
        return TABLE.fold_windows(cut, shape=shape, **geometry.attributes())

    return batched(input, 1, "fold", run, "fold")
