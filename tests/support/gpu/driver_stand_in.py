"""The stand-in for the CUDA driver, and what makes images for it.

Contract: `library(folder)` gives the path of the driver, compiled once per folder; `image(text,
folder)` the bytes of an image of CUDA text, as NVRTC gives a cubin. `Driver(path)` has the entry
points of driver.cpp that tests themselves call. Within `installed(folder)` dynajit uses both, and
the stand-in for CuPy, which must be on `sys.path`, tells the driver of its memory and devices.
"""

import ctypes
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dynajit.codegen.compilers import nvrtc
from dynajit.codegen.device import driver as device_driver
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.process import config
from tests.support.kernels import emulated

HERE = Path(__file__).resolve().parents[2] / "stand_in"
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(')


def library(folder: Path) -> Path:
    """The driver as a shared object."""
    sources = [HERE / name for name in ("driver.cpp", "cublas_lt.h", "image_table.h")]
    content = "".join(source.read_text() for source in sources)
    made = folder / f"driver-{_digest(content)}.so"
    if not made.exists():
        flags = ("-std=c++17", "-O1", "-fPIC", "-pthread", str(sources[0]), "-ldl")
        with _appearing(made) as partial:
            _run("g++", "-shared", "-o", str(partial), *flags)
    return made


def image(text: str, folder: Path, checked: bool = True) -> bytes:
    """An image with the kernels of a CUDA text; the same text is compiled once per folder.

    Args:
        text: a whole unit.
        folder: for what is compiled.
        checked: the emulator looks at every access to memory.
    """
    entries = KERNEL.findall(text)
    exports = "\n".join(f"DJ_EMULATE({name})" for name in entries)
    table = "".join(f"    STAND_IN_KERNEL({name}),\n" for name in entries)
    end = (
        f'{exports}\n#include "{HERE / "image.h"}"\n'
        f"STAND_IN_TABLE const stand_in::Kernel stand_in_kernels[] = {{\n{table}    {{}},\n}};\n"
    )
    flags = (*emulated.FLAGS, *(emulated.CHECKED if checked else ()))
    headers = (emulated.EMULATOR, HERE / "image.h", HERE / "image_table.h")
    read = (header.read_text() for header in headers)
    made = folder / f"image-{_digest(text, end, *read, *flags)}.so"
    if not made.exists():
        head, rest = emulated.read_ahead(text, flags)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            text_file, object_file = Path(scratch) / "image.cpp", Path(scratch) / "image.o"
            text_file.write_text(f"{rest}\n{end}")
            _run("g++", *flags, *head, "-c", "-o", str(object_file), str(text_file))
            with _appearing(made) as partial:
                _run(*emulated.linking(partial, object_file))
    return made.read_bytes()


@contextmanager
def _appearing(made: Path) -> Iterator[Path]:
    """A file that is there at once and whole, also where several processes make it: its name
    within the block."""
    with tempfile.NamedTemporaryFile(dir=made.parent, suffix=".so", delete=False) as partial:
        yield Path(partial.name)
    Path(partial.name).rename(made)


def _run(*command: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{found.stderr}")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Driver:
    """The loaded driver, as tests see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.stand_in_complaint.restype = ctypes.c_char_p
        self.library.stand_in_calls.restype = ctypes.c_uint64
        self.library.stand_in_block_count.restype = ctypes.c_uint64

    def complaint(self) -> str:
        """What was found wrong since it was last asked; the driver works again."""
        return self.library.stand_in_complaint().decode()

    def calls(self, name: str) -> int:
        """How often an entry point was called."""
        return self.library.stand_in_calls(name.encode())

    def fail(self, name: str, code: int, skipped: int = 0) -> None:
        """Let the call of an entry point after `skipped` others fail, once."""
        self.library.stand_in_fail(name.encode(), ctypes.c_long(skipped), code)

    def set_lazy(self, lazy: bool) -> None:
        """Whether work waits until somebody waits for it."""
        self.library.stand_in_set_lazy(int(lazy))

    def drain(self) -> None:
        """Let all work run that waits."""
        self.library.stand_in_drain()

    def begin_capture(self, stream: int) -> None:
        """Capture a stream, as a user of CUDA graphs does."""
        assert self.library.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 2) == 0

    def end_capture(self, stream: int) -> ctypes.c_void_p:
        """The graph that was captured."""
        graph = ctypes.c_void_p()
        assert self.library.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)) == 0
        return graph

    def run_graph(self, graph: ctypes.c_void_p) -> None:
        """Launch a graph once on the default stream."""
        executable = ctypes.c_void_p()
        made = self.library.cuGraphInstantiateWithFlags(
            ctypes.byref(executable), graph, ctypes.c_ulonglong(0)
        )
        assert made == 0
        assert self.library.cuGraphLaunch(executable, None) == 0

    def use(self, device: int) -> None:
        """Make the context of a device that of this thread."""
        context = ctypes.c_void_p()
        self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.library.cuCtxSetCurrent(context)

    def limit(self, size: int) -> None:
        """Bytes of device memory; 0: as much as at first."""
        self.library.stand_in_limit(ctypes.c_uint64(size))

    def register(self, pointer: int, size: int) -> None:
        """Memory of others is memory that kernels may touch."""
        self.library.stand_in_register(ctypes.c_void_p(pointer), ctypes.c_uint64(size))

    def forget(self, pointer: int) -> None:
        """It is no longer."""
        self.library.stand_in_forget(ctypes.c_void_p(pointer))

    def block_count(self) -> int:
        """Living blocks of memory, registered ones included."""
        return self.library.stand_in_block_count()


@contextmanager
def installed(folder: Path) -> Iterator[Driver]:
    """dynajit launches kernels on the stand-in within the block.

    Args:
        folder: for what is compiled.
    """
    path = library(folder)
    driver = Driver(path)
    before = config.configure(cuda_driver=str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_driver, "products_library", lambda: str(path))
        patch.setattr(nvrtc, "find", lambda: nvrtc.Library("g++", (0, 0), None))
        patch.setattr(nvrtc, "architectures", tuple)
        patch.setattr(nvrtc, "compile_source", lambda source, *_, **__: image(source, folder))
        _tell_of_memory(driver, patch)
        _tell_of_devices(driver, patch)
        yield driver
    config.configure(cuda_driver=before.cuda_driver)


def _tell_of_memory(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    """Let kernels touch what the pool has given out, and nothing else."""
    memory = gpu.module().cuda.memory.PooledMemory
    make, free = memory.__init__, memory.free

    def made(self: Any, *arguments: Any) -> None:
        make(self, *arguments)
        driver.register(self.ptr, self.size)

    def freed(self: Any) -> None:
        if self.ptr:
            driver.forget(self.ptr)
        free(self)

    patch.setattr(memory, "__init__", made)
    patch.setattr(memory, "free", freed)


def _tell_of_devices(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    """A device that becomes the current one has its context current, as the runtime does it."""
    runtime = gpu.module().cuda.runtime
    choose = runtime.setDevice

    def chosen(device: int) -> None:
        choose(device)
        driver.use(device)

    patch.setattr(runtime, "setDevice", chosen)
