"""safetensors files read: a header in JSON, then the bytes of all tensors.

Contract: every size and place that the header says is checked against the file before it is used;
the file runs no code. Source: the format's description in the README of huggingface/safetensors.
Called by `eager.serialization`.
"""

import json
import math
from typing import Any, Final

import numpy as np

from dynajit.core import dtypes
from dynajit.core.errors import FileFormatError
from dynajit.eager import _tensor

# safetensors' names of dtypes
DTYPES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip

LONGEST_HEADER: Final = 100_000_000  # bytes, as the format limits it


def is_safetensors(data: bytes) -> bool:
    """Whether the first bytes of a file (9 or more) open a safetensors file."""
    return len(data) >= 9 and data[8:9] == b"{" and _header_size(data) <= LONGEST_HEADER


def read_safetensors(data: bytes) -> dict[str, Any]:
    """The tensors of a file by name.

    Raises:
        FileFormatError: the header is no header, or speaks of bytes that are not there.
    """
    size = _header_size(data)
    if 8 + size > len(data):
        raise FileFormatError(f"the header has {size} bytes, the file {len(data)}")
    header = json.loads(data[8 : 8 + size])
    if not isinstance(header, dict):
        raise FileFormatError("the header is no JSON object")
    header.pop("__metadata__", None)
    content = bytearray(memoryview(data)[8 + size :])
    return {name: _read(name, entry, content) for name, entry in header.items()}


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _read(name: str, entry: Any, content: bytearray) -> Any:
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise FileFormatError(
            f"tensor {name!r} has the dtype {entry['dtype']}.  Expected one of {', '.join(DTYPES)}."
        )
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)):
        raise FileFormatError(f"tensor {name!r} has the sizes {shape} from {start} to {end}")
    if end > len(content) or end - start != math.prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"tensor {name!r} with the sizes {shape} lies at {start} to {end} of {len(content)}"
        )
    array = np.empty(shape, dtype.numpy)
    if array.size:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8, end - start, start)
    return _tensor.wrap(array)
