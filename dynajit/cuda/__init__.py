"""GPUs by PyTorch's path: `dynajit.cuda.is_available()` and its kin.

Contract: as `torch.cuda`, on CuPy, which is imported when somebody asks for the first time. Where
no GPU can be used, answers are those of a PyTorch without CUDA: there are no devices, what prepares
or tidies up does nothing, and what needs a device raises `NoGpuError`, which says what is missing
and how to get it. Tests run on the machine's GPU, else on a stand-in for CuPy (`tests/gpu`).
"""

from typing import Any

from dynajit.core.arrays.gpu.runtime import device_count, is_available
from dynajit.core.errors import OutOfMemoryError
from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function
from dynajit.cuda import amp, memory, nvtx, profiler, random, streams
from dynajit.cuda.devices import (
    can_device_access_peer,
    current_blas_handle,
    current_device,
    device,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    init,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from dynajit.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from dynajit.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from dynajit.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)
from dynajit.eager.tensor.legacy import CudaBFloat16Tensor as BFloat16Tensor
from dynajit.eager.tensor.legacy import CudaBoolTensor as BoolTensor
from dynajit.eager.tensor.legacy import CudaByteTensor as ByteTensor
from dynajit.eager.tensor.legacy import CudaCharTensor as CharTensor
from dynajit.eager.tensor.legacy import CudaDoubleTensor as DoubleTensor
from dynajit.eager.tensor.legacy import CudaFloatTensor as FloatTensor
from dynajit.eager.tensor.legacy import CudaHalfTensor as HalfTensor
from dynajit.eager.tensor.legacy import CudaIntTensor as IntTensor
from dynajit.eager.tensor.legacy import CudaLongTensor as LongTensor
from dynajit.eager.tensor.legacy import CudaShortTensor as ShortTensor

_NO_GRAPHS = (
    "graphs of CUDA are made by compiled functions.  Use dynajit.compile(function, "
    "mode='reduce-overhead')."
)


def __getattr__(name: str) -> Any:
    """`_initialized`: whether a GPU is in use."""
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def ipc_collect() -> None:
    """Has no effect: memory is not shared between processes."""


CUDAGraph = refused_class("cuda.CUDAGraph", _NO_GRAPHS)
graph = refused_class("cuda.graph", _NO_GRAPHS)
graph_pool_handle = refused_function("cuda.graph_pool_handle", _NO_GRAPHS)
make_graphed_callables = refused_function("cuda.make_graphed_callables", _NO_GRAPHS)

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "nvtx",
    "profiler",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
]

late.show(__name__)
