"""Devices: where an array lives. Frozen data; `parse` accepts what PyTorch accepts."""

from typing import Any, Final

from dynajit.core.errors import DeviceError
from dynajit.core.records import record

KINDS = ("cpu", "cuda", "meta")


@record(eq=False)
class Device:
    """A device such as `cpu` or `cuda:0`. Equal ones are one object: keys of dicts, and what
    `lru_cache` remembers by them, are found without a call of Python code.

    Args:
        type: one of `KINDS`.
        index: device number; None for the CPU and for "the current GPU".
    """

    type: str
    index: int | None = None

    def __new__(cls, type: str, index: int | None = None) -> "Device":
        made = _known.get((type, index))
        return made or _known.setdefault((type, index), object.__new__(cls))

    def __reduce__(self) -> Any:
        return Device, (self.type, self.index)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"


_known: Final[dict[tuple[str, int | None], Device]] = {}
CPU = Device("cpu")


def parse(device: "str | int | Device | None", index: int | None = None) -> Device:
    """The device that `device` names; None means the CPU, an integer means that GPU.

    Raises:
        DeviceError: the name is not of the form `cpu`, `cuda` or `cuda:N`.
    """
    if device is None:
        return CPU
    if isinstance(device, Device):
        return device
    if isinstance(device, int):
        return Device("cuda", device)
    kind, _, number = str(device).partition(":")
    if kind not in KINDS or (number and not number.isdigit()):
        raise DeviceError(f"device({device!r}): not a device.  Expected 'cpu', 'cuda' or 'cuda:N'.")
    if number:
        index = int(number)
    return Device(kind, None if kind == "cpu" else index)
