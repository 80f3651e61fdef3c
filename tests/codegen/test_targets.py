"""Generated C for other processors and by other compilers than the first one found.

A processor without AVX has narrower vectors, other tiles and no fused products. Compilers that are
not installed are skipped.
"""

import platform
import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.compilers import toolchain
from dynajit.core.process import config
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def attend(x: Any, y: Any) -> Any:
    """Products of small blocks in panels, and rows of exponentials."""
    heads = [ops.reshape(part, shape=(2, 10, 7)) for part in (x, y, ops.exp(x))]
    return ops.scaled_dot_product_attention(*heads, None, None, None, is_causal=False)


def mix(x: Any, y: Any) -> Any:
    """Rows, columns, running sums, a transposed copy, an unrolled product, 16-bit floats."""
    rows = ops.softmax(ops.mul(x, y), dim=1)
    small = ops.matmul(rows, ops.reshape(ops.select(y, dim=0, index=0), shape=(7, 1)))
    turned = ops.add(ops.permute(x, dims=(1, 0)), 1.0)
    return [rows, small, turned, ops.sum(y, dim=(0,)), ops.cumsum(x, dim=1), ops.tanh(y)]


def operands() -> list[np.ndarray]:
    """Two matrices of 20 rows of 7."""
    random = np.random.default_rng(0)
    return [random.standard_normal((20, 7)).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("compiler", ["gcc-9", "gcc-10", "gcc-11", "clang"])
@pytest.mark.parametrize("function", [attend, mix])
def test_every_compiler_takes_generated_c(codegen: Any, compiler: str, function: Any) -> None:
    """GCC 11 is what Ubuntu 22.04 has."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    with config.override(compiler=compiler):
        codegen.check(function, *operands())


@pytest.mark.skipif(not IS_X86, reason="names of x86")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2"])
def test_code_for_other_processors_is_right(codegen: Any, cpu: str) -> None:
    with config.override(cpu=cpu):
        codegen.check(attend, *operands())


def test_the_processor_is_part_of_the_key() -> None:
    compiler = toolchain.Compiler("/bin/cc", "1", str)
    keys = set()
    for cpu in ("native", "x86-64-v3"):
        with config.override(cpu=cpu):
            keys.add(toolchain.cache_key("x", compiler))
            assert f"-march={cpu}" in toolchain.flags(compiler)

    assert len(keys) == 2
