"""Checkpoints written: a pickle with PyTorch's names, and the bytes of storages beside it.

Contract: what is written is read by PyTorch's `load(weights_only=True)` as long as it holds
tensors, parameters, numbers, texts, dtypes, sizes, devices and containers of them. Tensors that
share memory share it in the file. All other objects are pickled as Python does, under the names of
their own classes.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.any_arrays import address
from dynajit.core.errors import DTypeError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.eager._tensor import TensorBase
from dynajit.eager.files.names import Name, found, storage_class_name
from dynajit.eager.operations.storages import UntypedStorage
from dynajit.eager.sparse.sparse_tensor import SparseTensor
from dynajit.eager.tensor.tensor import Size, Tensor

ALIGNMENT: Final = 64  # of storages in the file, so that they can be mapped

MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C  # opens files of the older kind
OLD_PROTOCOL: Final = 1001

# One object per name: a pickle then spells it once.
TENSOR: Final = Name("torch._utils", "_rebuild_tensor_v2")
TENSOR_OF_DTYPE: Final = Name("torch._utils", "_rebuild_tensor_v3")
BYTES: Final = Name("torch.storage", "UntypedStorage")
PARAMETER: Final = Name("torch._utils", "_rebuild_parameter")
PARAMETER_WITH_STATE: Final = Name("torch._utils", "_rebuild_parameter_with_state")
UNINITIALIZED: Final = (
    Name("torch.nn.parameter", "UninitializedParameter"),
    Name("torch.nn.parameter", "UninitializedBuffer"),
)
OF_CLASS: Final = Name("torch._tensor", "_rebuild_from_type_v2")
TENSOR_CLASS: Final = Name("torch", "Tensor")
SPARSE: Final = Name("torch._utils", "_rebuild_sparse_tensor")
META_TENSOR: Final = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
LAYOUT: Final = Name("torch.serialization", "_get_layout")
DEVICE: Final = Name("torch", "device")
SIZE: Final = Name("torch", "Size")
DTYPE_NAMES: Final = {dtype: Name("torch", dtype.name) for dtype in dtypes.KNOWN}

MSG_TWO_DTYPES: Final = (
    "save: Cannot save multiple tensors or storages that view the same data as different types "
    "({first} and {second}).  Clone one of them."
)


class Parts:
    """The storages of one file, in the order in which they were met. Mutable.

    Args:
        old: storages are named by numbers that are unique in a process, and carry no view.
    """

    def __init__(self, old: bool) -> None:
        self.old = old
        self.arrays: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self._met: dict[tuple[str, int], tuple[DType, tuple[Any, ...]]] = {}

    def placed(self, array: Any) -> tuple[tuple[Any, ...], int, tuple[int, ...]]:
        """(persistent id of the storage, offset, strides) of a tensor's array."""
        dtype = dtypes.from_numpy(array.dtype)
        whole = _memory(array)
        if whole is None:  # PyTorch has no name for such memory: the tensor gets its own
            array = any_arrays.row_major(array)
            whole = array.reshape(-1)
        known, identity = self._met.setdefault(_place(whole), (dtype, self._named(whole, dtype)))
        if known is not dtype:
            raise DTypeError(MSG_TWO_DTYPES.format(first=known.name, second=dtype.name))
        self.arrays[identity[2]] = whole
        self.counts[identity[2]] = identity[4]
        start = address(array) - address(whole)
        strides = tuple(step // dtype.itemsize for step in array.strides)
        offset = start // dtype.itemsize if array.size else 0
        return identity, offset, strides

    def _named(self, whole: Any, dtype: DType) -> tuple[Any, ...]:
        is_typed = dtype not in dtypes.STORED
        count = whole.nbytes // dtype.itemsize if is_typed else whole.nbytes
        place = str(any_arrays.device_of(whole))
        kind = storage_class_name(dtype) if is_typed else BYTES
        name = ("storage", kind, str(len(self._met)), place, count)
        return (*name, None) if self.old else name


def _place(whole: Any) -> tuple[str, int]:
    """What tells one memory from another; all that is kept lives as long as the file is made."""
    if not whole.nbytes:
        return "empty", id(whole)
    return "at", address(whole)


def _memory(array: Any) -> Any:
    """The memory behind an array as a one-dimensional array without gaps, or None."""
    owner = UntypedStorage(array).array
    size = array.itemsize
    start = address(array) - address(owner)
    if (
        start % size
        or owner.nbytes % size
        or any(step < 0 or step % size for step in array.strides)
    ):
        return None
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return None
    return owner.ravel(order="K")


class Pickler(pickle._Pickler):
    """Writes tensors and what belongs to them under PyTorch's names.

    Python's own pickler in Python: the one in C refuses names of modules that are not there.
    """

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)
    if TYPE_CHECKING:  # what typeshed leaves out

        def write(self, data: bytes) -> None: ...
        def memoize(self, obj: Any) -> None: ...
        def save(self, obj: Any) -> None: ...
        def save_reduce(self, func: Any, args: Any, *, obj: Any = None) -> None: ...

    def __init__(self, file: Any, protocol: int, parts: Parts) -> None:
        super().__init__(file, protocol)
        self.parts = parts

    def persistent_id(self, obj: Any) -> Any:
        """Storages stand beside the pickle."""
        return obj.identity if isinstance(obj, _StorageAt) else None

    def reducer_override(self, obj: Any) -> Any:
        """How a tensor, a dtype, a size and a device are made again."""
        if isinstance(obj, SparseTensor):
            return _sparse(obj)
        if isinstance(obj, TensorBase):
            return self._tensor(obj)
        if isinstance(obj, Device):
            parts = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return DEVICE, parts
        if isinstance(obj, UntypedStorage):
            raise DTypeError("save: a storage alone cannot be saved.  Save a tensor.")
        return NotImplemented

    def _tensor(self, tensor: Any) -> Any:
        if not tensor.is_leaf:
            tensor = tensor.detach().requires_grad_(tensor.requires_grad)
        state = tensor._kept_attributes()
        for name in UNINITIALIZED:
            if isinstance(tensor, found(name.module, name.name)):
                return name, (bool(tensor.requires_grad), tensor.device, tensor.dtype)
        if isinstance(tensor, found("torch.nn.parameter", "Parameter")):
            data = _Reduced(*self._plain(tensor, False))
            arguments: Any = (data, bool(tensor.requires_grad), OrderedDict())
            if not state:
                return PARAMETER, arguments
            return PARAMETER_WITH_STATE, (*arguments, state)
        function, arguments = self._plain(tensor, bool(tensor.requires_grad))
        if type(tensor) is Tensor and not state:
            return function, arguments
        kind = TENSOR_CLASS if type(tensor) is Tensor else type(tensor)
        return OF_CLASS, (function, kind, arguments, state)

    def _plain(self, tensor: Any, requires_grad: bool) -> Any:
        if tensor.is_meta:
            return META_TENSOR, (
                tensor.dtype, tuple(tensor.shape), tensor.stride(), requires_grad,
            )  # fmt: skip
        identity, offset, strides = self.parts.placed(tensor.array)
        shape = tuple(int(size) for size in tensor.array.shape)
        place = (_StorageAt(identity), offset, shape, strides)
        if tensor.dtype in dtypes.STORED:  # whose storages have no class of their own
            return TENSOR_OF_DTYPE, (*place, requires_grad, OrderedDict(), tensor.dtype)
        return TENSOR, (*place, requires_grad, OrderedDict())

    def _save_name(self, obj: Name) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def _save_dtype(self, obj: DType) -> None:
        self.save(DTYPE_NAMES[obj])

    def _save_size(self, obj: Size) -> None:
        self.save_reduce(SIZE, (tuple(obj),), obj=obj)

    dispatch[Name] = _save_name
    dispatch[DType] = _save_dtype
    dispatch[Size] = _save_size


class _StorageAt:
    """Stands in the pickle for a storage."""

    __slots__ = ("identity",)

    def __init__(self, identity: tuple[Any, ...]) -> None:
        self.identity = identity


class _Reduced:
    """An object that exists in the pickle only: what a function gives for arguments."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Any, arguments: Any) -> None:
        self.function = function
        self.arguments = arguments

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.function, self.arguments


def _sparse(tensor: SparseTensor) -> Any:
    """As its two tensors.

    Raises:
        UnsupportedError: it is a parameter, or requires a gradient.
    """
    if type(tensor) is not SparseTensor or tensor.requires_grad:
        raise UnsupportedError(
            "save: a sparse parameter, or a sparse tensor that requires a gradient, cannot be "
            "saved.  Save .detach(), or its indices and values."
        )
    parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
    return SPARSE, (_Reduced(LAYOUT, ("torch.sparse_coo",)), parts)


def write_zip(obj: Any, file: BinaryIO, stem: str, protocol: int) -> None:
    """A file of PyTorch's present kind; `stem` is the folder that its entries lie in."""
    pickled, parts = io.BytesIO(), Parts(old=False)
    Pickler(pickled, protocol, parts).dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _entry(archive, f"{stem}/data.pkl", pickled.getvalue())
        _entry(archive, f"{stem}/.format_version", b"1")
        _entry(archive, f"{stem}/.storage_alignment", str(ALIGNMENT).encode())
        _entry(archive, f"{stem}/byteorder", b"little")
        for key, array in parts.arrays.items():
            _entry(archive, f"{stem}/data/{key}", _bytes(array))
        _entry(archive, f"{stem}/version", b"3\n")


def _bytes(array: Any) -> Any:
    return memoryview(any_arrays.as_numpy(array).view(np.uint8)) if array.nbytes else b""


def _entry(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """One entry, its bytes at a multiple of `ALIGNMENT`."""
    info = zipfile.ZipInfo(name)
    start = archive.fp.tell() + 30 + len(name.encode())  # type: ignore[union-attr]
    room = -(start + 4) % ALIGNMENT  # an extra field opens with its kind and its size
    info.extra = b"FB" + room.to_bytes(2, "little") + b"Z" * room
    archive.writestr(info, data)


def write_old(obj: Any, file: BinaryIO, protocol: int) -> None:
    """A file of the kind that PyTorch wrote before 1.6."""
    pickled, parts = io.BytesIO(), Parts(old=True)
    Pickler(pickled, protocol, parts).dump(obj)
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": OLD_PROTOCOL, "little_endian": True, "type_sizes": sizes}
    for opening in (MAGIC_NUMBER, OLD_PROTOCOL, system):
        pickle.dump(opening, file, protocol=protocol)
    file.write(pickled.getvalue())
    pickle.dump(list(parts.arrays), file, protocol=protocol)
    for key, array in parts.arrays.items():
        file.write(parts.counts[key].to_bytes(8, "little"))
        file.write(_bytes(array))
