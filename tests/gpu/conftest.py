"""A GPU for the tests of this folder: the machine's where there is one, else CuPy's stand-in.

The very same tests run in both cases: `pytest -m gpu tests/gpu` on a machine with a GPU. What asks
for two devices is skipped where there is one. `DYNAJIT_STAND_IN=1` takes the stand-in even there.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.process import config
from tests.support.gpu.driver_stand_in import Driver, installed

STAND_IN = Path(__file__).resolve().parent.parent / "stand_in"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test of this folder is marked `gpu`: it runs on one where there is one."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)


def forget_cupy() -> None:
    """As if neither CuPy nor its stand-in had been imported."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("cupy", "cupyx"):
            del sys.modules[name]
    gpu.look_again()


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> Iterator[None]:
    """The GPU, or the stand-in: for the tests of this folder only."""
    if not os.environ.get("DYNAJIT_STAND_IN") and gpu.is_available():
        yield
        return
    forget_cupy()
    sys.path.insert(0, str(STAND_IN))
    try:
        yield
    finally:
        sys.path.remove(str(STAND_IN))
        forget_cupy()


@pytest.fixture(scope="session")
def driver_folder(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path | None) -> Path:
    """Where the stand-in for the driver and its images are compiled, once per run, or for all runs
    that share what they compile: names are checksums of all that a file is made of."""
    if shared_folder is None:
        return tmp_path_factory.mktemp("driver")
    folder = shared_folder / "stand_in"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def driver(_gpu: None, driver_folder: Path) -> Iterator[Driver | None]:
    """The stand-in for the CUDA driver where CuPy's is used; None with a GPU.

    Kernels are compiled by g++ instead of NVRTC; arrays of the stand-in for CuPy are memory that
    they may touch. What the emulator finds wrong in a kernel fails the test (`_no_complaints`).
    """
    if not hasattr(gpu.module(), "stand_in"):
        yield None
        return
    with installed(driver_folder) as loaded:
        yield loaded


@pytest.fixture(autouse=True)
def _no_complaints(request: pytest.FixtureRequest) -> Iterator[None]:
    """The emulator has found nothing wrong, in tests that run kernels."""
    yield
    if "driver" in request.fixturenames:
        driver = request.getfixturevalue("driver")
        assert driver is None or driver.complaint() == ""


@pytest.fixture
def is_stand_in(_gpu: None) -> bool:
    """True where no GPU computes."""
    return hasattr(gpu.module(), "stand_in")


@pytest.fixture
def second_device(_gpu: None) -> str:
    """A device besides the first; tests that ask for it are skipped where there is none."""
    if gpu.device_count() < 2:
        pytest.skip("needs two GPUs")
    return "cuda:1"


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for the whole run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def kernel_cache(cache_folder: Path) -> Iterator[None]:
    """Kernels of tests stay out of the user's cache."""
    with config.override(cache_dir=cache_folder):
        yield
