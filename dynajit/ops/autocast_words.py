"""What autocast does in a thread, as one integer: the autocast word.

Contract: pure functions over words. A word has for each device type whether autocast is on and the
lower-precision dtype, and whether casts may be remembered; 0 is the word of a program that never
used autocast. The thread's word lives in C (`eager/tensor.h`), where compiled functions can check
it in one comparison. Called by `ops.autocast`, `dynajit.amp` and capture's reports.

Source: PyTorch 2.x, "Automatic Mixed Precision package" (device types, their default dtypes).
"""

from typing import Final

from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import DeviceError

DEFAULTS: Final = {
    "cpu": dtypes.bfloat16,
    "cuda": dtypes.float16,
    "mps": dtypes.float16,
    "xpu": dtypes.float16,
}
_DEVICE_BITS: Final = 5  # one whether it is on, four for the dtype
_FIRST: Final = {device: _DEVICE_BITS * i for i, device in enumerate(DEFAULTS)}
_UNCACHED: Final = 1 << (_DEVICE_BITS * len(DEFAULTS))
CPU_ENABLED: Final = 1 << _FIRST["cpu"]
CUDA_ENABLED: Final = 1 << _FIRST["cuda"]


def is_available(device_type: str) -> bool:
    """Whether autocast knows the device type."""
    return device_type in DEFAULTS


def _first_bit(device_type: str) -> int:
    if device_type not in DEFAULTS:
        raise DeviceError(
            f"User specified an unsupported autocast device_type {device_type!r}.  Expected one of "
            f"{', '.join(DEFAULTS)}."
        )
    return _FIRST[device_type]


def is_enabled(word: int, device_type: str) -> bool:
    """Whether autocast is on for tensors of a device type.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    return bool(word >> _first_bit(device_type) & 1)


def with_enabled(word: int, device_type: str, enabled: bool) -> int:
    """`word` with autocast on or off for a device type.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    bit = 1 << _first_bit(device_type)
    return word | bit if enabled else word & ~bit


def dtype_of(word: int, device_type: str) -> DType:
    """The lower-precision dtype of a device type.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    code = word >> (_first_bit(device_type) + 1) & 15
    return dtypes.ALL[(_default_position(device_type) + code) % len(dtypes.ALL)]


def with_dtype(word: int, device_type: str, dtype: DType) -> int:
    """`word` with another lower-precision dtype for a device type.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    first = _first_bit(device_type) + 1
    code = (dtypes.ALL.index(dtype) - _default_position(device_type)) % len(dtypes.ALL)
    return word & ~(15 << first) | code << first


def _default_position(device_type: str) -> int:
    return dtypes.ALL.index(DEFAULTS[device_type])


def is_cached(word: int) -> bool:
    """Whether casts of parameters may be remembered."""
    return not word & _UNCACHED


def with_cache(word: int, enabled: bool) -> int:
    """`word` with casts of parameters remembered, or not."""
    return word & ~_UNCACHED if enabled else word | _UNCACHED


def describe(word: int) -> str:
    """The word for reports: "autocast off", or "autocast on (cpu: bfloat16)"."""
    live = [f"{name}: {dtype_of(word, name).name}" for name in DEFAULTS if is_enabled(word, name)]
    return f"autocast on ({', '.join(live)})" if live else "autocast off"
