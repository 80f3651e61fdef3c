"""What PyTorch's checkpoints call things, and what stands for them here.

Contract: a checkpoint is a pickle whose classes and functions are named as PyTorch names them.
`found` gives the object here for such a name, among them functions that make a tensor out of a
storage and its sizes, which trust nothing that they are given. `Name` is an object that a pickle
shall spell under PyTorch's name. `nn.parameter` and `nn.pickled_modules` declare what they alone
can make.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.meta_arrays import MetaArray
from dynajit.core.errors import FileFormatError
from dynajit.core.process.late import Late
from dynajit.core.records import record
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.tensor_layouts import WHY_COMPRESSED, Layout, sparse_coo
from dynajit.eager import _tensor
from dynajit.eager.tensor.tensor import Size, Tensor
from dynajit.eager.tensor.typed_names import TYPE_NAMES

_sparse = Late("dynajit.eager.sparse.functions")


@record
class Name:
    """A class, function or constant under PyTorch's name."""

    module: str
    name: str

    def __call__(self) -> Any:
        """Picklers ask whether what makes an object can be called; it is, by who reads."""
        raise FileFormatError(f"{self.module}.{self.name} is a name in a file")


@record
class StorageClass:
    """Stands for a class of storages such as `torch.FloatStorage`."""

    dtype: DType


@record
class FileStorage:
    """Bytes of a file that tensors share.

    Args:
        data: uint8 array, shape (bytes,).
        dtype: of the elements.
        counted: the version counter of all tensors in these bytes.
        marked: takes the tensors of the file that mean something else than is stored; see
            `resolve_marks`.
    """

    data: Any
    dtype: DType
    counted: Any
    marked: list[Any]


def storage_class_name(dtype: DType) -> Name:
    """`torch.FloatStorage` and its kin."""
    return _STORAGE_CLASSES[dtype]


def declare(module: str, name: str, made: Any) -> None:
    """Let checkpoints speak of `made` by PyTorch's name; once, when a module is imported."""
    _NAMES[module, name] = made


def found(module: str, name: str) -> Any:
    """What `module.name` of PyTorch is here.

    Raises:
        KeyError: nothing here stands for it.
    """
    return _NAMES[module, name]


def declare_package(package: str, equal: Callable[[str, str], Any]) -> None:
    """Let files that may do all speak of what lies in a package of PyTorch's, or below it.

    Args:
        equal: (module, name) -> what stands for it here, or None.
    """
    _PACKAGES[package] = equal


def found_in_package(module: str, name: str) -> Any:
    """What a declared package has under PyTorch's name, or None."""
    for package, equal in _PACKAGES.items():
        if module == package or module.startswith(f"{package}."):
            return equal(module, name)
    return None


def rebuilt_tensor(
    storage: Any,
    offset: int,
    shape: Any,
    strides: Any,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor in the bytes of a storage; offset and strides count elements.

    Raises:
        FileFormatError: it would reach beyond the storage.
    """
    if not isinstance(storage, FileStorage):
        raise FileFormatError(f"a tensor of the file lies in a {type(storage).__name__}")
    return _placed(storage, storage.dtype, offset, shape, strides, requires_grad, metadata)


def _rebuilt_tensor_of_dtype(
    storage: Any,
    offset: int,
    shape: Any,
    strides: Any,
    requires_grad: bool,
    hooks: Any,
    dtype: DType,
    metadata: Any = None,
) -> Tensor:
    return _placed(storage, dtype, offset, shape, strides, requires_grad, metadata)


def _placed(
    storage: FileStorage, dtype: DType, offset: int, shape: Any, strides: Any, requires_grad: bool,
    metadata: Any,
) -> Tensor:  # fmt: skip
    """See `rebuilt_tensor`.

    Args:
        metadata: see `resolve_marks`; or None.
    """
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(n) is int and n >= 0 for n in numbers):
        raise FileFormatError(
            f"a tensor of the file has the sizes {shape}, strides {strides}, offset {offset}"
        )
    size = dtype.itemsize
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 not in shape and (last + 1) * size > storage.data.nbytes:
        raise FileFormatError(
            f"a tensor of the file with sizes {tuple(shape)} reaches beyond its storage of "
            f"{storage.data.nbytes} bytes"
        )
    if 0 in shape:
        array = any_arrays.zeros(tuple(shape), dtype.numpy, any_arrays.device_of(storage.data))
    else:
        elements = storage.data[offset * size : (last + 1) * size].view(dtype.numpy)
        array = any_arrays.strided(elements, tuple(shape), tuple(strides))
    made: Tensor = _tensor.new_of(Tensor, array, storage.counted)
    if isinstance(metadata, dict) and metadata:
        stored, made = made, _tensor.new_of(Tensor, any_arrays.copied(array), None)
        storage.marked.append((stored, made, metadata))
    if requires_grad:
        made.requires_grad = True
    return made


def resolve_marks(marked: list[tuple[Tensor, Tensor, dict[str, Any]]]) -> None:
    """Give tensors their values, now that the storages are read: the conjugates ("conj"), or the
    negated numbers ("neg"), of others that are stored. They have memory of their own."""
    for values, made, metadata in marked:
        values = values.conj().resolve_conj() if metadata.get("conj") else values
        values = values.neg() if metadata.get("neg") else values
        any_arrays.copy_into(made.array, values.array)


def _rebuilt_from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    made = function(*arguments)
    if isinstance(kind, type) and issubclass(kind, Tensor) and kind is not type(made):
        made = made.as_subclass(kind)
    return with_state(made, state)


def with_state(made: Any, state: Any) -> Any:
    """`made` with the attributes of `state`: a dict, or a dict and a dict of slots.

    Raises:
        FileFormatError: it is neither, or an attribute would stand before a method.
    """
    fields = state[0] if isinstance(state, tuple) and state else state
    if not isinstance(fields, dict | None):
        raise FileFormatError(f"the attributes of a tensor are a {type(fields).__name__}")
    check_shadows_nothing(type(made), fields or {})
    made.__dict__.update(fields or {})
    return made


def check_shadows_nothing(cls: type, fields: dict[Any, Any]) -> None:
    """Refuse attributes of a file that an object would have in place of its class's methods.

    Python looks for a method in the object first, where the class does not forbid it.

    Raises:
        FileFormatError: there is such a name, or one that Python itself asks for.
    """
    for name in fields:
        if not isinstance(name, str):
            raise FileFormatError(f"an attribute of a {cls.__name__} of the file is {name!r}")
        if name.startswith("__") or _is_method(cls, name):
            raise FileFormatError(
                f"a {cls.__name__} of the file has an attribute {name!r}, which would stand in "
                "place of the class's own"
            )


def _is_method(cls: type, name: str) -> bool:
    """Whether a class has a method of that name. In classes of programs a function under another
    name counts as the default of an attribute."""
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    if owner is None:
        return False
    own = vars(owner)[name]
    if isinstance(own, (classmethod, staticmethod)):
        own = own.__func__
    is_library = owner.__module__.partition(".")[0] in ("dynajit", "builtins", "collections")
    return callable(own) and (is_library or getattr(own, "__name__", name) == name)


def _rebuilt_sparse(layout: Any, parts: Any) -> Any:
    """A sparse tensor of its indices, values, size and whether it is coalesced."""
    if layout is not sparse_coo:
        raise FileFormatError(f"a sparse tensor of the file: {WHY_COMPRESSED}")
    indices, values, size, *rest = parts
    return _sparse.sparse_coo_tensor(indices, values, size, is_coalesced=bool(rest and rest[0]))


def _rebuilt_meta(dtype: Any, shape: Any, strides: Any, requires_grad: bool = False) -> Tensor:
    """A tensor without elements, of its dtype, sizes and strides in elements."""
    sizes = (*shape, *strides)
    is_plain = isinstance(dtype, DType) and len(shape) == len(strides)
    if not is_plain or not all(type(size) is int and size >= 0 for size in sizes):
        raise FileFormatError(f"a tensor on 'meta' of the file has the sizes {shape} and {strides}")
    steps = tuple(step * dtype.itemsize for step in strides)
    made: Tensor = _tensor.new_of(Tensor, MetaArray(tuple(shape), dtype.numpy, steps), None)
    if requires_grad:
        made.requires_grad = True
    return made


def _layout(name: str) -> Layout:
    return Layout(name.removeprefix("torch."))


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Bytes, as pickles of protocol 2 spell them."""
    if encoding != "latin1":
        raise FileFormatError(f"bytes of the file are encoded as {encoding!r}, not 'latin1'")
    return text.encode("latin1")


def _device(kind: str, index: int | None = None) -> Any:
    return devices.parse(kind, index)


_STORAGE_CLASSES: Final = {
    dtype: Name("torch", name.replace("Tensor", "Storage")) for name, dtype in TYPE_NAMES.items()
}

_REBUILT: Final[dict[tuple[str, str], Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("_codecs", "encode"): _encoded,
    ("torch", "Size"): Size,
    ("torch", "Tensor"): Tensor,
    ("torch", "device"): _device,
    ("torch._utils", "_rebuild_tensor"): rebuilt_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuilt_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuilt_tensor_of_dtype,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuilt_from_type,
    ("torch._utils", "_rebuild_sparse_tensor"): _rebuilt_sparse,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuilt_meta,
    ("torch.serialization", "_get_layout"): _layout,
    ("torch.storage", "UntypedStorage"): StorageClass(dtypes.uint8),
    **{("torch", dtype.name): dtype for dtype in dtypes.KNOWN},
    **{("torch", named.name): StorageClass(dtype) for dtype, named in _STORAGE_CLASSES.items()},
    **{
        ("torch.cuda", named.name): StorageClass(dtype) for dtype, named in _STORAGE_CLASSES.items()
    },
}

#: Closed when the package is imported: `declare` adds what higher layers make.
_NAMES: Final[dict[tuple[str, str], Any]] = dict(_REBUILT)

#: Likewise: `declare_package`.
_PACKAGES: Final[dict[str, Callable[[str, str], Any]]] = {}
