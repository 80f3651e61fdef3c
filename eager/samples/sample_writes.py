"""Writing into tensors that hold samples: the in-place methods of `SampleTensor`.

Contract: as for other tensors, an in-place method computes its out-of-place form and writes the
result, here into the tensor behind, so that its views, its memory and its history outside see it.
On the tape of samples a tensor of which no view was taken gets the result's history; where there
are views and gradients the function is called for single samples.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.errors import AutogradError, ShapeError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.operations.writes.commit import as_written, broadcast_to
from dynajit.eager.operations.writes.history import history_of_write
from dynajit.eager.operations.writes.methods import NAMES, UNCAST
from dynajit.eager.operations.writes.refusals import MSG_LEAF, require_own_dtype
from dynajit.eager.samples.sample_tensor import SampleTensor, in_front, note_write
from dynajit.eager.tensor.creation import as_tensor
from dynajit.ops.calls.arguments import fitting
from dynajit.ops.calls.autocast import disabled
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.shapes.index import refuse_other_dtype
from dynajit.ops.methods.methods import BINARY_OPERATORS, TensorMethods
from dynajit.ops.table.op_table import TABLE

_SET = "tensor[...] = value"


def write(x: SampleTensor, value: Any, name: str) -> SampleTensor:
    """Let the tensor hold a value of its shape and dtype.

    Raises:
        SingleSampleNeeded: the tensor is one for all samples and the value is not; or gradients
            are recorded and views were taken.
        AutogradError, ShapeError: as of other tensors.
    """
    level = x._level
    node = None
    if is_grad_enabled() and (x.requires_grad or value.requires_grad):
        if x.requires_grad and x.is_leaf:
            raise AutogradError(MSG_LEAF.format(name=name))
        if x._is_seen:
            level.refuse(name)
        node = history_of_write(x, value)
    is_own = isinstance(value, SampleTensor) and value._level is level
    if isinstance(value, SampleTensor) and value._level.priority > level.priority:
        value._level.refuse(name)
    if is_own and value._flag and not x._flag:
        level.refuse(name)
    note_write(x)
    x._batch.copy_(_behind(value, x._flag) if is_own else value)
    _tensor.bump_version(x)
    if node is not None:
        _tensor.rebase(x, node, 0)
    return x


def _behind(value: SampleTensor, is_batch: bool) -> Any:
    return in_front(value) if is_batch else value._batch


def _as_value(x: SampleTensor, value: Any, name: str) -> Any:
    """What is written, as a tensor of the dtype, on the device and of the shape of another one."""
    if not isinstance(value, TensorBase):
        if isinstance(value, (int, float, complex, np.generic)):
            value = fitting(value, x.dtype, name)
            value = TABLE.full(value, shape=(), dtype=x.dtype, device=x.device)
        else:
            value = as_tensor(value)
    if value.device is not x.device:
        value = TABLE.to_device(value, device=x.device)
    value = value if value.dtype is x.dtype else TABLE.cast(value, dtype=x.dtype)
    shape = tuple(x.shape)
    return value if tuple(value.shape) == shape else broadcast_to(value, shape, name)


def copy_into(x: SampleTensor, value: Any, name: str) -> SampleTensor:
    """`x[...] = value`."""
    return write(x, _as_value(x, value, name), name)


def set_item(x: SampleTensor, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    entries = subscript.as_entries(index)
    if not any(isinstance(entry, TensorBase) for entry in entries):
        copy_into(_part(x, tuple(entries)), value, _SET)
        return
    refuse_other_dtype(x, [entry for entry in entries if isinstance(entry, TensorBase)], value)
    if not isinstance(value, TensorBase):
        value = _as_value_of_any_shape(x, value)
    first, then = subscript.split_entries(x, entries)
    part = x if all(entry == slice(None) for entry in first) else _part(x, first)
    found = subscript.put_item(TABLE.clone(part), then, value)
    write(part, as_written(part, found, _SET), _SET)


def _part(x: SampleTensor, entries: tuple[Any, ...]) -> Any:
    part = x[entries]
    if part._storage is not x._storage:
        x._level.refuse(_SET)
    return part


def _as_value_of_any_shape(x: SampleTensor, value: Any) -> Any:
    found = as_tensor(value)
    return found if found.dtype is x.dtype else TABLE.cast(found, dtype=x.dtype)


def _in_place(name: str, written: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        require_own_dtype(name, self.dtype)
        if name in UNCAST:
            with disabled():
                result = getattr(self, name)(*args, **kwargs)
        else:
            result = getattr(self, name)(*args, **kwargs)
        if result is NotImplemented:
            return NotImplemented
        return write(self, as_written(self, result, written), written)

    method.__name__ = method.__qualname__ = written
    method.__doc__ = f"In place: `{name}`."
    return method


def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    return copy_into(self, src, "copy_")


def _fill(self: Any, value: Any) -> Any:
    if isinstance(value, TensorBase) and value.ndim:
        raise ShapeError(
            f"fill_: expected a number or a tensor with 0 dimensions, got one with {value.ndim}."
        )
    return copy_into(self, value, "fill_")


def _zero(self: Any) -> Any:
    return copy_into(self, 0, "zero_")


def install() -> None:
    """Give the class its methods."""
    for name in sorted(NAMES):
        if hasattr(TensorMethods, name):
            setattr(SampleTensor, f"{name}_", _in_place(name, f"{name}_"))
    for operator in BINARY_OPERATORS:
        in_place = f"__i{operator.strip('_')}__"
        if hasattr(SampleTensor, in_place):
            setattr(SampleTensor, in_place, _in_place(operator, in_place))
    members = {
        "copy_": _copy,
        "fill_": _fill,
        "zero_": _zero,
        "_take": copy_into,
        "__setitem__": set_item,
    }
    for name, member in members.items():
        setattr(SampleTensor, name, member)


install()
