"""Changing the shape of a tensor in place: `transpose_`, `squeeze_`, `resize_` and their kin.

Contract: the tensor shows its memory as the out-of-place form would, with that form's history, and
a write is counted. Views of a tensor that was made before keep their shapes; writes through them
that a gradient would have to follow are refused. `resize_` grows no memory that others may hold.
"""

import math
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.mirrored_arrays import mirrored, parts_of
from dynajit.core.errors import AutogradError, DTypeError, ShapeError, UnsupportedError
from dynajit.core.types.memory_format import RANKS, outer_to_inner, preserve_format
from dynajit.core.types.value_types import contiguous_strides
from dynajit.eager import _tensor
from dynajit.eager._tensor import is_grad_enabled
from dynajit.eager.modes import write_limits
from dynajit.eager.operations import duals
from dynajit.eager.operations.storages import bytes_of
from dynajit.eager.operations.writes.history import RESHAPED, rebase_keeping_hooks
from dynajit.eager.operations.writes.refusals import (
    MSG_LEAF,
    refuse_inference,
    refuse_part,
    refuse_recorded,
)
from dynajit.ops.calls import arguments
from dynajit.ops.functions.arrangement.arrangement import strided_extent
from dynajit.ops.functions.reductions.reduction import element_count
from dynajit.ops.functions.shapes import shape as shapes
from dynajit.ops.table.result_layouts import dense_strides

if TYPE_CHECKING:
    from dynajit.eager._tensor import Fields
else:
    Fields = object


def _reshape(tensor: Any, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    if _tensor.are_writes_checked():
        write_limits.check_write(tensor, name)
    refuse_inference(tensor, name)
    refuse_recorded(tensor, name)
    base = tensor._base
    if is_grad_enabled() and tensor.requires_grad:
        refuse_part(tensor, name)
    view = function(tensor, *arguments)
    if view is not tensor:
        duals.move(view, tensor)
        _tensor.adopt_view(tensor, view._held, view._replay)
        if base is None:
            had_others = tensor.__dict__.get(RESHAPED, False)
            tensor.__dict__[RESHAPED] = had_others or function is _strided
        if view.requires_grad and view.grad_fn is not None:
            rebase_keeping_hooks(tensor, view.grad_fn)
    _tensor.bump_version(tensor)
    return tensor


def _format_of(tensor: Any) -> Any:
    """The format with channels last in which a tensor lies; None: in none, or row by row, too."""
    if not tensor.is_contiguous():
        for wanted, rank in RANKS.items():
            if tensor.ndim == rank and tensor.is_contiguous(memory_format=wanted):
                return wanted
    return None


def _strided(tensor: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    return tensor.as_strided(size, stride, storage_offset)


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    unnamed: Any = arguments.sizes(sizes, "resize_")
    found: tuple[int, ...] = unnamed  # memory has no symbolic sizes
    return found


class ReshapingMethods(Fields):
    """Mixin of `Tensor`: see the module."""

    __slots__: tuple[()] = ()

    def transpose_(self, dim0: int, dim1: int) -> Any:
        """Swap two dims, in place."""
        return _reshape(self, "transpose_", shapes.transpose, dim0, dim1)

    swapdims_ = transpose_

    def swapaxes_(self, axis0: int, axis1: int) -> Any:
        """Swap two dims, in place: NumPy's name for `transpose_`."""
        return self.transpose_(axis0, axis1)

    def t_(self) -> Any:
        """Transpose a matrix in place; vectors and zero-dim tensors stay."""
        return _reshape(self, "t_", shapes.t)

    def squeeze_(self, *dim: Any) -> Any:
        """Drop dims of size 1 (these, or all), in place."""
        return _reshape(self, "squeeze_", shapes.squeeze, *dim)

    def unsqueeze_(self, dim: int) -> Any:
        """Insert a dim of size 1, in place."""
        return _reshape(self, "unsqueeze_", shapes.unsqueeze, dim)

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """In place: `as_strided`, the memory at other sizes and strides."""
        return _reshape(self, "as_strided_", _strided, size, stride, storage_offset)

    def resize_(self, *sizes: Any, size: Any = None, memory_format: Any = None) -> Any:
        """Take other sizes in place: the first elements as they lie in memory, undefined beyond.

        Raises:
            AutogradError: the tensor requires a gradient.
            UnsupportedError: it has to grow and others share its memory.
            ShapeError: the memory format is `preserve_format`.
        """
        if memory_format is preserve_format:
            raise ShapeError("resize_: unsupported memory format preserve_format.  Name another.")
        resized(self, _sizes(sizes if size is None else (size,)), memory_format)
        return self

    def set_(
        self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
    ) -> Any:
        """Show other memory: that of a tensor, or of a storage, at an offset, sizes and strides;
        without a source, none. By default all of the source, as it is, or row by row.

        Raises:
            AutogradError: the tensor requires a gradient, and gradients are recorded.
            DTypeError: the source is a tensor of another dtype.
            ShapeError: the elements do not all lie in the memory.
        """
        if _tensor.are_writes_checked():
            write_limits.check_write(self, "set_")
        refuse_inference(self, "set_")
        if self.requires_grad and is_grad_enabled():
            raise AutogradError(MSG_LEAF.format(name="set_"))
        duals.drop(self)
        storage = _tensor.Storage()
        if isinstance(source, _tensor.TensorBase):
            storage = source._storage
        version = max(storage.version, self._storage.version)
        _, *seen = parts_of(self._held)
        self._held = mirrored(_shown(self, source, storage_offset, size, stride), *seen)
        storage.version = version
        self._storage = storage
        _tensor.forget_base(self)
        self.__dict__[RESHAPED] = True
        _tensor.bump_version(self)
        return self

    def resize_as_(self, the_template: Any, *, memory_format: Any = None) -> Any:
        """`resize_` to the sizes of another tensor, and to its order in memory where the format is
        `preserve_format`."""
        if memory_format is preserve_format:
            memory_format = _format_of(the_template)
        return self.resize_(tuple(the_template.shape), memory_format=memory_format)

    def resize(self, *sizes: Any) -> Any:
        """The same elements under other sizes, as `reshape`. Deprecated in PyTorch, too.

        Raises:
            ShapeError: the number of elements would change.
        """
        warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=2)
        wanted, count = _sizes(sizes), element_count(self)
        if math.prod(wanted) != count:
            raise ShapeError(
                f"requested resize to {wanted}, but the tensor has {count} elements.  resize can "
                "only change the shape of a tensor, while preserving the number of elements."
            )
        return shapes.reshape(self, wanted)

    def resize_as(self, tensor: Any) -> Any:
        """`resize` to the sizes of another tensor."""
        return ReshapingMethods.resize(self, tuple(tensor.shape))


def _shown(tensor: Any, source: Any, offset: int, size: Any, stride: Any) -> Any:
    """The array that `set_` shows."""
    if source is None:
        own = tensor._memory
        return any_arrays.zeros((0,), own.dtype, any_arrays.device_of(own))
    dtype = tensor.dtype
    if isinstance(source, _tensor.TensorBase):
        if source.dtype is not dtype:
            raise DTypeError(
                f"set_: a tensor of {source.dtype.name} as memory of one of {dtype.name}.  "
                "Expected the same dtype."
            )
        if size is None:
            return source._memory
        flat, offset = any_arrays.flat_memory(source._memory), offset + source.storage_offset()
    else:
        flat = bytes_of(source, dtype).memory
        flat = flat[: flat.size // dtype.itemsize * dtype.itemsize].view(dtype.numpy)
    sizes = (flat.size - offset,) if size is None else tuple(int(n) for n in size)
    strides = contiguous_strides(sizes) if not stride and sizes else tuple(stride or ())
    strided_extent(sizes, strides, offset, flat.size)
    return any_arrays.strided(flat[offset:], sizes, strides)


def _references(tensor: Any) -> tuple[int, int, int]:
    owner = 0 if tensor.array.base is None else sys.getrefcount(tensor.array.base)
    return sys.getrefcount(tensor._storage), sys.getrefcount(tensor.array), owner


def is_alone(tensor: Any) -> bool:
    """True if no other tensor and no array shares this tensor's memory: nothing more refers to it
    than to the memory of a tensor that was just made."""
    base = tensor.array.base
    if base is not None and not (type(base) is type(tensor.array) and base.base is None):
        return False
    made = any_arrays.zeros((2,), np.dtype(np.float64), any_arrays.device_of(tensor.array))
    alone = made if base is None else made[:1]
    del made
    del base
    probe = _tensor.wrap(alone)
    del alone
    return _references(tensor) == _references(probe)


def resized(tensor: Any, sizes: tuple[int, ...], memory_format: Any = None) -> None:
    """Give a tensor other sizes in place; see `ReshapingMethods.resize_`."""
    if any(size < 0 for size in sizes):
        raise ShapeError(f"resize_: Trying to create tensor with negative dimension: {sizes}")
    if math.prod(sizes) * tensor.dtype.itemsize >= 1 << 63:
        raise ShapeError(f"resize_: storage size calculation overflowed with sizes={sizes}")
    order = outer_to_inner(memory_format, len(sizes))
    if sizes == tuple(tensor.shape) and order is None:
        return
    if _tensor.are_writes_checked():
        write_limits.check_write(tensor, "resize_")
    refuse_inference(tensor, "resize_")
    if tensor.requires_grad:
        raise AutogradError("cannot resize variables that require grad")
    if duals.is_dual((tensor,)):
        raise AutogradError("cannot resize variables that has a forward grad")
    if tensor._is_mirrored:
        raise UnsupportedError(
            "resize_: a conjugate view keeps its sizes.  Resize a clone() of it."
        )
    if tensor._base is not None:
        _resize_view(tensor, sizes, order)
        return
    alone = is_alone(tensor)
    array = tensor.array
    memory = _memory_of(array)
    count = math.prod(sizes)
    if count > memory.size:
        if array.size and not alone:
            raise UnsupportedError(
                f"resize_: {array.size} elements cannot grow to {count}: other tensors or arrays "
                "share their memory.  Make a new tensor, or drop the others."
            )
        grown = any_arrays.zeros((count,), array.dtype, any_arrays.device_of(array))
        grown[: memory.size] = memory
        memory = grown
    laid = memory[:count]
    if order is not None:
        outer = laid.reshape(tuple(sizes[d] for d in order))
        laid = outer.transpose(tuple(order.index(d) for d in range(len(order))))
    _tensor.adopt_view(tensor, laid.reshape(sizes), None)
    tensor.__dict__[RESHAPED] = True
    _tensor.bump_version(tensor)


def _resize_view(tensor: Any, sizes: tuple[int, ...], order: Any) -> None:
    """Let a view show other elements of the memory, from its first one on; as after `set_`, it is
    no longer tracked as a view: what it was seen through says nothing of its new shape."""
    flat = any_arrays.flat_memory(tensor._memory)[tensor.storage_offset() :]
    if math.prod(sizes) > flat.size:
        raise UnsupportedError(
            f"resize_: a view of a memory with {flat.size} elements from its first one on cannot "
            f"get {math.prod(sizes)}: others share that memory.  Resize a clone() of it."
        )
    strides = contiguous_strides(sizes) if order is None else dense_strides(sizes, order)
    tensor._held = any_arrays.strided(flat, sizes, strides)
    _tensor.forget_base(tensor)
    tensor.__dict__[RESHAPED] = True
    _tensor.bump_version(tensor)


def _memory_of(array: Any) -> Any:
    """All elements of the memory from the first one of `array` on, as they lie there, (n,)."""
    owner = any_arrays.owner(array)
    if owner.dtype != array.dtype or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        raise UnsupportedError(
            "resize_: the tensor's memory has another element type or gaps.  Resize a clone()."
        )
    first = any_arrays.address(array) - any_arrays.address(owner)
    start = first // array.itemsize
    return owner.ravel(order="K")[start:]
