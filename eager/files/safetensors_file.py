"""safetensors files read, through the library of that name.

Contract: the library checks every size and place that the header says before anything is read; the
file runs no code.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.errors import FileFormatError
from dynajit.core.process import optional
from dynajit.core.types import dtypes
from dynajit.eager import _tensor

# safetensors' names of dtypes
DTYPES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64, "U16": dtypes.uint16, "U32": dtypes.uint32,
    "U64": dtypes.uint64, "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz,
    "F8_E8M0": dtypes.float8_e8m0fnu,
}  # fmt: skip

LONGEST_HEADER: Final = 100_000_000  # bytes, as the format limits it


def is_safetensors(data: bytes) -> bool:
    """Whether the first bytes of a file (9 or more) open a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    return len(data) >= 9 and data[8:9] == b"{" and size <= LONGEST_HEADER


def read_safetensors(data: bytes) -> dict[str, Any]:
    """The tensors of a file by name.

    Raises:
        FileFormatError: the file is damaged, or has a dtype that there is not.
        UnsupportedError: the library cannot be imported.
    """
    library = optional.load("safetensors", needed_for="load", install="safetensors")
    try:
        entries = library.deserialize(data)
    except library.SafetensorError as error:
        raise FileFormatError(str(error)) from error
    return {name: _read(name, entry) for name, entry in entries}


def _read(name: str, entry: dict[str, Any]) -> Any:
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise FileFormatError(
            f"tensor {name!r} has the dtype {entry['dtype']}.  Expected one of {', '.join(DTYPES)}."
        )
    array = np.empty(entry["shape"], dtype.numpy)
    if len(entry["data"]) != array.nbytes:
        raise FileFormatError(f"tensor {name!r} has {len(entry['data'])} bytes")
    if array.size:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(entry["data"], np.uint8)
    return _tensor.wrap(array)
