"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer: a planted fault ends the run.

`make test-sanitizers` runs other tests this way; these show that such a run can fail.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynajit.codegen.compilers import toolchain
from dynajit.core.process import config


def _sanitizer_library() -> str | None:
    """libasan of gcc, which must be preloaded; None if there is none."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    command = [gcc, "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return found if Path(found).is_absolute() else None


LIBRARY = _sanitizer_library()
pytestmark = [
    pytest.mark.c_only,
    pytest.mark.skipif(LIBRARY is None, reason="needs gcc with libasan"),
    pytest.mark.one_python,
]

PROGRAM = """
from dataclasses import replace
import numpy as np
from dynajit.ops import TABLE as ops
from dynajit.codegen.c import text as c_text
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ops.table import dispatch

def print_wrongly(kernel, print_kernel=c_text.print_kernel):
    function = print_kernel(kernel)
    return replace(function, text=function.text.replace({old!r}, {new!r}))

c_text.print_kernel = print_wrongly
builder = Builder("planted")
x = builder.placeholder("x", TensorType(({size},), dtypes.float32))
with dispatch.recording(builder.handle):
    out = {expression}
program = compile_graph(builder.finish([out]))
value = program(np.ones({size}, np.float32))[0]
print("finished", float(value.sum()))
"""


def run_planted(
    folder: Path, old: str, new: str, expression: str, size: int = 40
) -> subprocess.CompletedProcess[str]:
    """A program with `old` replaced in every kernel's text, run under the sanitizers."""
    environment = os.environ | {
        "LD_PRELOAD": str(LIBRARY),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "DYNAJIT_SANITIZE": "1",
        "DYNAJIT_CC": "gcc",
        "DYNAJIT_CACHE_DIR": str(folder),
    }
    program = PROGRAM.format(old=old, new=new, expression=expression, size=size)
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )


ADD = "ops.add(x, 1.0)"
PRODUCT = "ops.matmul(ops.reshape(ops.exp(x), shape=(5, 8)), ops.reshape(x, shape=(8, 5)))"


def test_a_right_program_finishes(tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong."""
    result = run_planted(tmp_path, "", "", ADD)

    assert (0, "finished 80.0\n") == (result.returncode, result.stdout), result.stderr


@pytest.mark.parametrize("size", [40, 9000])
def test_a_read_outside_of_an_argument_is_found(tmp_path: Path, size: int) -> None:
    """One element behind an input."""
    result = run_planted(tmp_path, "in0[i", "in0[1 + i", ADD, size)

    assert result.returncode != 0 and "heap-buffer-overflow" in result.stderr, result.stderr


@pytest.mark.parametrize("size", [40, 9001])
def test_a_write_outside_of_an_output_is_found(tmp_path: Path, size: int) -> None:
    """One element behind an output, also where its block is larger than the output."""
    result = run_planted(tmp_path, "add[i", "add[1 + i", ADD, size)

    assert result.returncode != 0, result.stdout
    assert "heap-buffer-overflow" in result.stderr or "use-after-poison" in result.stderr


def test_a_write_outside_of_a_temporary_is_found(tmp_path: Path) -> None:
    """Temporaries share one block; what lies between them is guarded."""
    result = run_planted(tmp_path, "exp[i", "exp[1 + i", PRODUCT)

    assert result.returncode != 0 and "use-after-poison" in result.stderr, result.stdout


def test_undefined_behaviour_is_found(tmp_path: Path) -> None:
    """A shift by more than the width."""
    result = run_planted(tmp_path, "in0[i", "in0[(1 << (threads + 62)) * 0 + i", ADD)

    assert result.returncode != 0 and "shift exponent" in result.stderr, result.stderr


def test_sanitized_kernels_have_cache_entries_of_their_own() -> None:
    """The flags are part of the key."""
    compiler = toolchain.find_compiler()
    assert compiler is not None
    plain = toolchain.cache_key("x", compiler)
    with config.override(sanitize=True):
        assert plain != toolchain.cache_key("x", compiler)
