"""When CuPy is imported: when somebody asks for a GPU, not before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parent.parent / "stand_in"
CPU_ONLY = """
import sys, dynajit as dj
layer = dj.nn.Linear(2, 3)
layer(dj.ones(4, 2)).sum().backward()
dj.optim.Adam(layer.parameters()).step()
dj.manual_seed(1)
layer.to("cpu").cpu()
dj.save(layer.state_dict(), "/dev/null")
with dj.random.fork_rng():
    dj.rand(2)
assert dj.cuda.is_initialized() is False
"""


@pytest.mark.parametrize(
    ("program", "is_imported"),
    [("import dynajit as dj", False), (CPU_ONLY, False),
     ("import dynajit as dj; dj.cuda.is_available()", True)],
    ids=["import", "work on the CPU", "a question"],
)  # fmt: skip
def test_cupy_comes_with_the_first_question(program: str, is_imported: bool) -> None:
    """A program that works on the CPU never pays for it."""
    code = f"{program}\nimport sys; print('cupy' in sys.modules)"
    path = os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )

    assert str(is_imported) == done.stdout.strip()
