"""Devices: `with Device(1):` makes it the current one of the thread."""

from cupy.cuda import runtime
from cupy.stand_in import MACHINE, POSITION


class Device:
    """A device by its number; the current one by default."""

    __slots__ = ("id",)

    def __init__(self, device=None):
        self.id = runtime.getDevice() if device is None else int(device)

    def __int__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __enter__(self):
        POSITION.devices.append(POSITION.device)
        runtime.setDevice(self.id)
        return self

    def __exit__(self, *exception):
        runtime.setDevice(POSITION.devices.pop())

    def __repr__(self):
        return f"<CUDA Device {self.id}>"

    def use(self):
        runtime.setDevice(self.id)
        return self

    def synchronize(self):
        runtime.getDeviceProperties(self.id)
        runtime._answer()

    @property
    def compute_capability(self):
        return "{}{}".format(*MACHINE.capability)

    @property
    def cublas_handle(self):
        return 0xB1A5 + self.id

    @property
    def mem_info(self):
        with self:
            return runtime.memGetInfo()

    @property
    def pci_bus_id(self):
        return f"0000:{self.id:02X}:00.0"

    @property
    def attributes(self):
        return {"MultiProcessorCount": 4, "TotalBytes": MACHINE.total_bytes}


def get_device_id():
    return runtime.getDevice()


def get_compute_capability():
    return "{}{}".format(*MACHINE.capability)
