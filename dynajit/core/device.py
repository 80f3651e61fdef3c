"""Devices: where an array lives. Frozen data; `parse` accepts what PyTorch accepts.

Contract: a thread may have a device by default, for which `default` asks whoever keeps it: eager
installs that (`eager.defaults`). `with device("cuda"):` makes it the default within the block.
"""

from collections.abc import Callable
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

    def __enter__(self) -> "Device":
        """The device is where this thread makes new tensors by default, within the block."""
        _thread.enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        _thread.leave()

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"


_known: Final[dict[tuple[str, int | None], Device]] = {}
CPU = Device("cpu")


class _Thread:
    """The default device of the calling thread. Mutable: eager installs who keeps it, once."""

    read: Callable[[], Device | None] = staticmethod(lambda: None)
    enter: Callable[[Device], None] = staticmethod(lambda device: None)
    leave: Callable[[], None] = staticmethod(lambda: None)


_thread: Final = _Thread()


def install(
    read: Callable[[], Device | None],
    enter: Callable[[Device], None],
    leave: Callable[[], None],
) -> None:
    """Name who keeps the default device of each thread.

    Args:
        read: the one that was chosen, or None.
        enter: another one is chosen, until `leave`.
        leave: the one before `enter` again.
    """
    _thread.read, _thread.enter, _thread.leave = read, enter, leave


def chosen() -> Device | None:
    """The default device that this thread chose for new tensors; None: none, so it is the CPU."""
    return _thread.read()


def of_new_tensor(device: "str | int | Device | None") -> Device:
    """The device that the argument of a function that makes tensors names; None: the default one.

    Raises:
        DeviceError: the name is not of the form `cpu`, `cuda` or `cuda:N`.
    """
    return parse(device) if device is not None else (_thread.read() or CPU)


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
