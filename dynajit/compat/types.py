"""Types that programs write into annotations, by PyTorch's names.

Contract: for annotations and `isinstance`; nothing is checked here.
"""

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO

from dynajit.compat.storage import UntypedStorage as Storage
from dynajit.core.types.device import Device as _device
from dynajit.core.types.dtypes import DType as _dtype
from dynajit.eager.tensor.tensor import Size, Tensor

_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors = Tensor | Sequence[Tensor | None]
_size = Size | list[int] | tuple[int, ...]

Number = int | float | bool
Device = _device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]

__all__ = [
    "Device",
    "FileLike",
    "Number",
    "Size",
    "Storage",
    "Tensor",
    "_TensorOrOptionalTensors",
    "_TensorOrTensors",
    "_bool",
    "_bytes",
    "_complex",
    "_device",
    "_dtype",
    "_float",
    "_int",
    "_size",
    "_str",
]
