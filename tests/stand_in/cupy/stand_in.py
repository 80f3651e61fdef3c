"""What the imaginary machine has: devices with memory of a given size, and each thread's position.

Mutable by design: it stands for the driver's state. `describe` gives the machine other devices;
tests that need another machine call it first and `describe()` afterwards.
"""

import threading
from dataclasses import dataclass


@dataclass
class Machine:
    """The devices and versions that the stand-in pretends to have. Mutable: see `describe`."""

    devices: int = 2
    total_bytes: int = 1 << 30
    driver_version: int = 13000
    runtime_version: int = 13000
    capability: tuple[int, int] = (9, 0)
    fault: int = 0


MACHINE = Machine()


def describe(
    devices: int = 2,
    total_bytes: int = 1 << 30,
    driver_version: int = 13000,
    runtime_version: int = 13000,
    capability: tuple[int, int] = (9, 0),
) -> None:
    """Pretend to be another machine."""
    MACHINE.devices = devices
    MACHINE.total_bytes = total_bytes
    MACHINE.driver_version = driver_version
    MACHINE.runtime_version = runtime_version
    MACHINE.capability = capability


def fault(status: int) -> None:
    """A kernel has failed: from now on every call that asks for its work gives that error; 0 for a
    new process."""
    MACHINE.fault = status


class _Position(threading.local):
    """Current device and the stack of devices of `with Device(...)`, per thread."""

    def __init__(self) -> None:
        self.device = 0
        self.devices: list[int] = []


POSITION = _Position()
