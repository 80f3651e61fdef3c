"""Checkpoints read: PyTorch's zip files, and the kind that it wrote before 1.6.

Contract: with `weights_only` a file runs no code: its pickle may name only what `eager.files.names`
knows and what the user has declared safe, calls nothing else, and sets attributes of nothing but
tensors, ordered dicts and instances of classes declared safe. Without, Python's pickle does what
the file says. Storages are read once, tensors that shared memory share it again.
"""

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import FileFormatError, OutOfMemoryError, UnsafeFileError
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase
from dynajit.eager.files.names import (
    FileStorage,
    StorageClass,
    check_shadows_nothing,
    found,
    found_in_package,
    resolve_marks,
    with_state,
)
from dynajit.eager.files.writing import MAGIC_NUMBER, OLD_PROTOCOL
from dynajit.eager.operations.storages import UntypedStorage

#: Old pickles call Python's modules as Python 2 did.
OLD_MODULES: Final = {"__builtin__": "builtins", "copy_reg": "copyreg"}

MSG_REFUSED: Final = (
    "Weights only load failed: the file asks for {name}, which is neither a tensor's nor a plain "
    "container's.  Load it with weights_only=False if you trust where it comes from, since that "
    "runs what the file says; or declare the class with serialization.add_safe_globals([...])."
)
MSG_UNKNOWN: Final = (
    "load: the file holds {name} of PyTorch, which has no equal here.  Save a state_dict() of "
    "tensors instead."
)

MSG_MEMORY: Final = (
    "load: there is no memory for storage {key} of the file, {count} elements of {dtype} "
    "({size} bytes).  Load on a machine with more, or map the file with load(..., mmap=True)."
)
LARGEST_PICKLE: Final = 1 << 28
"""Bytes of a compressed pickle: those of checkpoints are lists of names, and not compressed."""

#: Gives the bytes of a storage: (its key, number of bytes) -> uint8 array.
ReadBytes = Callable[[str, int], Any]


@record
class Reading:
    """How a file is read.

    Args:
        placed: (storage, location in the file) -> storage; on the device where it goes.
        safe: what the user has declared safe, by (module, name); None where the file may do all.
        encoding: of texts that Python 2 wrote.
        map_bytes: map storages from the file instead of reading them.
    """

    placed: Callable[[UntypedStorage, str], UntypedStorage]
    safe: dict[tuple[str, str], Any] | None
    encoding: str
    map_bytes: bool


def named(module: str, name: str, safe: dict[tuple[str, str], Any] | None) -> Any:
    """The object that a checkpoint calls `module.name`.

    Raises:
        UnsafeFileError: it is not among those that a file of weights may name.
    """
    module = OLD_MODULES.get(module, module)
    if safe is not None and (module, name) in safe:
        return safe[module, name]
    try:
        return found(module, name)
    except KeyError:
        if safe is not None:
            raise UnsafeFileError(MSG_REFUSED.format(name=f"{module}.{name}")) from None
    equal = found_in_package(module, name)
    if equal is not None:
        return equal
    if module.partition(".")[0] == "torch":
        raise FileFormatError(MSG_UNKNOWN.format(name=f"{module}.{name}"))
    return None


class _Unpickler(pickle.Unpickler):
    """Reads a file that may do all; PyTorch's names are ours."""

    def __init__(self, file: Any, load_storage: Any, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._load_storage = load_storage

    def find_class(self, module: str, name: str) -> Any:
        """PyTorch's names first."""
        known = named(module, name, None)
        return super().find_class(module, name) if known is None else known

    def persistent_load(self, identity: Any) -> Any:
        """A storage of the file; in old files also a class, beside the text that it came from."""
        if isinstance(identity, tuple) and identity[:1] == ("module",):
            return identity[1]
        return self._load_storage(identity)


if TYPE_CHECKING:

    class PythonUnpickler(pickle._Unpickler):
        """What typeshed leaves out."""

        stack: list[Any]

        def load_reduce(self) -> None: ...
        def load_newobj(self) -> None: ...
        def load_build(self) -> None: ...
else:
    PythonUnpickler = pickle._Unpickler


class _SafeUnpickler(PythonUnpickler):
    """Reads a file that may do nothing but make tensors, containers and what is declared safe.

    Python's own unpickler in Python, since what it calls and where it sets attributes is checked.
    """

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: Any, load_storage: Any, encoding: str, safe: Any) -> None:
        super().__init__(file, encoding=encoding)
        self._load_storage = load_storage
        self._safe = safe
        self._allowed: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        """Only what is known."""
        known = named(module, name, self._safe)
        self._allowed.append(known)
        return known

    def persistent_load(self, identity: Any) -> Any:
        """A storage of the file."""
        return self._load_storage(identity)

    def _require_known(self, function: Any) -> None:
        if not any(function is known for known in self._allowed):
            raise UnsafeFileError(MSG_REFUSED.format(name=f"a call of {type(function).__name__}"))

    def _reduce(self) -> None:
        self._require_known(self.stack[-2])
        super().load_reduce()

    def _newobj(self) -> None:
        self._require_known(self.stack[-2])
        super().load_newobj()

    def _build(self) -> None:
        target, state = self.stack[-2], self.stack[-1]
        if isinstance(target, TensorBase):
            with_state(target, self.stack.pop())
            return
        declared = any(type(target) is known for known in (self._safe or {}).values())
        self._check_attributes(target, state)
        if type(target) is OrderedDict and isinstance(state, dict):
            target.__dict__.update(self.stack.pop())
            return
        if not declared:
            name = f"the attributes of a {type(target).__name__}"
            raise UnsafeFileError(MSG_REFUSED.format(name=name))
        super().load_build()

    def _check_attributes(self, target: Any, state: Any) -> None:
        own = getattr(type(target), "__setstate__", None)  # may take what is no attribute
        if own is None or str(own.__module__).startswith("dynajit."):
            for part in state if isinstance(state, tuple) else (state,):
                if isinstance(part, dict):
                    check_shadows_nothing(type(target), part)

    def _refuse(self) -> None:
        raise UnsafeFileError(MSG_REFUSED.format(name="an object by a code that weights lack"))

    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _newobj
    dispatch[pickle.BUILD[0]] = _build
    for _code in (pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_code[0]] = _refuse


class _Storages:
    """The storages of one file by key: each is read when it is first met. Mutable.

    Args:
        swapped: what is read comes from a machine with the other byte order.
    """

    def __init__(self, reading: Reading, read: ReadBytes, swapped: bool = False) -> None:
        self._reading = reading
        self._read = read
        self._swapped = swapped
        self._met: dict[str, FileStorage] = {}
        self.marked: list[Any] = []

    def load(self, identity: Any) -> FileStorage:
        """The storage that a persistent id of a pickle names.

        Raises:
            FileFormatError: the id has another form.
        """
        match identity:
            case ("storage", StorageClass(dtype=dtype), str(key), str(location), int(count)):
                return self._storage(key, dtype, location, count)
            case ("storage", StorageClass(dtype=dtype), key, location, int(count), view):
                whole = self._storage(str(key), dtype, str(location), count)
                return whole if view is None else self._part(whole, view)
        raise FileFormatError(f"a storage of the file is called {identity!r}")

    def _storage(self, key: str, dtype: Any, location: str, count: int) -> FileStorage:
        if key not in self._met:
            size = count * dtype.itemsize
            if count < 0:
                raise FileFormatError(f"storage {key} of the file has {count} elements")
            try:
                data = self._read(key, size)
            except MemoryError:
                raise OutOfMemoryError(MSG_MEMORY.format(key=key, count=count, dtype=dtype.name,
                                                         size=size)) from None  # fmt: skip
            if data.nbytes < size:
                raise FileFormatError(f"storage {key} of the file has {data.nbytes} bytes")
            if self._swapped:
                _swap(data, dtype)
            data = self._reading.placed(UntypedStorage(data), location).array
            self._met[key] = FileStorage(data, dtype, _tensor.Storage(), self.marked)
        return self._met[key]

    def _part(self, whole: FileStorage, view: Any) -> FileStorage:
        key, offset, count = view
        size = whole.dtype.itemsize
        if offset < 0 or count < 0 or (offset + count) * size > whole.data.nbytes:
            raise FileFormatError(f"part {key!r} of a storage reaches beyond it")
        data = whole.data[offset * size : (offset + count) * size]
        return FileStorage(data, whole.dtype, whole.counted, self.marked)

    def stored(self) -> list[tuple[str, FileStorage]]:
        """Every storage met so far."""
        return list(self._met.items())


def _unpickled(file: Any, storages: _Storages, reading: Reading) -> Any:
    if reading.safe is None:
        return _Unpickler(file, storages.load, reading.encoding).load()
    return _SafeUnpickler(file, storages.load, reading.encoding, reading.safe).load()


def read_zip(file: BinaryIO, reading: Reading) -> Any:
    """What a zip file holds.

    Raises:
        FileFormatError: entries are missing, or it is a TorchScript program.
    """
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        stem = next((n.rpartition("/")[0] for n in names if n.endswith("data.pkl")), None)
        if stem is None:
            raise FileFormatError("the zip file has no entry data.pkl")
        if f"{stem}/constants.pkl" in names:
            raise FileFormatError("the file is a TorchScript program, not a checkpoint")
        length = file.seek(0, os.SEEK_END)
        order = f"{stem}/byteorder"
        swapped = order in names and _whole_entry(archive, order, 16, length) == b"big"
        left = length

        def read(key: str, size: int) -> Any:
            nonlocal left
            info = archive.getinfo(f"{stem}/data/{key}")
            if info.file_size < size:
                raise FileFormatError(f"storage {key} of the file has {info.file_size} bytes")
            _check_size(info, size, length)
            if info.compress_type == zipfile.ZIP_STORED:
                left -= info.file_size
                if left < 0:
                    raise FileFormatError("entries of the file lie in one another")
            if reading.map_bytes and info.compress_type == zipfile.ZIP_STORED:
                return _mapped(file, info)
            data = np.empty(info.file_size, np.uint8)
            with archive.open(info) as entry:
                _fill(entry, data)
            return data

        storages = _Storages(reading, read, swapped)
        pickled = _whole_entry(archive, f"{stem}/data.pkl", LARGEST_PICKLE, length)
        made = _unpickled(io.BytesIO(pickled), storages, reading)
        resolve_marks(storages.marked)
        return made


def _whole_entry(archive: zipfile.ZipFile, name: str, most: int, length: int) -> bytes:
    _check_size(archive.getinfo(name), most, length)
    return archive.read(name)


def _check_size(info: zipfile.ZipInfo, most: int, length: int) -> None:
    """Refuse an entry before it is read that says it is larger than it can be.

    Args:
        most: bytes that a compressed entry may have.
        length: of the file, in which one that is not compressed lies.
    """
    is_stored = info.compress_type == zipfile.ZIP_STORED
    if info.file_size > (length if is_stored else most):
        raise FileFormatError(
            f"the entry {info.filename!r} of the file says that it has {info.file_size} bytes"
        )


def _fill(entry: Any, data: Any) -> None:
    room = memoryview(data)
    while len(room):
        count = entry.readinto(room)
        if not count:
            raise FileFormatError("an entry of the file is shorter than it says")
        room = room[count:]


def _mapped(file: BinaryIO, info: zipfile.ZipInfo) -> Any:
    """The bytes of an entry as they lie in the file; writes do not reach the file."""
    if not info.file_size:
        return np.empty(0, np.uint8)
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    start = info.header_offset + 30
    start += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    shape = (info.file_size,)
    mapped = np.memmap(file.name, np.uint8, mode="c", offset=start, shape=shape)
    data = mapped.view(np.ndarray)
    return data if data.ctypes.data % 16 == 0 else np.array(data)


def _swap(data: Any, dtype: DType) -> None:
    """Elements of a machine with the other byte order, in place."""
    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    if size > 1:
        data = data[: data.nbytes // size * size]
        data.view(f"u{size}").byteswap(inplace=True)


def read_old(file: BinaryIO, reading: Reading) -> Any:
    """What a file of the older kind holds: pickles, then the bytes of the storages.

    Raises:
        FileFormatError: it does not open as such files do, or ends early.
    """
    for wanted in (MAGIC_NUMBER, OLD_PROTOCOL):
        if _plain(file, reading) != wanted:
            raise FileFormatError("the file does not open as a checkpoint")
    swapped = not _plain(file, reading)["little_endian"]
    here = file.tell()
    left = file.seek(0, os.SEEK_END) - here
    file.seek(here)

    def allocate(key: str, size: int) -> Any:
        nonlocal left
        left -= size
        if left < 0:
            raise FileFormatError(f"storage {key} has {size} bytes, more than the file")
        return np.zeros(size, np.uint8)  # filled below: the pickle sees none of other memory

    storages = _Storages(reading, allocate)
    made = _unpickled(file, storages, reading)
    by_key = dict(storages.stored())
    written = [str(key) for key in _plain(file, reading)]
    missing = by_key.keys() - set(written)
    if missing:
        raise FileFormatError(f"the file has no bytes of the storages {sorted(missing)}")
    for key in written:
        storage = by_key[key]
        count = int.from_bytes(file.read(8), "little")
        if count * storage.dtype.itemsize != storage.data.nbytes:
            raise FileFormatError(f"storage {key} of the file has {count} elements")
        data = np.empty(storage.data.nbytes, np.uint8)
        _fill(file, data)
        if swapped:
            _swap(data, storage.dtype)
        any_arrays.copy_into(storage.data, data)
    resolve_marks(storages.marked)
    return made


def _plain(file: BinaryIO, reading: Reading) -> Any:
    """The next pickle of the file: numbers, texts and containers."""
    return _SafeUnpickler(file, _no_storage, reading.encoding, {}).load()


def _no_storage(identity: Any) -> Any:
    raise FileFormatError(f"a storage {identity!r} where none is expected")
