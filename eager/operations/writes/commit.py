"""A value goes into a tensor: its elements into the memory, its history onto the tape.

Contract: what is written has been computed; here it is cast, broadcast and copied, and the write
counts in the storage's version.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta
from dynajit.core.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from dynajit.core.types.short_floats import converted, is_short
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import TensorBase, has_levels, is_grad_enabled
from dynajit.eager.operations import duals
from dynajit.eager.operations.mirrored_views import store
from dynajit.eager.operations.writes.history import (
    CopyBackward,
    CopySlices,
    history_of_write,
    rebase_keeping_hooks,
    steps_to,
)
from dynajit.eager.operations.writes.refusals import (
    MSG_VIEW_NO_GRAD,
    check_writable,
    refuse_part,
    refuse_partial_overlap,
    refuse_recorded,
)
from dynajit.eager.tape.node import edges_of, made_by
from dynajit.ops.calls.arguments import fitting
from dynajit.ops.table.op_table import TABLE


def commit(tensor: Any, result: Any, name: str) -> None:
    """Write `result` into `tensor` and give the tensor (or its base) the result's history.

    Raises: as `as_written`.
    """
    result = as_written(tensor, result, name)
    record = is_grad_enabled() and (result.requires_grad or tensor.requires_grad)
    if record and tensor._base is not None:
        _rebase_base(tensor, result, name)
    else:
        node = history_of_write(tensor, result) if record else None
        write(tensor, result)
        if record:
            rebase_keeping_hooks(tensor, node)
    if has_levels():
        duals.note_write(tensor, result, copy_into, name)


def as_written(tensor: Any, result: Any, name: str) -> Any:
    """What an operation gives, in the dtype of the tensor that is to hold it.

    Raises:
        ShapeError: the result does not have the tensor's shape.
        DTypeError: the result's category of dtype is above the tensor's.
    """
    if tuple(result.shape) != tuple(tensor.shape):
        raise ShapeError(
            f"{name}: output with shape {list(tensor.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}.  Use the out-of-place form."
        )
    if result.dtype is not tensor.dtype:
        if result.dtype.category > tensor.dtype.category:
            raise DTypeError(
                f"{name}: result type {result.dtype.name} can't be cast to the desired output "
                f"type {tensor.dtype.name}.  Convert the tensor first, or use the out-of-place "
                "form."
            )
        result = TABLE.cast(result, dtype=tensor.dtype)
    return result


def write(tensor: Any, result: Any) -> None:
    """Copy elements and count the write."""
    store(tensor, result.array)
    _tensor.bump_version(tensor)


def restored(tensor: Any, dims: tuple[int, ...], writes: int = 0) -> Any:
    """A result of compiled code, which lies row by row, with the dims in their original order.

    Unlike a view, it has no base: nobody else sees `tensor`.

    Args:
        writes: how many writes the original program would have counted.
    """
    _tensor.count_writes(tensor, writes)
    if dims == tuple(range(len(dims))):
        return tensor
    if not tensor.requires_grad:
        result = _tensor.wrap_view(tensor.array.transpose(dims), tensor, None)
        _tensor.forget_base(result)
        return result
    before = _tensor._set_grad_enabled(True)
    try:
        result = TABLE.permute(tensor, dims=dims)
    finally:
        _tensor._set_grad_enabled(before)
    _tensor.forget_base(result)
    return result


def write_back(tensor: Any, result: Any, bumps: int, has_history: bool) -> None:
    """Let a tensor hold what compiled code computed for it.

    Args:
        result: of the tensor's shape and dtype.
        bumps: how many writes the original program would count.
        has_history: the tensor gets the history of `result`, too.
    """
    if has_history:
        before = _tensor._set_grad_enabled(True)
        try:
            commit(tensor, result, "write")
        finally:
            _tensor._set_grad_enabled(before)
        bumps -= 1
    else:
        if result._held is not tensor._held:  # else the kernels wrote it there
            store(tensor, result.array)
    _tensor.count_writes(tensor, bumps)


def _rebase_base(tensor: Any, result: Any, name: str) -> None:
    node = _node_of_base(tensor, result, name)
    write(tensor, result)
    _give_base(tensor, node)


def note_written_view(tensor: Any, node: Any, index: int, name: str) -> None:
    """Give the base of a view that holds the output `index` of a node the history of that.

    Raises:
        AutogradError: the gradient could not follow.
    """
    refuse_recorded(tensor, name)
    of_base = _node_of_base(tensor, _tensor.wrap_output(tensor._held, node, index), name)
    _tensor.bump_version(tensor)  # views learn their new history by that
    _give_base(tensor, of_base)


def _node_of_base(tensor: Any, result: Any, name: str) -> CopySlices:
    """The node of the base of a view that is to hold a result."""
    base = tensor._base
    if tensor._replay is None:
        raise AutogradError(MSG_VIEW_NO_GRAD.format(name=name))
    refuse_part(tensor, name)
    steps = steps_to(tensor)
    edges, indices = edges_of([base, result])
    return CopySlices(edges, indices, steps, base._memory.strides)


def _give_base(tensor: Any, node: CopySlices) -> None:
    rebase_keeping_hooks(tensor._base, node)
    if tensor.retains_grad:
        made_by(tensor)  # it learns of its new history, and retains there


NUMBER_CLASSES: Final = frozenset((bool, int, float))


def copy_into(tensor: Any, source: Any, name: str) -> Any:
    """`tensor[...] = source`: broadcast and cast to the tensor's shape and dtype.

    Args:
        source: a tensor, array or number.
    """
    if type(source) in NUMBER_CLASSES and _rows.is_free(tensor, (), {}):
        return fill_with(tensor, source, name)
    if was_overwritten(tensor, tensor, source):
        return tensor
    check_writable(tensor, name)
    if not isinstance(source, TensorBase):
        if isinstance(source, (int, float, np.generic)):
            source = fitting(source, tensor.dtype, name)
        source = _tensor.wrap(array_for(tensor, source))
    if source.device is not tensor.device:
        source = TABLE.to_device(source, device=tensor.device)
    refuse_partial_overlap(tensor, (source,), name)
    if source.dtype is not tensor.dtype:
        source = TABLE.cast(source, dtype=tensor.dtype)
    if tuple(source.shape) != tuple(tensor.shape):
        source = broadcast_to(source, tuple(tensor.shape), name)
    if source.requires_grad and is_grad_enabled():
        edges, indices = edges_of([source, tensor])
        made = _tensor.wrap_output(source.array, CopyBackward(edges, indices), 0)
        source = duals.share(source, made)
    commit(tensor, source, name)
    return tensor


def was_overwritten(tensor: Any, part: Any, source: Any) -> bool:
    """Let a part of a free tensor hold another tensor's elements; False, without effect, where that
    takes more than a copy."""
    is_tensor = isinstance(source, TensorBase)
    return is_tensor and _rows.is_free(tensor, (source,), {}) and _rows.overwrite(part, source)


def fill_with(tensor: Any, number: Any, name: str) -> Any:
    """The tensor, a part of one that is free, after every element became the number."""
    value = converted(np.asarray(fitting(number, tensor.dtype, name)), tensor.array.dtype)
    np.copyto(tensor.array, value)
    _tensor.bump_version(tensor)
    return tensor


def array_for(tensor: Any, value: Any) -> Any:
    """A number or array as an array of a tensor's dtype, on its device.

    Raises:
        ArgumentError: it is neither.
        DTypeError: a number does not fit the dtype.
    """
    if isinstance(value, (str, bytes)):
        raise ArgumentError(f"cannot write {value!r} into a tensor of {tensor.dtype.name}.")
    if isinstance(value, complex) and not tensor.dtype.is_complex:
        if value.imag:
            raise DTypeError(f"value {value} cannot be converted to {tensor.dtype.name}.")
        value = value.real
    if isinstance(value, (int, float)):
        value = fitting(value, tensor.dtype, "tensor[...] = value")
    if gpu.is_foreign(value):
        value = any_arrays.placed_like(gpu.shared(value), tensor.array)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "OSUmM":
            raise ArgumentError(
                f"cannot assign {type(value).__name__} to a tensor.  Expected a number or a tensor."
            )
        value = any_arrays.placed_like(array, tensor.array)
    if is_meta(value):
        return MetaArray(value.shape, tensor.array.dtype)
    if is_short(tensor.array.dtype):
        return converted(value, tensor.array.dtype)
    with any_arrays.on_device_of(value):
        return value.astype(tensor.array.dtype, copy=False)


def broadcast_to(source: Any, shape: tuple[int, ...], name: str) -> Any:
    """What is written, in the shape of where it goes."""
    extra = len(source.shape) - len(shape)
    if extra > 0 and all(size == 1 for size in source.shape[:extra]):
        source = TABLE.reshape(source, shape=tuple(source.shape[extra:]))
    try:
        return TABLE.expand(source, shape=shape)
    except ShapeError as error:
        raise ShapeError(
            f"{name}: a value of shape {list(source.shape)} cannot be broadcast to "
            f"{list(shape)}.  Expected sizes equal from the right, or 1."
        ) from error
