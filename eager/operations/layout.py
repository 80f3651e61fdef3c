"""Where the elements of a tensor lie in memory: strides, offsets, storage, views.

Contract: answers come from the array; strides and offsets count elements. `view` gives a true view
of the same memory or an error, never a silent copy.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.any_arrays import address
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, ShapeError
from dynajit.core.process.late import Late
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.memory_format import RANKS, MemoryFormat, outer_to_inner
from dynajit.core.types.value_types import contiguous_strides
from dynajit.eager import _tensor
from dynajit.eager.operations.storages import BY_DTYPE, TypedStorage, UntypedStorage
from dynajit.eager.operations.strided_views import strided_view
from dynajit.ops.calls.placing import contiguous, copied_by_rows
from dynajit.ops.functions.shapes.shape import said_of_view
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.eager._tensor import Fields
else:
    Fields = object

shared_memory = Late("dynajit.eager.operations.shared_memory")

MSG_VIEW: Final = (
    "view({shape}): view size is not compatible with input tensor's size and stride (at least one "
    "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
)


class LayoutMethods(Fields):
    """Mixin of `Tensor`: see the module."""

    __slots__: tuple[()] = ()

    def stride(self, dim: int | None = None) -> Any:
        """Elements to skip per step of each dimension, or of dimension `dim`."""
        array = self._memory
        if not array.size and not any(array.strides):
            strides = contiguous_strides(array.shape)  # zeros say nothing
        else:
            strides = tuple(step // array.itemsize for step in array.strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Elements between the start of the storage and the first element."""
        memory = self._memory
        distance = address(memory) - address(any_arrays.owner(memory))
        return distance // int(memory.itemsize)

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there are none."""
        memory = self._memory
        return 0 if is_meta(memory) or not memory.size else address(memory)

    def untyped_storage(self) -> UntypedStorage:
        """The bytes behind this tensor and its views."""
        return UntypedStorage(self._memory)

    def storage(self) -> TypedStorage:
        """The memory behind this tensor and its views, as elements of its dtype."""
        return TypedStorage(wrap_storage=UntypedStorage(self._memory), dtype=self.dtype)

    def storage_type(self) -> Any:
        """The class of what `storage()` gives."""
        return BY_DTYPE[self.dtype]

    def is_inference(self) -> bool:
        """Whether the tensor, or what it is a view of, was made in inference mode."""
        return bool(self._storage.is_inference)

    def _note_parts(self, parts: tuple[Any, ...]) -> None:
        """Recorded writes to these views are refused from now on."""
        _tensor.note_parts(parts)

    def _is_view(self) -> bool:
        """Whether writes to the tensor are writes to another one, `_base`."""
        return self._base is not None

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True if the elements lie without gaps, row-major or in that memory format."""
        if memory_format is None:
            return bool(self._memory.flags.c_contiguous)
        if isinstance(memory_format, MemoryFormat) and self.ndim != RANKS.get(
            memory_format, self.ndim
        ):
            return False
        order = outer_to_inner(memory_format, self.ndim)
        array = self._memory if order is None else self._memory.transpose(order)
        return bool(array.flags.c_contiguous)

    def contiguous(self: Any, memory_format: Any = None) -> Any:
        """Itself if contiguous (in that memory format), else a contiguous copy."""
        if self.is_contiguous(memory_format):
            return self
        return copied_by_rows(self) if memory_format is None else contiguous(self, memory_format)

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self._memory.itemsize)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self._memory.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._memory.nbytes)

    def is_shared(self) -> bool:
        """True if the elements lie in memory that processes share, or on a GPU."""
        owner = any_arrays.owner(self._memory)
        if not isinstance(owner, np.ndarray):
            return True
        # Only shared memory is mapped through a memoryview; the module is then loaded.
        base: Any = owner.base
        return isinstance(base, memoryview) and shared_memory.block_of(owner) is not None

    def share_memory_(self) -> Any:
        """Move the elements into memory that child processes share; see
        `eager.operations.shared_memory`.

        Raises:
            UnsupportedError: other tensors or arrays share the tensor's memory.
        """
        shared_memory.share(self)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """True if the elements lie in host memory that a GPU copies from by itself."""
        return gpu.is_pinned(self._memory)

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
            result = TensorMethods.reshape(self, *shape, shape=size)  # type: ignore[attr-defined]  # from a table
        except ShapeError as error:
            words = str(error)
        if words is not None:
            raise ShapeError(said_of_view(words))
        if not _tensor.shares_memory(result._memory, self._memory):
            raise ShapeError(MSG_VIEW.format(shape=list(result.shape)))
        return result

    def view_as(self, other: Any) -> Any:
        """`view(other.shape)`."""
        return self.view(other.shape)

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """The memory behind this tensor at the given strides; see
        `ops.functions.arrangement.arrangement`.

        Raises:
            ShapeError: elements lie outside the memory.
        """
        return strided_view(self, size, stride, storage_offset)

    def _view_as_dtype(self, dtype: DType) -> Any:
        if self._is_mirrored:
            what = "conjugate view tensors" if self.is_conj() else "tensors with negative bit set"
            raise ArgumentRuntimeError(
                f"view(dtype={dtype.name}) is not supported for {what}.  Use resolve_conj() or "
                "resolve_neg() first."
            )
        if dtype is dtypes.from_numpy(self.array.dtype):
            return TABLE.permute(self, dims=tuple(range(self.ndim)))
        if dtype.itemsize != self.array.itemsize:
            reason = _why_not_viewed(self, dtype)
            if reason:
                name = dtypes.from_numpy(self.array.dtype).name
                raise ShapeError(f"view(dtype={dtype.name}) of {name}: {reason}")
        viewed = self.array.view(dtype.numpy)
        if not self.array.size and isinstance(viewed, np.ndarray):  # NumPy makes up their strides
            had, has = self.array.itemsize, dtype.itemsize
            steps = (*(step * had // has for step in self.stride()[:-1]), *self.stride()[-1:])
            viewed = any_arrays.strided(viewed.reshape(-1), tuple(viewed.shape), steps)
        return _tensor.wrap_view(viewed, self, None)


def _why_not_viewed(tensor: Any, dtype: DType) -> str | None:
    """Why the bits of a tensor cannot be seen as elements of another size."""
    if not tensor.ndim:
        return "a tensor of 0 dims has no last dim whose size could change.  Use unsqueeze(-1)."
    *outer, last = tensor.stride()
    if last != 1:
        return f"the stride of the last dim is {last}.  Expected 1; use contiguous()."
    ratio = dtype.itemsize // tensor.array.itemsize
    numbers = (tensor.shape[-1], tensor.storage_offset(), *outer)
    if ratio > 1 and any(number % ratio for number in numbers):
        return (
            f"the last size, the offset in the storage and the strides, {numbers}, have to be "
            f"multiples of {ratio}.  Use contiguous(), or another size."
        )
    return None
