"""The contestants on a GPU: dynajit, PyTorch and CuPy, over tensors that are there already.

As `benchmarks.libraries`, with what a GPU needs besides: a library says when its work is done, and
times stretches of it with events, so that what the host does in between counts only where it is
asked for.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np

from benchmarks.libraries import Function, TensorLibrary

DEVICE: Final = "cuda"


@dataclass(frozen=True)
class GpuLibrary(TensorLibrary):
    """dynajit or PyTorch with tensors on the GPU.

    Args:
        mode: of `compile`.
    """

    mode: str | None = None

    def why_not_available(self) -> str | None:
        """Why this library cannot be measured here, or None."""
        missing = super().why_not_available()
        if missing is None and not self.namespace.cuda.is_available():
            return f"{self.module} finds no GPU"
        return missing

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """A copy on the GPU."""
        return self.namespace.from_numpy(array).to(DEVICE)

    def compile(self, function: Function) -> Function:
        """`compile(function, mode=...)`, or the function itself in eager mode."""
        if not self.compiles:
            return function
        compiled: Function = self.namespace.compile(function, mode=self.mode)
        return compiled

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """A tensor's values; numbers stay."""
        return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)

    def synchronize(self) -> None:
        """Wait for all work."""
        self.namespace.cuda.synchronize()

    def timed_ms(self, work: Callable[[], object]) -> float:
        """Milliseconds on the GPU from before the work to behind it."""
        start, end = (self.namespace.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    def allow_tf32(self) -> None:
        """float32 products may use tensor cores, in every library alike."""
        self.namespace.backends.cuda.matmul.allow_tf32 = True


@dataclass(frozen=True)
class Dynajit(GpuLibrary):
    """dynajit, whose work is on CuPy's streams."""

    @property
    def gpu(self) -> ModuleType:
        """What dynajit asks of CuPy."""
        return importlib.import_module("dynajit.core.arrays.gpu.runtime")

    def why_not_available(self) -> str | None:
        """Why no GPU can be used, or None."""
        reason: str | None = self.gpu.why_not()
        return reason

    def synchronize(self) -> None:
        """Wait for all work."""
        self.gpu.synchronize()

    def timed_ms(self, work: Callable[[], object]) -> float:
        """Milliseconds on the GPU from before the work to behind it."""
        return _timed_by_cupy(self.gpu.module(), work)

    def allow_tf32(self) -> None:
        """float32 products may use tensor cores."""
        self.namespace.config.configure(allow_tf32=True)


def _timed_by_cupy(cupy: Any, work: Callable[[], object]) -> float:
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end))


@dataclass(frozen=True)
class CupyFuse(GpuLibrary):
    """`cupy.fuse` over CuPy's arrays: pointwise functions, and a reduction behind one."""

    @property
    def namespace(self) -> ModuleType:
        """CuPy."""
        return importlib.import_module("cupy")

    def why_not_available(self) -> str | None:
        """Why CuPy cannot be measured here, or None."""
        if importlib.util.find_spec("cupy") is None:
            return "cupy is not installed"
        try:
            count = self.namespace.cuda.runtime.getDeviceCount()
        except self.namespace.cuda.runtime.CUDARuntimeError as error:
            return str(error)
        return None if count else "cupy finds no GPU"

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """A copy on the GPU."""
        return self.namespace.asarray(array)

    def compile(self, function: Function) -> Function:
        """`cupy.fuse(function)`, whose kernel is named: a lambda's own name is none in C."""
        fused: Function = self.namespace.fuse(kernel_name="fused")(function)
        return fused

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """An array's values."""
        return np.asarray(value.get())

    def synchronize(self) -> None:
        """Wait for all work."""
        self.namespace.cuda.Device().synchronize()

    def timed_ms(self, work: Callable[[], object]) -> float:
        """Milliseconds on the GPU from before the work to behind it."""
        return _timed_by_cupy(self.namespace, work)

    def reset(self) -> None:
        """Nothing is kept."""

    def graphs(self) -> int | None:
        """CuPy does not count."""
        return None

    def allow_tf32(self) -> None:
        """No products are measured."""


LIBRARIES: Final[Mapping[str, GpuLibrary]] = {
    library.name: library
    for library in (
        Dynajit("dynajit", "torch", "dynajit", compiles=True),
        Dynajit("dynajit-graphs", "torch", "dynajit", compiles=True, mode="reduce-overhead"),
        Dynajit(
            "dynajit-tuned", "torch", "dynajit", compiles=True, mode="max-autotune-no-cudagraphs"
        ),
        Dynajit("dynajit-eager", "torch", "dynajit"),
        GpuLibrary(
            "torch-compile", "torch", "torch", compiles=True, mode="max-autotune-no-cudagraphs",
            optimizer_options={"fused": True},
        ),
        GpuLibrary("torch-eager", "torch", "torch", optimizer_options={"fused": True}),
        CupyFuse("cupy-fuse", "cupy", "cupy", compiles=True),
    )
}  # fmt: skip
