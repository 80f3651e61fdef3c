"""`python -m dynajit doctor`: what is installed, and what to do about what is missing."""

import argparse
import importlib.metadata
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit.codegen.compilers import cache_contents, nvrtc, toolchain
from dynajit.codegen.device import driver as device_driver
from dynajit.commands.screen import counted, say, size
from dynajit.core.arrays import _products
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu.memory import readable
from dynajit.core.errors import DeviceError, DynajitError, UnsupportedError
from dynajit.core.process import config, optional, threads
from dynajit.core.process.processors import available_processors
from dynajit.core.quoting import on_a_line

ABOUT: Final = "what is installed, and what to do about what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(asked: argparse.Namespace) -> int:
    """Print one line per component; returns 0 if compiled functions can run at full speed."""
    checks = [_python(), _numpy(), _blas(), _threads(), _compiler(), _cache(), *_gpu()]
    checks += _environment()
    for name, fine, text in checks:
        say(f"{'ok ' if fine else '-- '} {name:10s} {text}")
    needed = {"compiler", "blas", "cache"}
    return 0 if all(fine for name, fine, _ in checks if name in needed) else 1


Check = tuple[str, bool, str]

_CUDA_13: Final = 13000
_OLDEST_OF_CUDA_13: Final = (7, 5)


def _python() -> Check:
    version = platform.python_version()
    fine = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return "python", fine, version if fine else f"{version}: use 3.11, 3.12, 3.13 or 3.14"


def _numpy() -> Check:
    return "numpy", True, np.__version__


def _blas() -> Check:
    try:
        optional.load("scipy.linalg.cython_blas", needed_for="matrix products", install="scipy")
    except UnsupportedError as error:
        return "blas", False, str(error)
    own = next(iter(_products.addresses()), None)
    return "blas", True, f"our own products for {own}, SciPy's for vectors" if own else "SciPy's"


def _threads() -> Check:
    count, cores = threads.get_num_threads(), available_processors()
    return "threads", True, f"{count} of {counted(cores, 'core')}"


def _environment() -> list[Check]:
    """What the environment says: a line for each variable that is set."""
    found = []
    for known in config.SETTINGS.values():
        name = next((name for name in known.variables if os.environ.get(name)), None)
        if name is not None:
            set_to = on_a_line(os.environ[name])
            found.append((name, True, f"{set_to}: config.{known.name}, {known.about}"))
    for name, near in config.misspelt(os.environ).items():
        hint = f"; did you mean {near}?" if near else ""
        found.append((on_a_line(name), False, f"nothing reads this variable{hint}"))
    return found


def _compiler() -> Check:
    try:
        compiler = toolchain.find_compiler()
    except DynajitError as error:
        return "compiler", False, str(error)
    if compiler is None:
        return (
            "compiler", False,
            "none found: install gcc or clang, or set DYNAJIT_CC; the NumPy backend is used",
        )  # fmt: skip
    return "compiler", True, str(compiler)


def _cache() -> Check:
    folder = config.current().cache_dir
    existing = next((p for p in (folder, *folder.parents) if os.path.exists(p)), Path("/"))
    try:  # asked for rights alone, root may write everywhere
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or error
        return "cache", False, f"{folder} cannot be written ({reason}): set DYNAJIT_CACHE_DIR"
    kept = sum(entry.size_bytes for entry in cache_contents.entries(folder))
    return "cache", True, f"{folder} ({size(kept)})"


def _gpu() -> list[Check]:
    """CuPy and what it computes on: one line each."""
    several = _several_cupys()
    reason = gpu.why_not()
    if reason is not None:
        return [*several, ("gpu", False, f"{reason}  Tensors live on the CPU.")]
    cupy = gpu.module()
    version = f"{cupy.__version__} for CUDA {gpu.dotted(cupy.cuda.runtime.runtimeGetVersion())}"
    driver = f"the driver offers CUDA {gpu.dotted(cupy.cuda.runtime.driverGetVersion())}"
    devices = [_device(number) for number in range(gpu.device_count())]
    return [
        *several, ("cupy", True, f"{version}; {driver}"), *devices, _libraries(), _nvrtc(),
        _launches(),
    ]  # fmt: skip


def _several_cupys() -> list[Check]:
    found = sorted(
        name
        for name in {d.metadata["Name"] for d in importlib.metadata.distributions()}
        if name and (name == "cupy" or name.startswith("cupy-"))
    )
    if len(found) < 2:
        return []
    names = " ".join(found)
    text = f"several are installed and break one another: pip uninstall {names}, then install one"
    return [("cupy", False, text)]


def _device(number: int) -> Check:
    facts = gpu.module().cuda.runtime.getDeviceProperties(number)
    with gpu.on(number):
        free, total = gpu.module().cuda.runtime.memGetInfo()
    capability = facts["major"], facts["minor"]
    name = f"cuda:{number}: {facts['name'].decode()}, capability {capability[0]}.{capability[1]}"
    runtime = gpu.module().cuda.runtime.runtimeGetVersion()
    if runtime >= _CUDA_13 and capability < _OLDEST_OF_CUDA_13:
        return "gpu", False, f"{name}: too old for CUDA 13: pip install 'dynajit[cuda12]' instead"
    return "gpu", True, f"{name}, {readable(free)} of {readable(total)} free"


def _libraries() -> Check:
    """Whether CuPy finds NVIDIA's libraries, and they compute."""
    cupy = gpu.module()
    tries: dict[str, Callable[[], Any]] = {
        "NVRTC": lambda: cupy.arange(3) + 1,
        "cuBLAS": lambda: cupy.ones((2, 2)) @ cupy.ones((2, 2)),
        "cuSOLVER": lambda: cupy.linalg.cholesky(cupy.eye(2)),
        "cuFFT": lambda: cupy.fft.fft(cupy.ones(4)),
    }
    for name, call in tries.items():
        try:
            call()
            gpu.synchronize()
        except (ImportError, OSError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"{name} does not work ({first}): install CuPy with its libraries: {gpu.INSTALL}"
            return "cuda libs", False, text
    return "cuda libs", True, f"{', '.join(tries)} work"


def _nvrtc() -> Check:
    """What compiles fused kernels: the same library, found without CuPy."""
    library = nvrtc.find()
    if library is None:
        return "nvrtc", False, nvrtc.MSG_MISSING
    return "nvrtc", True, f"{'.'.join(map(str, library.version))} ({library.path})"


def _launches() -> Check:
    """What compiled functions launch kernels and products with."""
    try:
        device_driver.driver()
    except DeviceError as error:
        return "launches", False, str(error)
    library = device_driver.products_library()
    if library is None:
        return "launches", False, device_driver.MSG_PRODUCTS
    return "launches", True, f"{config.current().cuda_driver}; products by {library}"
