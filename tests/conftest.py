"""Options of the whole test suite."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import dynajit as dj
from dynajit.core.arrays.gpu import runtime as gpu

# Tests never assert on time: hypothesis refuses examples of more than 0.2 s by default, and slow
# making of them.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: Any) -> None:
    """`--cpython all`: every one of CPython's own test files under capture, in every mode;
    `--cuda all`: CUDA text in every dtype and for every architecture;
    `--resources FILE`: what kernels take of GPUs, where `--cuda all` compiles them;
    `--target cuda`: tests of kernels (tests/codegen) run their graphs as CUDA on the emulator;
    `--kernels=FOLDER` (as one word: a folder of its own would be taken for tests): what is compiled
    is shared with other runs, whatever Python they are of."""
    parser.addoption("--cpython", choices=("fast", "all"), default="fast")
    parser.addoption("--cuda", choices=("fast", "all"), default="fast")
    parser.addoption("--resources")
    parser.addoption("--target", choices=("c", "cuda"), default="c")
    parser.addoption("--kernels", type=Path)


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: collections of garbage need not look at them each time.

    Those of the whole suite, with PyTorch, are a million objects, and tests of what is forgotten
    collect hundreds of times. Hypothesis looks for what refers to its generator of numbers, once,
    when the first generated example runs, and would not find it among what stays: that is now.
    """
    _first_generated_example()
    _keep_what_is_there()


@pytest.fixture(scope="module", autouse=True)
def _what_a_module_leaves_is_kept() -> Iterator[None]:
    """What tests leave stays, too: functions of a module, compiled, and reports."""
    yield
    _keep_what_is_there()


@hypothesis.given(hypothesis.strategies.none())
def _first_generated_example(_: None) -> None:
    """Runs for what Hypothesis sets up with it."""


def _keep_what_is_there() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_folder(pytestconfig: pytest.Config) -> Path | None:
    """The folder of what runs share, where `--kernels` names one."""
    folder: Path | None = pytestconfig.getoption("kernels")
    return None if folder is None else folder.absolute()


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path | None) -> Path:
    """One cache folder for the whole run: equal kernels compile once.

    Kernels may lie where other runs look for them: a kernel's name is a checksum of its text, its
    compiler and the flags. Texts are made in every run, and what is kept of graphs is its own.
    """
    folder = tmp_path_factory.mktemp("cache")
    if shared_folder is not None:
        kernels = shared_folder / "kernels"
        kernels.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "kernels").symlink_to(kernels, target_is_directory=True)
    return folder


@pytest.fixture
def strict_programs(kernel_folder: Any) -> Iterator[None]:
    """A defect of the compiler is an error, not a fallback; tests do not see each other."""
    with dj.config.override(strict=True, cache_dir=kernel_folder):
        yield
    dj.reset()


@pytest.fixture
def side_by_side() -> Callable[..., None]:
    """Runs functions in a thread each, which take turns a thousand times as often as usual."""

    def run(*functions: Callable[[], Any]) -> None:
        threads = [threading.Thread(target=function) for function in functions]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(5e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)

    return run


@pytest.fixture
def blocks() -> Callable[[], int]:
    """Memory blocks in use now, but for the names that CPython's cache of attributes keeps."""

    def count() -> int:
        gc.collect()
        if sys.version_info >= (3, 13):
            sys._clear_internal_caches()
        else:
            sys._clear_type_cache()
        return sys.getallocatedblocks()

    return count


@pytest.fixture
def no_gpu() -> None:
    """Tests of a machine without a GPU are skipped where there is one."""
    if gpu.is_available():
        pytest.skip("there is a GPU")
