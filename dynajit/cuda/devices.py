"""GPUs of the machine: which there are, which is current, what they can do, waiting for them.

Contract: as `torch.cuda`; published by `dynajit.cuda`. Questions are answered without a GPU (there
are none); what needs one raises `NoGpuError`, which says why there is none and how to mend it.
"""

from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import ArgumentError, DeviceError
from dynajit.core.records import record
from dynajit.core.types import device as devices


def number_of(device: Any, what: str) -> int:
    """The number of a GPU that a device, its name or a number names; None is the current one.

    Args:
        what: who asked, for the message.

    Raises:
        NoGpuError: no GPU can be used.
        DeviceError: there is no such GPU, or the CPU is named.
    """
    gpu.require(f"cuda.{what}")
    if device is None:
        return gpu.current_device()
    place = gpu.resolve(devices.parse(device), f"cuda.{what}")
    if place.type != "cuda":
        raise DeviceError(
            f"cuda.{what}({str(device)!r}): Expected a cuda device, but got: {place.type}"
        )
    return place.index or 0


def init() -> None:
    """Look for the GPU now; otherwise that is done when the first one is used.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.init")


def is_initialized() -> bool:
    """Whether a GPU is in use: somebody has asked for one, and there is one."""
    return gpu.is_loaded()


def current_device() -> int:
    """The number of the thread's current GPU.

    Raises:
        NoGpuError: no GPU can be used.
    """
    return number_of(None, "current_device")


def set_device(device: Any) -> None:
    """Make a GPU the thread's current one; a negative number does nothing.

    Raises:
        NoGpuError: no GPU can be used.
        DeviceError: there is no such GPU.
    """
    if not _is_nothing(device):
        gpu.set_current_device(number_of(device, "set_device"))


def _is_nothing(device: Any) -> bool:
    return isinstance(device, int) and device < 0


class device:
    """`with cuda.device(...)`: a GPU is the thread's current one for the block.

    Args:
        device: a device, its name or its number; None and negative numbers do nothing.

    Raises:
        NoGpuError: no GPU can be used.
        DeviceError: there is no such GPU.
    """

    def __init__(self, device: Any) -> None:
        is_none = device is None or _is_nothing(device)
        self.idx = -1 if is_none else number_of(device, "device")
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = gpu.current_device()
            gpu.set_current_device(self.idx)

    def __exit__(self, *reason: object) -> None:
        if self.idx >= 0:
            gpu.set_current_device(self.prev_idx)


class device_of(device):
    """`with cuda.device_of(tensor)`: the tensor's GPU is current; tensors of the CPU change
    nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else -1)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU (the current one) has done all that it was given.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.synchronize(number_of(device, "synchronize"))


@record
class DeviceProperties:
    """What a GPU is and has; sizes in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    warp_size: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    memory_bus_width: int
    is_integrated: bool
    is_multi_gpu_board: bool
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int

    @property
    def gcnArchName(self) -> str:
        """The name, as PyTorch has it for NVIDIA's GPUs."""
        return self.name


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a GPU is and has.

    Raises:
        NoGpuError: no GPU can be used.
    """
    number = number_of(device, "get_device_properties")
    facts = gpu.module().cuda.runtime.getDeviceProperties(number)
    return DeviceProperties(
        name=facts["name"].decode(),
        major=facts["major"],
        minor=facts["minor"],
        total_memory=facts["totalGlobalMem"],
        multi_processor_count=facts["multiProcessorCount"],
        max_threads_per_multi_processor=facts["maxThreadsPerMultiProcessor"],
        max_threads_per_block=facts["maxThreadsPerBlock"],
        warp_size=facts["warpSize"],
        regs_per_multiprocessor=facts["regsPerMultiprocessor"],
        shared_memory_per_block=facts["sharedMemPerBlock"],
        shared_memory_per_block_optin=facts["sharedMemPerBlockOptin"],
        shared_memory_per_multiprocessor=facts["sharedMemPerMultiprocessor"],
        L2_cache_size=facts["l2CacheSize"],
        memory_bus_width=facts["memoryBusWidth"],
        is_integrated=bool(facts["integrated"]),
        is_multi_gpu_board=bool(facts["isMultiGpuBoard"]),
        pci_domain_id=facts["pciDomainID"],
        pci_bus_id=facts["pciBusID"],
        pci_device_id=facts["pciDeviceID"],
    )


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Raises:
        NoGpuError: no GPU can be used.
    """
    return get_device_properties(number_of(device, "get_device_name")).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, such as (9, 0).

    Raises:
        NoGpuError: no GPU can be used.
    """
    facts = get_device_properties(number_of(device, "get_device_capability"))
    return facts.major, facts.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU can read the memory of another one by itself.

    Raises:
        NoGpuError: no GPU can be used.
    """
    one, other = (number_of(x, "can_device_access_peer") for x in (device, peer_device))
    return bool(gpu.module().cuda.runtime.deviceCanAccessPeer(one, other))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes with bfloat16 by itself (from capability 8.0 on), or in
    float32."""
    if not gpu.is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether the current GPU has products in TF32: from capability 8.0 on."""
    return gpu.is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """Kinds of GPU that kernels are made for: those of the GPUs that are here, such as sm_90."""
    found = [get_device_capability(i) for i in range(gpu.device_count())]
    return [f"sm_{major}{minor}" for major, minor in sorted(set(found))]


def get_sync_debug_mode() -> int:
    """Whether waiting for a GPU is reported: 0, it is not."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Report where the program waits for a GPU: not offered.

    Raises:
        ArgumentError: another mode than 0 or "default".
    """
    if debug_mode not in (0, "default"):
        raise ArgumentError(
            f"cuda.set_sync_debug_mode({debug_mode!r}): waiting is not reported.  Expected 0 or "
            "'default'."
        )


def current_blas_handle() -> int:
    """The address of cuBLAS's handle for the current GPU.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.current_blas_handle")
    return int(gpu.module().cuda.Device().cublas_handle)
