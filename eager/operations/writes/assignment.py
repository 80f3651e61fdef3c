"""`tensor[index] = value`.

Contract: every index that PyTorch accepts. Basic ones write into the view that reading gives;
others scatter, by NumPy where it takes the key as PyTorch does.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import arrays as gpu_arrays
from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.arrays.mirrored_arrays import parts_of, turned
from dynajit.core.errors import (
    AutogradError,
    BoundsError,
    DeviceError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types.device import CPU
from dynajit.core.types.short_floats import converted
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.operations import duals
from dynajit.eager.operations.writes.commit import (
    NUMBER_CLASSES,
    array_for,
    commit,
    copy_into,
    fill_with,
    was_overwritten,
)
from dynajit.eager.operations.writes.history import copy_with_history
from dynajit.eager.operations.writes.refusals import check_writable, refuse_partial_overlap
from dynajit.ops.calls.arguments import fitting, is_tensor
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.shapes.index import refuse_other_dtype
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.type_rules import MSG_TWO_DEVICES

_POSITIONS: Final = (np.dtype(np.int64), np.dtype(np.bool_))
_SET: Final = "tensor[...] = value"


def set_item(tensor: Any, index: Any, value: Any) -> None:
    """`tensor[index] = value` for every kind of index that PyTorch accepts."""
    items = index if isinstance(index, tuple) else (index,)
    if not all(_is_basic(item) for item in items):
        if _was_set_at_once(tensor, items, value):
            return
        entries = subscript.as_entries(index)
        if any(isinstance(entry, TensorBase) for entry in entries):
            _set_advanced(tensor, entries, value)
            return
        index = tuple(entries)  # zero-dim tensors became integers
    target = tensor[index]
    if not _tensor.shares_memory(target._memory, tensor._memory):
        raise AutogradError(f"{_SET}: the index gave a copy, not a view")
    if type(value) in NUMBER_CLASSES and _rows.is_free(tensor, (), {}):
        fill_with(target, value, _SET)
    elif not was_overwritten(tensor, target, value):
        copy_into(target, value, _SET)


def _is_basic(item: Any) -> bool:
    return (
        item is None
        or item is Ellipsis
        or (isinstance(item, int) and not isinstance(item, bool))
        or isinstance(item, (slice, np.integer))
    )


def _was_set_at_once(tensor: Any, items: tuple[Any, ...], value: Any) -> bool:
    """Let NumPy assign to a free tensor, where it takes a key as PyTorch does; False, without
    effect, where it may not, or where that takes a closer look."""
    key = _key_of_numpy(items) if _rows.is_free(tensor, (value,), {}) else None
    if key is None:
        return False
    array = tensor.array
    if type(value) in NUMBER_CLASSES:
        source = converted(np.asarray(fitting(value, tensor.dtype, _SET)), array.dtype)
    else:
        given = value.array if isinstance(value, TensorBase) else None
        if type(given) is not np.ndarray or given.dtype != array.dtype:
            return False
        source = given
    _assign(array, key, source)
    _tensor.bump_version(tensor)
    return True


def _key_of_numpy(items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A key of tensors with slices, or with integers, among which NumPy counts the latter; None for
    others."""
    key, kinds = [], set()
    for item in items:
        kind = type(item)
        if kind is int or (kind is slice and _has_plain_bounds(item)):
            kinds.add(kind)
        elif not isinstance(item, TensorBase):
            return None
        else:
            item = item.array
            if type(item) is not np.ndarray or not item.ndim or item.dtype not in _POSITIONS:
                return None
        key.append(item)
    return tuple(key) if len(kinds) < 2 else None


def _has_plain_bounds(item: slice) -> bool:
    return item.step is None and all(
        bound is None or type(bound) is int for bound in (item.start, item.stop)
    )


def _set_advanced(tensor: Any, entries: list[Any], value: Any) -> None:
    """Assignment where tensors are among the entries of the key: integers, slices and None choose a
    part first, as in PyTorch; NumPy would count the integers among the tensors."""
    check_writable(tensor, _SET)
    refuse_other_dtype(tensor, [entry for entry in entries if is_tensor(entry)], value)
    value = _as_value(tensor, value)
    first, then = subscript.split_entries(tensor, entries)
    is_whole = all(entry == slice(None) for entry in first)
    is_recorded = is_grad_enabled() and (tensor.requires_grad or value.requires_grad)
    if not (is_recorded or duals.is_dual((tensor, value))):
        if not is_meta(tensor.array):
            memory, *seen = parts_of(tensor._held)
            part = memory if is_whole else memory[(*first, ...)]
            key = tuple(_placed(entry, part) for entry in then)
            _assign(part, key, turned(value.array, *seen))
        _tensor.bump_version(tensor)
        return
    if is_meta(tensor.array):
        raise UnsupportedError(
            f"{_SET}: the derivative of a write by this kind of index is not known on 'meta'.  "
            "Write under no_grad()."
        )
    part = tensor if is_whole else tensor[first]
    commit(part, subscript.put_item(copy_with_history(part), then, value), _SET)


def _as_value(tensor: Any, value: Any) -> Any:
    """What is assigned, as a tensor of the dtype and on the device of another one."""
    if not isinstance(value, TensorBase):
        value = _tensor.wrap(array_for(tensor, value))
    if value.device is not tensor.device:
        if value.ndim or value.device is not CPU:
            raise DeviceError(MSG_TWO_DEVICES.format(
                call=_SET, first=tensor.device, second=value.device
            ))  # fmt: skip
        value = TABLE.to_device(value, device=tensor.device)
    refuse_partial_overlap(tensor, (value,), _SET)
    return value if value.dtype is tensor.dtype else TABLE.cast(value, dtype=tensor.dtype)


def _placed(entry: Any, array: Any) -> Any:
    """An entry of a key for an array, on its device."""
    is_tensor = isinstance(entry, TensorBase)
    return any_arrays.placed_like(entry.array, array) if is_tensor else entry


def _assign(array: Any, key: tuple[Any, ...], value: Any) -> None:
    while value.ndim and value.shape[0] == 1:  # which NumPy's masks do not broadcast
        value = value[0]
    if not isinstance(array, np.ndarray):
        gpu_arrays.check_key(array.shape, key, _SET)
    try:
        with any_arrays.on_device_of(array):
            array[key] = value
    except (ValueError, TypeError) as error:  # TypeError: a mask, and a value of more than one dim
        raise ShapeError(f"{_SET}: {error}") from error
    except IndexError as error:
        raise BoundsError(f"{_SET}: {error}") from error
