"""Every kernel that ran on the emulator compiles for GPUs, and keeps its values in registers.

For `make test-cuda`, behind all other tests of a run (`--cuda all`): it looks at what they made.
`--resources FILE` writes what each kernel takes.
"""

import shutil
from pathlib import Path

import pytest

from dynajit.codegen.compilers.cubin import Resources
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops
from tests.support.kernels.cuda_resources import (
    ARCHITECTURES,
    assert_no_spills,
    compile_all,
    needs_nvrtc,
    record,
)
from tests.support.kernels.emulated import EmulatedProgram, kernels_met, renamed

pytestmark = pytest.mark.one_python

PART = 200
"""Kernels that are compiled together: the prelude is read once for them."""


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_that_was_made_compiles(
    architecture: str, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("cuda") != "all":
        pytest.skip("run with --cuda all")
    kernels = [renamed(kernel, f"m{number}") for number, kernel in enumerate(kernels_met())]
    found: dict[str, Resources] = {}
    for first in range(0, len(kernels), PART):
        found |= compile_all(kernels[first : first + PART], architecture)
    path = pytestconfig.getoption("resources")
    if path:
        record(Path(path), architecture, kernels, found)
    assert_no_spills(kernels, found)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_kernels_that_were_made_are_known_once(codegen) -> None:
    graph = codegen.graph_of(lambda x: ops.exp(x * 7.25), TensorType((37,), dtypes.float32))
    before = len(kernels_met())
    for name in ("one", "two"):
        EmulatedProgram(graph, name)

    assert before + 1 == len(kernels_met())
    assert "7.25" in kernels_met()[-1].source
