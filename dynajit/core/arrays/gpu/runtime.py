"""GPUs: the one file that imports CuPy, and what the rest of the library asks of it.

Contract: nothing is imported before somebody asks for a GPU. `why_not` says in a sentence why there
is none to use and how to mend it; `module` gives CuPy or raises that sentence. Arrays on a GPU are
`cupy.ndarray`, devices have numbers from 0, and calls run on CuPy's current device and stream of
the thread, as everything else that CuPy does. What was found out is kept (a driver does not come
and go); `look_again` forgets it.
"""

import collections
import contextlib
import math
import os
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu.faults import in_words
from dynajit.core.arrays.gpu.memory import Watch
from dynajit.core.errors import DeviceError, DTypeError, NoGpuError, UnsupportedError
from dynajit.core.process.optional import load
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.short_floats import is_short

OLDEST_CUPY: Final = (13,)
"""The oldest CuPy whose arrays promote as NumPy 2's."""
_CUPY_WITH_BFLOAT16: Final = (14,)
INSTALL: Final = (
    "pip install 'dynajit[cuda13]' (drivers for CUDA 13, 580 and later) or "
    "pip install 'dynajit[cuda12]' (525 and later)"
)
_FORKED: Final = (
    "Cannot re-initialize CUDA in forked subprocess: this process is a fork of one that uses a "
    "GPU.  Start processes with multiprocessing's 'spawn', or fork before a GPU is asked for."
)
_NO_DEVICE: Final = 100
_INSUFFICIENT_DRIVER: Final = 35


@record
class _Found:
    """What looking for a GPU found.

    Args:
        cupy: the module, or None where it cannot be used.
        devices: how many there are.
        reason: why there are none, a sentence and how to mend it; None where there are.
        memory: what watches over their memory.
    """

    cupy: ModuleType | None
    devices: int
    reason: str | None
    memory: Watch | None = None


_found: list[_Found] = []


def _look() -> _Found:
    if not _found:
        _found.append(_search())
    return _found[0]


def look_again() -> None:
    """Forget what was found out: the next question looks for a GPU again."""
    _found.clear()


def _in_a_fork() -> None:
    """CUDA does not work on in the child of a process that uses it."""
    if is_loaded():
        _found[:] = [_Found(None, 0, _FORKED)]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_fork)


def _search() -> _Found:
    try:
        cupy = load("cupy", needed_for="GPU tensors", install="dynajit[cuda13]")
    except UnsupportedError as error:
        return _Found(None, 0, _why_not_imported(error))
    reason = why_not_version(cupy)
    if reason is not None:
        return _Found(None, 0, reason)
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return _Found(None, 0, _why_not_counted(cupy, error))
    if count == 0:
        return _Found(None, 0, _no_device())
    return _Found(cupy, count, None, Watch(cupy))


def _why_not_imported(error: UnsupportedError) -> str:
    cause = error.__cause__
    if isinstance(cause, ModuleNotFoundError) and cause.name == "cupy":
        return f"CuPy is not installed.  Install the one for your driver: {INSTALL}."
    return f"CuPy is installed but cannot be imported ({cause}).  Install it again: {INSTALL}."


def version_of(cupy: ModuleType) -> tuple[int, ...]:
    """CuPy's version as numbers, up to the first part that is none."""
    numbers = []
    for part in str(cupy.__version__).split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def why_not_version(cupy: ModuleType) -> str | None:
    """Why this CuPy is too old, or None."""
    if version_of(cupy) >= OLDEST_CUPY:
        return None
    return (
        f"CuPy {cupy.__version__} is too old; {'.'.join(map(str, OLDEST_CUPY))} is the oldest that "
        f"dynajit works with.  Install a newer one: {INSTALL}."
    )


def _why_not_counted(cupy: ModuleType, error: Any) -> str:
    """Why the runtime could not count the devices."""
    runtime = cupy.cuda.runtime
    if error.status == _NO_DEVICE:
        return _no_device()
    if error.status != _INSUFFICIENT_DRIVER:
        return f"the CUDA runtime does not start ({error}).  Look whether nvidia-smi works."
    driver, needed = int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion())
    if driver == 0:
        return (
            "no NVIDIA driver is loaded.  On a machine with an NVIDIA GPU, install its driver and "
            "look whether nvidia-smi works (in a container: start it with --gpus all)."
        )
    return (
        f"the NVIDIA driver is too old: it offers CUDA {dotted(driver)}, and the installed CuPy "
        f"{cupy.__version__} was built for CUDA {dotted(needed)}.  Update the driver, or install "
        f"the CuPy for your driver: {INSTALL}."
    )


def _no_device() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" CUDA_VISIBLE_DEVICES is {visible!r}: unset it."
    return f"the NVIDIA driver finds no GPU.  Look at what nvidia-smi lists.{hidden}"


def dotted(version: int) -> str:
    """13.2 of 13020, as the runtime counts versions."""
    return f"{version // 1000}.{version % 1000 // 10}"


# ---------------------------------------------------------------------------------------------
# what there is


def why_not() -> str | None:
    """Why no GPU can be used, with how to mend it; None where one can."""
    return _look().reason


def is_available() -> bool:
    """True if tensors can live on a GPU."""
    return _look().reason is None


def device_count() -> int:
    """Number of GPUs that tensors can live on."""
    return _look().devices


def module() -> Any:
    """CuPy.

    Raises:
        NoGpuError: no GPU can be used; the message says why.
    """
    require()
    return _look().cupy


def require(what: str = "") -> None:
    """Raise unless there is a GPU to use.

    Args:
        what: who asked, for the message.

    Raises:
        NoGpuError: no GPU can be used; the message says why.
    """
    reason = _look().reason
    if reason is not None:
        raise NoGpuError(f"{f'{what}: ' if what else ''}no GPU can be used: {reason}")


def memory() -> Watch:
    """What watches over the memory of GPUs.

    Raises:
        NoGpuError: no GPU can be used; the message says why.
    """
    require()
    found = _look().memory
    assert found is not None
    return found


def special_functions() -> Any:
    """CuPy's functions of `scipy.special`."""
    module()
    return load("cupyx.scipy.special", needed_for="special functions on a GPU", install="cupy")


def extensions() -> Any:
    """`cupyx`: what belongs to CuPy beyond NumPy's names."""
    module()
    return load("cupyx", needed_for="linear algebra on a GPU", install="cupy")


def nccl() -> Any:
    """CuPy's module for NCCL, which sends arrays from GPU to GPU.

    Raises:
        UnsupportedError: NCCL is not installed.
        NoGpuError: as of `module`.
    """
    module()
    return load(
        "cupy.cuda.nccl",
        needed_for="The backend 'nccl'",
        install="nvidia-nccl-cu13' or 'nvidia-nccl-cu12",
    )


def is_loaded() -> bool:
    """True once a GPU was found: before, no array of this process is on one through us."""
    return bool(_found) and _found[0].cupy is not None


def is_gpu_array(value: Any) -> bool:
    """True for arrays of CuPy."""
    return is_loaded() and isinstance(value, module().ndarray)


def is_foreign(value: Any) -> bool:
    """True for objects of other libraries that show memory of a GPU."""
    return hasattr(value, "__cuda_array_interface__")


# ---------------------------------------------------------------------------------------------
# devices


def resolve(device: Device, what: str = "device") -> Device:
    """A device on which arrays can live: the CPU, `meta`, or a GPU with its number (the current
    one's where it has none).

    Args:
        what: who asked, for the message.

    Raises:
        DeviceError: there is no such device.
        NoGpuError: no GPU can be used.
    """
    if device is CPU:
        return device
    if device.type == "meta":
        return META
    if device.type != "cuda":
        raise DeviceError(
            f"{what}(device={str(device)!r}): tensors do not live there.  Expected 'cpu', 'cuda' "
            "or 'meta'."
        )
    if not is_available():
        raise NoGpuError(
            f"{what}(device={str(device)!r}): there is no cuda device here: {why_not()}  Or pass "
            "device='cpu', or leave the argument out."
        )
    if device.index is None:
        return Device("cuda", current_device())
    count = device_count()
    if not 0 <= device.index < count:
        raise DeviceError(
            f"{what}(device={str(device)!r}): there is no such device.  Expected one of "
            f"{', '.join(f'cuda:{i}' for i in range(count))}."
        )
    return device


def current_device() -> int:
    """The number of the thread's current device."""
    return int(module().cuda.runtime.getDevice())


def set_current_device(index: int) -> None:
    """Make a device the thread's current one."""
    module().cuda.runtime.setDevice(index)


def on(index: int) -> contextlib.AbstractContextManager[Any]:
    """The device is the thread's current one within the block."""
    if current_device() == index:
        return contextlib.nullcontext()
    return module().cuda.Device(index)  # type: ignore[no-any-return]


def device_of(array: Any) -> Device:
    """Where an array of CuPy lives."""
    return Device("cuda", int(array.data.device_id))


def current_stream(index: int | None = None) -> Any:
    """CuPy's current stream of a device."""
    return module().cuda.get_current_stream(-1 if index is None else index)


def external_stream(address: int, index: int) -> Any:
    """CuPy's stream of one that another library made on a device."""
    kind = module().cuda.Stream
    with on(index):
        if hasattr(kind, "from_external"):
            return kind.from_external(_Foreign(address))
        return module().cuda.ExternalStream(address, index)


@record
class _Foreign:
    """A stream by its address, as libraries hand them over."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def synchronize(index: int | None = None) -> None:
    """Wait until a device (the current one) has done all that it was given."""
    with in_words:
        module().cuda.Device(index).synchronize()


_products = threading.RLock()
_CAPABILITY_WITH_TF32: Final = 80


def exclusive_products() -> contextlib.AbstractContextManager[Any]:
    """No other thread changes how CuPy multiplies matrices within the block."""
    return _products


@contextlib.contextmanager
def tf32_products() -> Iterator[None]:
    """CuPy's products of float32 matrices within the block are in TF32, on GPUs that have it.

    CuPy's setting is one for all threads: the products of other threads wait.
    """
    with _products:
        if int(module().cuda.Device().compute_capability) < _CAPABILITY_WITH_TF32:
            yield
            return
        settings = module()._core._routines_linalg
        before = settings.get_compute_type(np.float32)
        settings.set_compute_type(np.float32, settings.COMPUTE_TYPE_TF32)
        try:
            yield
        finally:
            settings.set_compute_type(np.float32, before)


# ---------------------------------------------------------------------------------------------
# arrays


def check_dtype(dtype: np.dtype) -> None:
    """Refuse what the installed CuPy has no arrays of.

    Raises:
        DTypeError: bfloat16, and CuPy is older than 14; a float of 8 bits.
    """
    if is_short(dtype):
        raise DTypeError(
            f"dynajit.{dtype.name} on a GPU is not available: CuPy has no arrays of it.  Keep such "
            "tensors on the CPU, and send them as float16 or bfloat16."
        )
    if dtype == dtypes.bfloat16.numpy and version_of(module()) < _CUPY_WITH_BFLOAT16:
        raise DTypeError(
            f"bfloat16 on a GPU needs CuPy 14; {module().__version__} is installed.  Install a "
            f"newer one: {INSTALL}."
        )


def empty(shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
    """A new array on a device, elements undefined."""
    check_dtype(dtype)
    with on(index):
        return module().empty(shape, dtype)


def shared(value: Any) -> Any:
    """What another library shows of a GPU's memory, as an array of CuPy on that memory."""
    cupy = module()
    return value if isinstance(value, cupy.ndarray) else cupy.asarray(value)


def from_dlpack(external: Any) -> Any:
    """An array of CuPy on the memory of an object with `__dlpack__` whose device is a GPU."""
    return module().from_dlpack(external)


def to_device(array: Any, index: int, non_blocking: bool = False) -> Any:
    """A copy of an array on a device, row-major unless it lies in another dense order.

    Args:
        array: of NumPy, or of CuPy on any device.
        non_blocking: from pinned host memory the copy may still be running when this returns; it
            is in order with what the current stream does later. Other memory has been read.
    """
    check_dtype(array.dtype)
    cupy = module()
    with in_words, on(index):
        if isinstance(array, np.ndarray):
            return _from_host(cupy, array, non_blocking)
        if array.data.device_id == index:
            return array.copy(order="K")
        return _from_other_device(cupy, array)


def _from_host(cupy: Any, array: Any, non_blocking: bool) -> Any:
    order = dense_order(array)
    if order is None:
        order, array = tuple(range(array.ndim)), np.ascontiguousarray(array)
    dense = array.transpose(order)  # row-major, in whatever order the dims lie
    made = cupy.empty(dense.shape, dense.dtype)
    if dense.size:
        made.set(dense)
        if not (non_blocking and is_pinned(array)):
            cupy.cuda.get_current_stream().synchronize()
        else:
            keep_until_done(array)
    return made.transpose([order.index(d) for d in range(array.ndim)])


# What work under way still reads or writes, by the event behind that work.
_in_flight: Final[collections.deque[tuple[Any, Any]]] = collections.deque()


def keep_until_done(array: Any, stream: Any = None) -> None:
    """Let memory live until a stream of CuPy (the current one) has done what it was given so far:
    pools would hand it out again before."""
    while _in_flight and _in_flight[0][0].done:
        _in_flight.popleft()
    cupy = module()
    event = cupy.cuda.Event(disable_timing=True)
    event.record(cupy.cuda.get_current_stream() if stream is None else stream)
    _in_flight.append((event, array))


def _from_other_device(cupy: Any, array: Any) -> Any:
    """Through CuPy's copy between devices, which waits for the streams of both."""
    source = int(array.data.device_id)
    with on(source):
        dense = _row_major(array)
        cupy.cuda.get_current_stream().synchronize()
    made = cupy.empty(dense.shape, dense.dtype)
    if dense.size:
        made.data.copy_from_device_async(dense.data, dense.nbytes)
        cupy.cuda.get_current_stream().synchronize()
    return made


def _row_major(array: Any) -> Any:
    """A GPU array itself, or a copy; CuPy's `ascontiguousarray` gives arrays without dims one."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def dense_order(array: Any) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, if the elements lie side by side in
    that order; None for arrays with gaps, repeated or reversed elements."""
    order = tuple(sorted(range(array.ndim), key=lambda d: (-array.strides[d], d)))
    step = array.itemsize
    for d in reversed(order):
        if array.shape[d] != 1 and array.strides[d] != step and array.size:
            return None
        step *= array.shape[d]
    return order


def to_host(array: Any, non_blocking: bool = False) -> Any:
    """A copy of a GPU array as an array of NumPy, in the layout that it has.

    Args:
        non_blocking: the copy goes to pinned memory and may still be running when this returns;
            synchronize before reading it.
    """
    index = int(array.data.device_id)
    with in_words, on(index):
        order = dense_order(array)
        if order is None:
            order, array = tuple(range(array.ndim)), _row_major(array)
        dense = array.transpose(order)
        made = pinned_empty(dense.shape, dense.dtype) if non_blocking else np.empty(
            dense.shape, dense.dtype
        )  # fmt: skip
        if dense.size:
            dense.get(out=made, blocking=not non_blocking)
            if non_blocking:
                keep_until_done(made)
    return made.transpose([order.index(d) for d in range(array.ndim)])


# ---------------------------------------------------------------------------------------------
# pinned host memory


def pinned_empty(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """An array of NumPy in pinned memory, which a GPU copies from and to by itself."""
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes == 0:
        return np.empty(shape, dtype)
    owner = _Pinned(module().cuda.alloc_pinned_memory(size_bytes), size_bytes)
    return np.asarray(owner).view(dtype).reshape(shape)


@record
class _Pinned:
    """Keeps pinned memory for arrays of NumPy, which find it by `__array_interface__`."""

    memory: Any
    size_bytes: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size_bytes,), "typestr": "|u1", "data": (int(self.memory.ptr), False),
            "version": 3,
        }  # fmt: skip


def is_pinned(array: Any) -> bool:
    """True if the elements of an array of NumPy lie in memory of `pinned_empty`."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, _Pinned)
