"""Storages: the memory behind tensors, as bytes, and as elements of one dtype.

Contract: a storage shows the memory itself: what is written into it is seen by its tensors, without
a version being counted. Its size is that of the memory and never changes. Two storages are equal
where they are the same memory.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.any_arrays import address
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.short_floats import is_own
from dynajit.eager.modes.defaults import get_default_dtype


def _bytes_of(values: Any) -> Any:
    """Integers as bytes, which wrap.

    Raises:
        ArgumentRuntimeError: one is no integer.
    """
    for value in values:
        if not isinstance(value, int):
            raise ArgumentRuntimeError(
                f"UntypedStorage(): a sequence with an item of {type(value).__name__}.  Expected "
                "integers."
            )
    return np.array([value & 255 for value in values], np.uint8)


class UntypedStorage:
    """The bytes behind a tensor and its views.

    Args:
        array: an array, how many bytes to make, or the bytes as integers.

    Raises:
        ShapeError: a negative number of bytes.
        ArgumentRuntimeError: something else, or bytes that are no integers.
    """

    __slots__ = ("array",)

    def __init__(self, array: Any = 0, *, device: Any = None) -> None:
        if isinstance(array, int) and not isinstance(array, bool):
            if array < 0:
                raise ShapeError(f"UntypedStorage({array}): a negative number of bytes.")
            made = any_arrays.zeros((array,), np.dtype(np.uint8), devices.parse(device))
        elif isinstance(array, Sequence):
            made = _bytes_of(array)
        elif hasattr(array, "dtype"):
            made = array
        else:
            raise ArgumentRuntimeError(
                f"UntypedStorage(): got {type(array).__name__}.  Expected a number of bytes or a "
                "sequence of integers."
            )
        self.array = any_arrays.owner(made)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> "UntypedStorage":
        """The bytes of a file, in memory that it is mapped to.

        Args:
            shared: what is written goes into the file, which is made, or made longer, if it has
                fewer than `nbytes`; else nothing reaches it.
            nbytes: how many; 0 for all that a file holds.

        Raises:
            ShapeError: there are fewer, and the file is not shared.
        """
        flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
        descriptor = os.open(os.fspath(filename), flags, 0o666)
        try:
            held = os.fstat(descriptor).st_size
            if shared and held < nbytes:
                os.ftruncate(descriptor, nbytes)
            elif held < nbytes:
                raise ShapeError(
                    f"from_file: {filename} has {held} bytes.  Expected {nbytes} or more."
                )
            count = nbytes or held
            if not count:
                return cls(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return cls(np.frombuffer(mmap.mmap(descriptor, count, access=access), np.uint8))
        finally:
            os.close(descriptor)

    @property
    def memory(self) -> Any:
        """The bytes as an array, uint8 of one dim."""
        if is_meta(self.array):
            return any_arrays.flat_memory(self.array)
        return self.array.ravel(order="K").view(np.uint8)

    def data_ptr(self) -> int:
        """Address of the first byte; 0 where there are none (`meta`)."""
        return address(self.array)

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self.array.nbytes)

    def element_size(self) -> int:
        """1: a byte."""
        return 1

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return any_arrays.device_of(self.array)

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The number of the GPU, -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

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

    def clone(self) -> "UntypedStorage":
        """A copy of the bytes."""
        return UntypedStorage(any_arrays.row_major(self.memory))

    def copy_(self, source: "UntypedStorage", non_blocking: bool = False) -> "UntypedStorage":
        """Overwrite the bytes by those of another storage of this size.

        Raises:
            ShapeError: it has another size.
        """
        if source.nbytes() != self.nbytes():
            raise ShapeError(
                f"copy_: a storage of {source.nbytes()} bytes into one of {self.nbytes()}.  "
                "Expected equal sizes."
            )
        any_arrays.copy_into(self.memory, source.memory)
        return self

    def fill_(self, value: int) -> "UntypedStorage":
        """Overwrite all bytes by one."""
        self.memory[...] = value
        return self

    def resize_(self, size: int) -> "UntypedStorage":
        """The storage, if it has that size.

        Raises:
            UnsupportedError: it has another one.
        """
        if size != self.nbytes():
            raise UnsupportedError(
                f"resize_: a storage of {self.nbytes()} bytes cannot get {size}: its tensors lie "
                "in it.  Make a new tensor."
            )
        return self

    def resizable(self) -> bool:
        """False."""
        return False

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the bytes lie in host memory that a GPU copies from by itself."""
        return gpu.is_pinned(self.array)

    def tolist(self) -> list[int]:
        """The bytes as integers."""
        found: list[int] = any_arrays.as_numpy(self.memory).tolist()
        return found

    def untyped(self) -> "UntypedStorage":
        """Itself."""
        return self

    def __len__(self) -> int:
        return self.nbytes()

    def size(self) -> int:
        """Number of bytes."""
        return self.nbytes()

    def __getitem__(self, place: Any) -> Any:
        found = self.memory[_checked(place, self.nbytes())]
        if not isinstance(place, slice):
            return int(found)
        part = UntypedStorage()
        part.array = found
        return part

    def __setitem__(self, place: Any, value: Any) -> None:
        self.memory[_checked(place, self.nbytes())] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes on {self.device}>"


def _checked(place: Any, count: int) -> Any:
    """A place in a storage, or a part without steps.

    Raises:
        IndexError: it lies outside, or steps over elements.
    """
    if isinstance(place, slice):
        if place.step not in (None, 1):
            raise ArgumentError(f"a part of a storage has steps of 1, got {place.step}.")
        return place
    if not isinstance(place, (int, np.integer)):
        raise ArgumentError(f"can't index a storage with {type(place).__name__}.")
    if not -count <= place < count:
        raise IndexError(f"index {place} out of range for storage of size {count}")
    return place


class TypedStorage:
    """The memory behind a tensor as elements of its dtype.

    Args:
        data: how many elements to make (undefined in PyTorch, 0 here), or the elements.
        wrap_storage: the bytes, in the place of data.
        dtype: of the elements; of a class such as `FloatStorage` its own.
    """

    __slots__ = ("_own_dtype", "_untyped_storage")

    _dtype: ClassVar[DType | None] = None

    def __init__(
        self, *data: Any, wrap_storage: UntypedStorage | None = None, dtype: DType | None = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        self._own_dtype = type(self)._dtype or dtype or get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
            return
        given = data[0] if data else 0
        if isinstance(given, int):
            array = any_arrays.zeros((given,), self.dtype.numpy, devices.parse(device))
        else:
            array = np.array(list(given), self.dtype.numpy)
        self._untyped_storage = UntypedStorage(array)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._own_dtype

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> "TypedStorage":
        """The elements that a file holds; see `UntypedStorage.from_file`."""
        dtype = cls._dtype or get_default_dtype()
        found = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return cls(wrap_storage=found, dtype=dtype)

    @property
    def memory(self) -> Any:
        """The elements as an array of one dim."""
        count = self.size() * self.dtype.itemsize
        return self._untyped_storage.memory[:count].view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """Number of elements."""
        return self.nbytes() // self.dtype.itemsize

    def __len__(self) -> int:
        return self.size()

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return self._untyped_storage.is_cuda

    def get_device(self) -> int:
        """The number of the GPU, -1 for the CPU."""
        return self._untyped_storage.get_device()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the storage's class, such as "torch.FloatStorage"; or a copy as another."""
        if dtype is None:
            return f"torch.{_CLASS_NAMES[self.dtype]}"
        found: Any = getattr(dtype, "_dtype", None) or dtypes.parse(dtype)
        return self._as(found)

    def _as(self, dtype: DType) -> "TypedStorage":
        if dtype is self.dtype:
            return self
        array = self.memory.astype(dtype.numpy)
        return TypedStorage(wrap_storage=UntypedStorage(array), dtype=dtype)

    def _with(self, bytes_: UntypedStorage) -> "TypedStorage":
        if bytes_ is self._untyped_storage:
            return self
        return type(self)(wrap_storage=bytes_, dtype=self.dtype)

    def clone(self) -> "TypedStorage":
        """A copy."""
        return self._with(self._untyped_storage.clone())

    def cpu(self) -> "TypedStorage":
        """The storage on the CPU: itself, or a copy."""
        return self._with(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> "TypedStorage":
        """The storage on a GPU: itself, or a copy."""
        return self._with(self._untyped_storage.cuda(device))

    def copy_(self, source: Any, non_blocking: bool = False) -> "TypedStorage":
        """Overwrite the elements by those of another storage of as many, converted.

        Raises:
            ShapeError: there are fewer or more.
        """
        if source.size() != self.size():
            raise ShapeError(
                f"copy_: a storage of {source.size()} elements into one of {self.size()}.  "
                "Expected equal sizes."
            )
        any_arrays.copy_into(self.memory, source.memory)
        return self

    def fill_(self, value: Any) -> "TypedStorage":
        """Overwrite all elements by one."""
        self.memory[...] = value
        return self

    def resize_(self, size: int) -> "TypedStorage":
        """The storage, if it has that size; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the elements lie in host memory that a GPU copies from by itself."""
        return self._untyped_storage.is_pinned()

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        array = any_arrays.as_numpy(self.memory)
        found: list[Any] = (array.astype(np.float32) if is_own(array.dtype) else array).tolist()
        return found

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            raise UnsupportedError(
                "slices of a storage with a dtype are not available.  Use untyped()."
            )
        return self.memory[_checked(place, self.size())].item()

    def __setitem__(self, place: Any, value: Any) -> None:
        self.memory[_checked(place, self.size())] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and other.dtype is self.dtype
            and other._untyped_storage == self._untyped_storage
        )

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        return f"<TypedStorage of {self.size()} elements, {self.dtype}, on {self.device}>"


def _conversion(name: str, dtype: DType) -> Any:
    def method(self: TypedStorage) -> TypedStorage:
        return self._as(dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The elements as {dtype.name}: itself, or a copy."
    return method


CLASSES: Final[dict[str, DType]] = {
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
_CLASS_NAMES: Final = {dtype: name for name, dtype in CLASSES.items()}
_METHODS: Final = {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "long": dtypes.int64, "int": dtypes.int32,
    "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8, "bool": dtypes.bool_,
    "complex_float": dtypes.complex64, "complex_double": dtypes.complex128,
}  # fmt: skip
for _name, _dtype in _METHODS.items():
    setattr(TypedStorage, _name, _conversion(_name, _dtype))


class _OfOneDtype(type):
    """Class of classes of one dtype: a storage of that dtype is an instance, whoever made it."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return isinstance(instance, TypedStorage) and instance.dtype is cls._dtype  # type: ignore[attr-defined]


def _class_of(name: str) -> Any:
    members = {
        "_dtype": CLASSES[name],
        "dtype": CLASSES[name],
        "__doc__": f"Storages of {CLASSES[name].name}: `{name}(3)` by size, `{name}([1])` of data.",
        "__module__": "dynajit",
        "__slots__": (),
    }
    return _OfOneDtype(name, (TypedStorage,), members)


BY_DTYPE: Final[dict[DType, Any]] = {dtype: _class_of(name) for name, dtype in CLASSES.items()}


def bytes_of(source: Any, dtype: DType) -> UntypedStorage:
    """The bytes of a storage of either kind.

    Raises:
        ArgumentError: it is none.
        DTypeError: it has elements of another dtype.
    """
    if isinstance(source, TypedStorage) and source.dtype is dtype:
        return source.untyped()
    if isinstance(source, UntypedStorage):
        return source
    if isinstance(source, TypedStorage):
        raise DTypeError(f"expected a storage of {dtype.name}, got one of {source.dtype.name}.")
    raise ArgumentError(f"expected a tensor or a storage, got {type(source).__name__}.")
