"""The calls of the CUDA runtime that dynajit makes, on the imaginary machine."""

from cupy.stand_in import MACHINE, POSITION

_INSUFFICIENT_DRIVER = 35
_NO_DEVICE = 100
_INVALID_DEVICE = 101
_MEMORY_ALLOCATION = 2
_ILLEGAL_ADDRESS = 700
streamLegacy = 1
streamPerThread = 2
is_hip = False

_NAMES = {
    _INSUFFICIENT_DRIVER: (
        "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    ),
    _NO_DEVICE: "cudaErrorNoDevice: no CUDA-capable device is detected",
    _INVALID_DEVICE: "cudaErrorInvalidDevice: invalid device ordinal",
    _MEMORY_ALLOCATION: "cudaErrorMemoryAllocation: out of memory",
    _ILLEGAL_ADDRESS: "cudaErrorIllegalAddress: an illegal memory access was encountered",
}


class CUDARuntimeError(RuntimeError):
    """A call failed; `status` is its code."""

    def __init__(self, status):
        self.status = status
        super().__init__(_NAMES.get(status, f"cudaError {status}"))


def _answer():
    """What a call is told that waits for work, or gives some."""
    if MACHINE.fault:
        raise CUDARuntimeError(MACHINE.fault)


def getDeviceCount():
    if MACHINE.driver_version == 0 or MACHINE.driver_version // 1000 < 12:
        raise CUDARuntimeError(_INSUFFICIENT_DRIVER)
    if MACHINE.devices == 0:
        raise CUDARuntimeError(_NO_DEVICE)
    return MACHINE.devices


def driverGetVersion():
    return MACHINE.driver_version


def runtimeGetVersion():
    return MACHINE.runtime_version


def getDevice():
    getDeviceCount()
    return POSITION.device


def setDevice(device):
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(_INVALID_DEVICE)
    POSITION.device = device


def deviceCanAccessPeer(device, peerDevice):
    return 0


def deviceSynchronize():
    getDeviceCount()
    _answer()


def memGetInfo():
    """(free, total) bytes of the current device."""
    from cupy.cuda.memory import bytes_taken

    return MACHINE.total_bytes - bytes_taken(getDevice()), MACHINE.total_bytes


def getDeviceProperties(device):
    """A dict, as CuPy's; only what dynajit reads."""
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(_INVALID_DEVICE)
    return {
        "name": b"Stand-in GPU",
        "totalGlobalMem": MACHINE.total_bytes,
        "major": MACHINE.capability[0],
        "minor": MACHINE.capability[1],
        "multiProcessorCount": 4,
        "maxThreadsPerMultiProcessor": 2048,
        "maxThreadsPerBlock": 1024,
        "sharedMemPerBlock": 49152,
        "sharedMemPerMultiprocessor": 233472,
        "sharedMemPerBlockOptin": 232448,
        "regsPerMultiprocessor": 65536,
        "warpSize": 32,
        "l2CacheSize": 1 << 20,
        "memoryBusWidth": 5120,
        "integrated": 0,
        "isMultiGpuBoard": 0,
        "pciBusID": device,
        "pciDeviceID": 0,
        "pciDomainID": 0,
    }


def memcpy(dst, src, size, kind):
    import ctypes

    _answer()
    ctypes.memmove(dst, src, size)


def memcpyAsync(dst, src, size, kind, stream):
    memcpy(dst, src, size, kind)


def streamIsCapturing(stream):
    return False


__all__ = [
    "CUDARuntimeError", "deviceCanAccessPeer", "deviceSynchronize", "driverGetVersion", "getDevice",
    "getDeviceCount", "getDeviceProperties", "is_hip", "memGetInfo", "memcpy", "memcpyAsync",
    "runtimeGetVersion", "setDevice", "streamIsCapturing", "streamLegacy", "streamPerThread",
]  # fmt: skip
