"""PyTorch's native functions that layers call, and views by their copies.

Contract: `native_*` return what else backward needs beside the result: means, reciprocal standard
deviations, masks; gradients flow through the result alone, but for group norms. A function `*_copy`
is its view, copied. Published under these names by `dynajit`.
"""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.dtypes import DType, bool_, float32
from dynajit.core.types.memory_format import contiguous_format
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.namespaces.late_names import NATIVE
from dynajit.nn import functional as F
from dynajit.ops import functions as f
from dynajit.ops.table.overriding import publish_overridable


def _statistics(grouped: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """`_moments` as constants."""
    with no_grad():
        return _moments(grouped, dims, eps)


def _moments(grouped: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """(mean, 1 / sqrt(variance + eps)) over dims, which stay with size 1."""
    wide = grouped.to(float32) if grouped.dtype.itemsize == 2 else grouped
    variance, mean = f.var_mean(wide, dims, correction=0, keepdim=True)
    return mean.to(grouped.dtype), f.rsqrt(variance + eps).to(grouped.dtype)


def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """`nn.functional.layer_norm`, and the mean and reciprocal deviation of each row.

    Returns:
        Three tensors; the last two have size 1 in the normalized dims.
    """
    result = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(-len(normalized_shape), 0))
    return (result, *_statistics(input, dims, eps))


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """`nn.functional.group_norm`, and the mean and reciprocal deviation of each group, (N, group).

    Gradients of all three count, as in PyTorch.

    Args:
        N, C, HxW: the batch, the channels, and the elements of each: the sizes of the input.
    """
    result = F.group_norm(input, group, weight, bias, eps)
    grouped = input.reshape(N, group, C // group * HxW)
    mean, deviation = _moments(grouped, (2,), eps)
    return result, mean.reshape(N, group), deviation.reshape(N, group)


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """`nn.functional.batch_norm`, and the mean and reciprocal deviation of each channel of the
    batch, (C,); of no element where it is not in training."""
    if training:
        dims = tuple(d for d in range(input.ndim) if d != 1)
        mean, deviation = (part.reshape(-1) for part in _statistics(input, dims, eps))
    else:
        mean, deviation = (f.empty(0, dtype=input.dtype, device=input.device) for _ in range(2))
    result = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return result, mean, deviation


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """The input with elements set to 0 with probability p, others divided by 1 - p, and bools that
    say which stayed; None counts as training.

    Raises:
        InvalidValueError: p is no probability.
    """
    if not 0 <= p <= 1:
        raise InvalidValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if train is False or p == 0:
        return input.clone(), f.ones_like(input, dtype=bool_)
    if p == 1:
        return input * 0, f.zeros_like(input, dtype=bool_)
    mask = f.rand_like(input, dtype=float32) >= p
    return input * mask.to(input.dtype) * (1 / (1 - p)), mask


# -- views, copied -------------------------------------------------------------------------------


def _copied(view: Any) -> Any:
    return view.clone(memory_format=contiguous_format)


def alias_copy(input: Any) -> Any:
    """A copy."""
    return _copied(input)


def as_strided_copy(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy of `as_strided`."""
    offset = input.storage_offset() if storage_offset is None else storage_offset
    return _copied(f.as_strided(f.resolve_neg(f.resolve_conj(input)), size, stride, offset))


def detach_copy(input: Any) -> Any:
    """A copy without history."""
    return _copied(input.detach())


def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy of `diagonal`."""
    return _copied(f.diagonal(input, offset, dim1, dim2))


def expand_copy(input: Any, size: Any, *, implicit: bool = False) -> Any:
    """A copy of `Tensor.expand`; `implicit` has no effect."""
    return _copied(input.expand(size))


def permute_copy(input: Any, dims: Any) -> Any:
    """A copy of `permute`."""
    return _copied(f.permute(input, dims))


def select_copy(input: Any, dim: int, index: int) -> Any:
    """A copy of `select`."""
    return _copied(f.select(input, dim, index))


def slice_copy(
    input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy of the elements start, start + step, ... before end along a dim.

    Raises:
        InvalidValueError: step is not positive.
    """
    if step <= 0:
        raise InvalidValueError("slice step must be positive")
    place = dim + input.ndim if dim < 0 else dim
    return _copied(input[(*[slice(None)] * place, slice(start, end, step))])


def split_copy(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Copies of what `split` gives."""
    return tuple(_copied(part) for part in f.split(input, split_size, dim))


def split_with_sizes_copy(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Copies of what `split` gives."""
    return tuple(_copied(part) for part in f.split(input, list(split_sizes), dim))


def squeeze_copy(input: Any, dim: Any = None) -> Any:
    """A copy of `squeeze`."""
    return _copied(f.squeeze(input) if dim is None else f.squeeze(input, dim))


def t_copy(input: Any) -> Any:
    """A copy of `t`."""
    return _copied(f.t(input))


def transpose_copy(input: Any, dim0: int, dim1: int) -> Any:
    """A copy of `transpose`."""
    return _copied(f.transpose(input, dim0, dim1))


def unbind_copy(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Copies of what `unbind` gives."""
    return tuple(_copied(part) for part in f.unbind(input, dim))


def unfold_copy(input: Any, dimension: int, size: int, step: int) -> Any:
    """A copy of `Tensor.unfold`."""
    return _copied(input.unfold(dimension, size, step))


def unsqueeze_copy(input: Any, dim: int) -> Any:
    """A copy of `unsqueeze`."""
    return _copied(f.unsqueeze(input, dim))


def view_as_complex_copy(input: Any) -> Any:
    """A copy of `view_as_complex`."""
    return _copied(f.view_as_complex(input))


def view_as_real_copy(input: Any) -> Any:
    """A copy of `view_as_real`."""
    return _copied(f.view_as_real(input))


def view_copy(input: Any, size: Any) -> Any:
    """A copy of `Tensor.view`, with other sizes or another dtype."""
    if isinstance(size, DType):
        return _copied(input.view(size))
    return _copied(f.reshape(input, size))


__all__ = list(NATIVE)
publish_overridable(globals(), NATIVE)
