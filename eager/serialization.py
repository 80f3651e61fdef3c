"""`save` and `load`: state dicts and tensors in safetensors files.

Contract: a file is a valid safetensors file: tensors under readable names, and in its header, as
JSON, the nest of dicts, lists, tuples, numbers, strings, dtypes and sizes that held them. Loading
runs no code from the file. Anything else than those kinds is refused when saving. Subclasses of
dict come back as plain dicts; tensors that share memory are stored separately. Called by users
and by the demo.
"""

import json
import os
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit.core import dtypes, optional
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, FileFormatError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase
from dynajit.eager.convert import require_cpu
from dynajit.eager.tensor import Size

KEY: Final = "dynajit"  # the header entry with the nest
# safetensors' names of dtypes
DTYPES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip


def save(obj: Any, f: Any) -> None:
    """Write a nest of tensors and plain values.

    Args:
        obj: tensors, numbers, strings, None, dtypes, sizes, and dicts, lists and tuples of them.
        f: a path, or a binary file open for writing. A path is replaced only when all is written.

    Raises:
        ArgumentError: `obj` contains something else; the message says where.
        OSError: the file cannot be written.
    """
    tensors: dict[str, Any] = {}
    nest = _packed(obj, "", tensors)
    library = optional.load("safetensors.numpy", needed_for="save", install="safetensors")
    data = library.save(tensors, metadata={KEY: json.dumps(nest)})
    if hasattr(f, "write"):
        f.write(data)
        return
    path = Path(f)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(f: Any, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """Read what `save` wrote (or any safetensors file: a dict of tensors).

    Args:
        f: a path, or a binary file open for reading.
        map_location: only the CPU.
        weights_only: True; nothing else exists, since files hold no code.

    Raises:
        FileFormatError: the file is damaged or no safetensors file.
        FileNotFoundError: there is no such file.
    """
    require_cpu("load", map_location)
    if not weights_only:
        raise ArgumentError("load(weights_only=False): files hold no code.  Expected True.")
    data = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    name = getattr(f, "name", "file") if hasattr(f, "read") else str(f)
    library = optional.load("safetensors", needed_for="load", install="safetensors")
    try:
        entries = library.deserialize(data)
    except library.SafetensorError as error:
        raise FileFormatError(
            f"load({name!r}): the file is damaged or no safetensors file ({error}).  Expected a "
            "file that save() wrote; copy or save it again."
        ) from error
    tensors = {key: _array(name, key, entry) for key, entry in entries}
    nest = _nest_of(data)
    if nest is None:
        return {key: _tensor.wrap(array) for key, array in tensors.items()}
    try:
        return _unpacked(json.loads(nest), tensors)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FileFormatError(
            f"load({name!r}): the description of the nest in the file's header is damaged "
            f"({error!r})."
        ) from error


def _nest_of(data: bytes) -> str | None:
    """The header entry that `save` adds; the library has checked that the header is valid."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    found = header.get("__metadata__", {}).get(KEY)
    return None if found is None else str(found)


def _array(file: str, key: str, entry: dict[str, Any]) -> Any:
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise FileFormatError(
            f"load({file!r}): tensor {key!r} has the dtype {entry['dtype']}.  Expected one of "
            f"{', '.join(DTYPES)}."
        )
    buffer = bytearray(entry["data"])
    if not buffer:
        return np.empty(entry["shape"], dtype.numpy)
    return np.frombuffer(buffer, dtype.numpy).reshape(entry["shape"])


def _packed(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """JSON for `value`; its arrays go to `tensors`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return {"number": repr(value)}
    if isinstance(value, TensorBase):
        return _packed_tensor(value, path, tensors)
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, Size):
        return {"size": list(value)}
    if type(value) in (list, tuple):
        items = [_packed(item, _join(path, i), tensors) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if isinstance(value, dict):
        kind = "ordered" if isinstance(value, OrderedDict) else "dict"
        return {kind: [_packed_pair(k, v, path, tensors) for k, v in value.items()]}
    raise ArgumentError(
        f"save: {path or 'the object'} is of type {type(value).__name__}.  Expected tensors, "
        "numbers, strings, None, dtypes, sizes, and dicts, lists and tuples of them; save a "
        "module's state_dict() instead of the module."
    )


def _packed_pair(key: Any, value: Any, path: str, tensors: dict[str, Any]) -> list[Any]:
    if not isinstance(key, (str, int, float, bool)) and key is not None:
        raise ArgumentError(
            f"save: a key of {path or 'the object'} is of type {type(key).__name__}.  Expected "
            "strings and numbers."
        )
    return [_packed(key, path, tensors), _packed(value, _join(path, key), tensors)]


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _packed_tensor(tensor: Any, path: str, tensors: dict[str, Any]) -> Any:
    name = path or "tensor"
    while name in tensors or name == "__metadata__":
        name += "_"
    array = np.array(tensor.array, order="C")
    kind = "tensor"
    if array.dtype == np.complex128:  # a dtype that the format lacks
        array, kind = np.stack([array.real, array.imag], -1), "complex128"
    tensors[name] = array
    return {kind: name, "requires_grad": bool(tensor.requires_grad and tensor.is_leaf)}


def _unpacked(nest: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(nest, dict):
        return nest
    kind, content = next(iter(nest.items()), (None, None))
    match kind:
        case "number":
            return _number(content)
        case "tensor" | "complex128":
            return _unpacked_tensor(kind, tensors[content], bool(nest["requires_grad"]))
        case "dtype":
            return dtypes.by_name(content)
        case "size":
            return Size(int(size) for size in content)
        case "list":
            return [_unpacked(item, tensors) for item in content]
        case "tuple":
            return tuple(_unpacked(item, tensors) for item in content)
        case "dict" | "ordered":
            pairs = [(_unpacked(k, tensors), _unpacked(v, tensors)) for k, v in content]
            return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    raise ValueError(f"unknown kind {kind!r}")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _unpacked_tensor(kind: str, array: Any, requires_grad: bool) -> Any:
    if kind == "complex128":
        array = array[..., 0] + 1j * array[..., 1]
    made = _tensor.wrap(array)
    if requires_grad:
        made.requires_grad = True
    return made


__all__ = ["load", "save"]
