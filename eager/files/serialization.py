"""`save` and `load`: PyTorch's checkpoints, and safetensors files for reading.

Contract: `save` writes what PyTorch's `save` writes, `load` reads both its present and its older
kind, and safetensors files. With `weights_only`, the default, loading runs no code from the file. A
path is replaced only when all is written.
"""

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import (
    ArgumentError,
    DeviceError,
    EmptyFileError,
    FileFormatError,
    InvalidValueError,
    NoFolderError,
    OutOfMemoryError,
    UnsafeFileError,
)
from dynajit.core.types import device as devices
from dynajit.core.types.device import CPU, Device
from dynajit.eager.files.reading import Reading, read_old, read_zip
from dynajit.eager.files.safetensors_file import is_safetensors, read_safetensors
from dynajit.eager.files.writing import write_old, write_zip
from dynajit.eager.operations.storages import UntypedStorage
from dynajit.eager.tensor.tensor import Tensor

MSG_CUDA: Final = (
    "Attempting to deserialize object on a CUDA device but there is none: a storage of the file "
    "lies on {location}.  Use load(..., map_location='cpu')."
)

MSG_MEMORY: Final = (
    "load({name!r}): there is not enough memory for what the file holds ({error}).  Load on a "
    "machine with more, or map the file with load(..., mmap=True)."
)

#: What a damaged pickle, zip file or header makes Python raise.
DAMAGE: Final = (
    pickle.UnpicklingError, zipfile.BadZipFile, struct.error, EOFError, KeyError, ValueError,
    TypeError, AttributeError, IndexError, OverflowError, RecursionError, NotImplementedError,
    RuntimeError, AssertionError,
)  # fmt: skip

_SAFE: Final[dict[tuple[str, str], Any]] = {}


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, and anything else that can be pickled.

    Args:
        obj: what to write; a module's `state_dict()` rather than the module.
        f: a path, or a binary file open for writing. A path is replaced only when all is written.
        pickle_module: only Python's `pickle`.
        pickle_protocol: of the pickle inside.

    Raises:
        ArgumentError: another pickle module, or `f` is neither.
        DTypeError: two tensors read one memory by two dtypes.
        OSError: the file cannot be written.
    """
    if pickle_module is not pickle:
        raise ArgumentError("save: expected pickle_module=pickle; no other is used.")

    def write(file: BinaryIO, stem: str) -> None:
        if _use_new_zipfile_serialization:
            write_zip(obj, file, stem, pickle_protocol)
        else:
            write_old(obj, file, pickle_protocol)

    if hasattr(f, "write"):
        write(f, "archive")
        return
    if not isinstance(f, (str, os.PathLike)):
        raise ArgumentError(
            f"save: expected 'f' to be string, path, or a file-like object with a 'write' "
            f"attribute, got {type(f).__name__}"
        )
    _write_whole(Path(f), write)


def _write_whole(path: Path, write: Callable[[BinaryIO, str], None]) -> None:
    stem = path.stem or "archive"
    path = path.resolve()
    if path.exists() and not path.is_file():  # a device, say, is written to and not replaced
        with path.open("wb") as file:
            write(file, stem)
        return
    if not path.parent.is_dir():
        raise NoFolderError(f"save({str(path)!r}): the folder {path.parent} does not exist.")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write(file, stem)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Read what `save` or PyTorch's `save` wrote, or a safetensors file (a dict of tensors).

    Args:
        f: a path, or a binary file open for reading that can seek.
        map_location: where storages go: a device, a dict from the file's locations to such, or a
            function of (storage, location).
        pickle_module: None, or Python's `pickle` with `weights_only=False`.
        weights_only: read tensors, plain values and containers only. False runs what the file
            says: for files that you trust.
        mmap: map a zip file's storages instead of reading them; `f` is a path.
        encoding: of texts that Python 2 wrote.

    Raises:
        UnsafeFileError: with `weights_only`, the file asks for anything else.
        FileFormatError: the file is damaged or of another kind.
        DeviceError: a storage lies on a GPU and `map_location` does not say otherwise.
        OutOfMemoryError: there is no memory for it; the message says for how much.
        FileNotFoundError: there is no such file.
    """
    only = weights_only is None or bool(weights_only)
    if pickle_module is not None and (only or pickle_module is not pickle):
        raise ArgumentError("load: expected pickle_module=None, or pickle with weights_only=False.")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise InvalidValueError("load: f must be a file path in order to use the mmap argument")
    reading = Reading(_places(map_location), dict(_SAFE) if only else None, encoding, bool(mmap))
    if hasattr(f, "read"):
        file = f if hasattr(f, "seek") else io.BytesIO(f.read())
        return _loaded(file, str(getattr(f, "name", "file")), reading)
    if not isinstance(f, (str, os.PathLike)):
        raise ArgumentError(f"load: expected a path or a file, got {type(f).__name__}")
    with Path(f).open("rb") as file:
        return _loaded(file, str(f), reading)


def _loaded(file: BinaryIO, name: str, reading: Reading) -> Any:
    try:
        return _of_kind(file, reading)
    except (UnsafeFileError, DeviceError, OutOfMemoryError):
        raise
    except MemoryError as error:
        raise OutOfMemoryError(MSG_MEMORY.format(name=name, error=error)) from error
    except DAMAGE as error:
        if reading.safe is None and not isinstance(error, (FileFormatError, zipfile.BadZipFile)):
            raise  # may be the user's own
        kind = EmptyFileError if isinstance(error, EOFError) else FileFormatError
        raise kind(
            f"load({name!r}): the file is damaged or no checkpoint ({error}).  Expected a file "
            "that save() wrote, or a safetensors file; copy or save it again."
        ) from error


def _of_kind(file: BinaryIO, reading: Reading) -> Any:
    here = file.tell()
    opening = file.read(9)
    file.seek(here)
    if opening.startswith(b"PK\x03\x04"):
        return read_zip(file, reading)
    if is_safetensors(opening):
        tensors = read_safetensors(file.read())
        return {name: _of_storage(tensor, reading) for name, tensor in tensors.items()}
    if reading.map_bytes:
        raise FileFormatError("mmap can only be used with files of the zip kind")
    return read_old(file, reading)


def _of_storage(tensor: Tensor, reading: Reading) -> Tensor:
    """A tensor that is all of its memory, where the storage goes."""
    placed = reading.placed(tensor.untyped_storage(), "cpu")
    return tensor.to(placed.device)


def _places(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """What becomes of a storage and the location that the file gives it."""
    if map_location is None:
        return _as_saved
    if isinstance(map_location, dict):
        moved = {str(key): devices.parse(value) for key, value in map_location.items()}
        return lambda storage, location: _as_saved(storage, str(moved.get(location, location)))
    if callable(map_location):
        return lambda storage, location: _chosen(map_location, storage, location)
    if not isinstance(map_location, (str, Device)):
        raise ArgumentError(
            f"load(map_location={map_location!r}): expected a device, a dict or a function."
        )
    place = gpu.resolve(devices.parse(map_location), "load")
    return lambda storage, location: storage.to(place)


def _as_saved(storage: UntypedStorage, location: str) -> UntypedStorage:
    place = devices.parse(location)
    if place is not CPU and not gpu.is_available():
        raise DeviceError(MSG_CUDA.format(location=location))
    return storage.to(place)


def _chosen(choose: Any, storage: UntypedStorage, location: str) -> UntypedStorage:
    chosen = choose(storage, location)
    return chosen if isinstance(chosen, UntypedStorage) else _as_saved(storage, location)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files of weights name these classes and functions.

    Args:
        safe_globals: classes and functions, or pairs of one and the dotted name in the file.
    """
    _SAFE.update(_by_name(safe_globals))


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_SAFE.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    _SAFE.clear()


class safe_globals:
    """`with safe_globals([...])`: files of weights may name these inside the block."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._added = _by_name(safe_globals)
        self._before: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> None:
        self._before = dict(_SAFE)
        _SAFE.update(self._added)

    def __exit__(self, *reason: object) -> None:
        _SAFE.clear()
        _SAFE.update(self._before)


def _by_name(given: Iterable[Any]) -> dict[tuple[str, str], Any]:
    names = {}
    for item in given:
        made, name = item if isinstance(item, tuple) else (item, None)
        dotted = name or f"{made.__module__}.{made.__qualname__}"
        module, _, last = dotted.rpartition(".")
        names[module, last] = made
    return names


__all__ = ["load", "save"]
