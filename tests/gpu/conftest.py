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

from dynajit.core import gpu

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
