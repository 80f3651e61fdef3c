"""What autocast does in a thread, as one integer: the autocast word.

Contract: pure functions over words. A word has for each device type whether autocast is on and the
lower-precision dtype, and whether casts may be remembered. Above these it has the thread's default
device, which decides about library functions' results as well, and whether a `TorchFunctionMode` is
active (`ops.table.overriding`), which nothing that was compiled may miss. 0 is the word of a
program that used neither. The thread's word lives in C (`eager/tensor.h`), where compiled functions
can check it in one comparison.

Source: PyTorch 2.x, "Automatic Mixed Precision package" (device types, their default dtypes).
"""

from typing import Final

from dynajit.core.errors import DeviceError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType

DEFAULTS: Final = {
    "cpu": dtypes.bfloat16,
    "cuda": dtypes.float16,
    "mps": dtypes.float16,
    "xpu": dtypes.float16,
}
_DEVICE_BITS: Final = 5  # one whether it is on, four for the dtype
_FIRST: Final = {device: _DEVICE_BITS * i for i, device in enumerate(DEFAULTS)}
_UNCACHED: Final = 1 << (_DEVICE_BITS * len(DEFAULTS))
_BELOW_DEVICE: Final = _UNCACHED.bit_length()
#: Default devices by code; cuda:0 and all further ones follow.
_FEW: Final = (None, CPU, Device("meta"), Device("cuda"))
_MOST_GPUS: Final = 256  # so that a word is an int of C
_HAS_MODES: Final = 1 << 30
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


def default_device(word: int) -> Device | None:
    """The device of new tensors, if the thread chose one."""
    code = (word & ~_HAS_MODES) >> _BELOW_DEVICE
    return _FEW[code] if code < len(_FEW) else Device("cuda", code - len(_FEW))


def with_default_device(word: int, device: Device | None) -> int:
    """`word` with another default device.

    Raises:
        DeviceError: tensors do not live there, or it is a GPU beyond the 256th.
    """
    code = _FEW.index(device) if device in _FEW else len(_FEW) + _number_of(device)
    kept = _HAS_MODES | (1 << _BELOW_DEVICE) - 1
    return word & kept | code << _BELOW_DEVICE


def with_modes(word: int, active: bool) -> int:
    """`word` with modes that see the thread's calls, or none."""
    return word | _HAS_MODES if active else word & ~_HAS_MODES


def _number_of(device: Device | None) -> int:
    number = None if device is None or device.type != "cuda" else device.index
    if number is None or number >= _MOST_GPUS:
        raise DeviceError(
            f"{device} cannot be the default device.  Expected 'cpu', 'cuda' or 'cuda:N', N below "
            f"{_MOST_GPUS}."
        )
    return number


def with_casts_of(word: int, other: int) -> int:
    """`word` with all that `other` says of autocast; the default device stays."""
    of_casts = (1 << _BELOW_DEVICE) - 1
    return word & ~of_casts | other & of_casts


def describe(word: int) -> str:
    """The word for reports: "autocast off", or "autocast on (cpu: bfloat16)"; with a default device
    "autocast off, new tensors on cuda"."""
    live = [f"{name}: {dtype_of(word, name).name}" for name in DEFAULTS if is_enabled(word, name)]
    casts = f"autocast on ({', '.join(live)})" if live else "autocast off"
    place = default_device(word)
    seen = ", calls seen by a TorchFunctionMode" if word & _HAS_MODES else ""
    return casts + ("" if place is None else f", new tensors on {place}") + seen
