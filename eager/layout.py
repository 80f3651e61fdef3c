"""Where the elements of a tensor lie in memory: strides, offsets, storage, views.

Contract: answers come from the array; strides and offsets count elements. `view` gives a true view
of the same memory or an error, never a silent copy. Called by the `Tensor` class, which mixes
`LayoutMethods` in.
"""

from typing import Any, Final

import numpy as np

from dynajit.core import any_arrays, dtypes, gpu
from dynajit.core import device as devices
from dynajit.core.any_arrays import address
from dynajit.core.device import Device
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, ShapeError, UnsupportedError
from dynajit.core.late import Late
from dynajit.core.memory_format import RANKS, MemoryFormat, outer_to_inner
from dynajit.core.meta_arrays import is_meta
from dynajit.core.types import contiguous_strides
from dynajit.eager import _tensor
from dynajit.ops.arrangement_functions import (
    elements_at,
    elements_of_strided,
    strided_extent,
)
from dynajit.ops.elementwise_functions import clone
from dynajit.ops.methods import TensorMethods
from dynajit.ops.shape_functions import said_of_view

shared_memory = Late("dynajit.eager.shared_memory")

MSG_VIEW: Final = (
    "view({shape}): view size is not compatible with input tensor's size and stride (at least one "
    "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
)


def _require_inside(size: Any, stride: Any, offset: int, numel: int) -> None:
    """Raises UnsupportedError unless the derivative finds all elements within the tensor."""
    try:
        strided_extent(size, stride, offset, numel)
    except ShapeError as error:
        raise UnsupportedError(
            "as_strided: the derivative is available for elements of this tensor only, and some "
            "lie beside it in its memory.  Call it on the tensor that it is a view of, or detach()."
        ) from error


class UntypedStorage:
    """The bytes behind a tensor and its views.

    Args:
        array: an array, or how many bytes to make.
    """

    __slots__ = ("array",)

    def __init__(self, array: Any = 0) -> None:
        if isinstance(array, str) or (isinstance(array, int) and array < 0):
            raise ArgumentRuntimeError(
                f"UntypedStorage({array!r}): expected a number of bytes, 0 or more."
            )
        made = np.zeros(array, np.uint8) if isinstance(array, int) else array
        self.array = any_arrays.owner(made)

    def data_ptr(self) -> int:
        """Address of the first byte; 0 where there are none (`meta`)."""
        return address(self.array)

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self.array.nbytes)

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return any_arrays.device_of(self.array)

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return self.device.type == "cuda"

    def cpu(self) -> "UntypedStorage":
        """The storage on the CPU: itself, or a copy."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> "UntypedStorage":
        """The storage on a GPU, by default the current one: itself, or a copy."""
        return self.to("cuda" if device is None else device)

    def to(self, device: Any, non_blocking: bool = False) -> "UntypedStorage":
        """The storage on a device: itself, or a copy.

        Raises:
            DeviceError: there is no such device.
        """
        place = gpu.resolve(devices.parse(device), "UntypedStorage.to")
        return (
            self if place is self.device else UntypedStorage(any_arrays.placed(self.array, place))
        )

    def __len__(self) -> int:
        return self.nbytes()

    def size(self) -> int:
        """Number of bytes."""
        return self.nbytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)


class LayoutMethods:
    """Mixin of `Tensor`: see the module."""

    __slots__ = ()

    def stride(self, dim: int | None = None) -> Any:
        """Elements to skip per step of each dimension, or of dimension `dim`."""
        array = self.array
        if not array.size and not isinstance(array, np.ndarray):
            strides = contiguous_strides(array.shape)  # CuPy's are zeros
        else:
            strides = tuple(step // array.itemsize for step in array.strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Elements between the start of the storage and the first element."""
        start = address(self.array) - address(any_arrays.owner(self.array))
        return start // self.array.itemsize

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there are none (`meta`)."""
        return 0 if is_meta(self.array) else address(self.array)

    def untyped_storage(self) -> UntypedStorage:
        """The bytes behind this tensor and its views."""
        return UntypedStorage(self.array)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True if the elements lie without gaps, row-major or in that memory format."""
        if memory_format is None:
            return bool(self.array.flags.c_contiguous)
        if isinstance(memory_format, MemoryFormat) and self.ndim != RANKS.get(
            memory_format, self.ndim
        ):
            return False
        order = outer_to_inner(memory_format, self.ndim)
        array = self.array if order is None else self.array.transpose(order)
        return bool(array.flags.c_contiguous)

    def contiguous(self, memory_format: Any = None) -> Any:
        """Itself if contiguous (in that memory format), else a contiguous copy."""
        if self.is_contiguous(memory_format):
            return self
        return clone(self, memory_format=memory_format)

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self.array.itemsize)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.array.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self.array.nbytes)

    def is_shared(self) -> bool:
        """True if the elements lie in memory that processes share, or on a GPU."""
        owner = any_arrays.owner(self.array)
        if not isinstance(owner, np.ndarray):
            return True
        # Only shared memory is mapped through a memoryview; the module is then loaded.
        return isinstance(owner.base, memoryview) and shared_memory.block_of(owner) is not None

    def share_memory_(self) -> Any:
        """Move the elements into memory that child processes share; see `eager.shared_memory`.

        Raises:
            UnsupportedError: other tensors or arrays share the tensor's memory.
        """
        shared_memory.share(self)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """True if the elements lie in host memory that a GPU copies from by itself."""
        return gpu.is_pinned(self.array)

    def view(self, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
        """The same memory under another shape, or with its bits read as another dtype.

        Raises:
            ShapeError: the strides do not allow it (use `reshape`), or sizes do not fit.
        """
        if len(shape) == 1 and isinstance(shape[0], DType):
            return self._view_as_dtype(shape[0])
        if dtype is not None:
            return self._view_as_dtype(dtype)
        if not shape and size is None:
            raise ArgumentError("view(): expected sizes, or a dtype.")
        words = None
        try:
            result = TensorMethods.reshape(self, *shape, shape=size)
        except ShapeError as error:
            words = str(error)
        if words is not None:
            raise ShapeError(said_of_view(words))
        if not _tensor.shares_memory(result.array, self.array):
            raise ShapeError(MSG_VIEW.format(shape=list(result.shape)))
        return result

    def view_as(self, other: Any) -> Any:
        """`view(other.shape)`."""
        return self.view(other.shape)

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """The memory behind this tensor at the given strides; see `ops.arrangement_functions`.

        Raises:
            ShapeError: elements lie outside the memory.
            UnsupportedError: gradients are recorded, and elements lie outside of this tensor, or
                elements of this tensor lie at one place in memory.
        """
        own, memory = self.storage_offset(), any_arrays.flat_memory(self.array)
        offset = own if storage_offset is None else storage_offset
        strided_extent(size, stride, offset, memory.size)
        if self.requires_grad and _tensor.is_grad_enabled():
            if self.array.flags.c_contiguous:
                _require_inside(size, stride, offset - own, self.array.size)
                return elements_at(self, size, stride, offset - own)
            return elements_of_strided(self, self.stride(), size, stride, offset - own)
        view = any_arrays.strided(memory[offset:], tuple(size), tuple(stride))
        return _tensor.wrap_view(view, self, None)

    def _view_as_dtype(self, dtype: DType) -> Any:
        if dtype.itemsize != self.array.itemsize:
            name = dtypes.from_numpy(self.array.dtype).name
            raise ShapeError(
                f"view(dtype={dtype.name}): elements of {name} have another size.  Expected a "
                "dtype of the same size."
            )
        return _tensor.wrap_view(self.array.view(dtype.numpy), self, None)
