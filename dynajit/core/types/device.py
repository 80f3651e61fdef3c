"""Devices: where an array lives. Frozen data; the class accepts what PyTorch's accepts.

Contract: arrays live on the CPU, on GPUs, and, without elements, on `META`; the other kinds of
PyTorch's devices have names, so that programs can compare with them, and are refused where
something is to be made there. A thread may choose a device for new tensors: `chosen` asks whoever
keeps it, which eager installs (`eager.modes.defaults`). `with device("cuda"):` chooses it within
the block.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import ArgumentError, DeviceError
from dynajit.core.records import record

KINDS: Final = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
"""Source: PyTorch 2.13, the message of `torch.device("other")`."""


@record(eq=False, is_shown=False)
class Device:
    """A device such as `cpu` or `cuda:0`. Equal ones are one object: keys of dicts, and what
    `lru_cache` remembers by them, are found without a call of Python code. There is one CPU:
    its number is dropped.

    Args:
        type: one of `KINDS`, or with a number behind a colon; a number alone is that of a GPU; a
            device is itself.
        index: device number, apart; None for the CPU and for "the current GPU".

    Raises:
        DeviceError: there is no such kind, or the number is none.
        ArgumentError: it is of another class.
    """

    type: str
    index: int | None = None

    def __new__(cls, type: "str | int | Device", index: int | None = None) -> "Device":
        made = _known.get((type, index))  # type: ignore[arg-type]
        if made is None:
            key = _kind_and_index(type, index)
            made = _known.get(key)
        if made is None:
            made = object.__new__(cls)
            for name, value in zip(("type", "index"), key, strict=True):
                object.__setattr__(made, name, value)
            made = _known.setdefault(key, made)
        return made

    def __init__(self, type: "str | int | Device", index: int | None = None) -> None:
        """`__new__` has done it: the device may be an old one."""

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


def _kind_and_index(given: Any, index: int | None) -> tuple[str, int | None]:
    if isinstance(given, Device):
        return given.type, given.index
    if isinstance(given, int) and index is None:
        return "cuda", _checked_index(given)
    if not isinstance(given, str):
        raise ArgumentError(
            f"device({given!r}): expected a name such as 'cuda:0', a number or a device."
        )
    kind, colon, number = given.partition(":")
    if kind not in KINDS:
        raise DeviceError(
            f"device({given!r}): not a device.  Expected one of {', '.join(KINDS)} device type at "
            "start of device string, of which tensors live on 'cpu', 'cuda' or 'cuda:N'."
        )
    if colon and not (number.isdecimal() and number == str(int(number))):
        raise DeviceError(f"Invalid device string: {given!r}.  Expected {kind!r} or '{kind}:N'.")
    if colon and index is not None:
        raise DeviceError(
            f"device({given!r}, {index}): type (string) must not include an index because "
            f"index was passed explicitly.  Expected device({kind!r}, {index})."
        )
    if colon:
        index = int(number)
    return kind, None if index is None or kind == "cpu" else _checked_index(index)


def _checked_index(index: int) -> int:
    if index < 0:
        raise DeviceError(f"Device index must not be negative, but got {index}.")
    return int(index)


_known: Final[dict[tuple[str, int | None], Device]] = {}
CPU = Device("cpu")
META = Device("meta")
"""Where tensors have types, and no elements (`core.arrays.meta_arrays`)."""


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
    return CPU if device is None else Device(device, index)
