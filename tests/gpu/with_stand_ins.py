"""Runs a module as `python -m` does, on the stand-ins for CuPy and the CUDA driver.

    python tests/gpu/with_stand_ins.py benchmarks --gpu --small

For trying out programs that need a GPU. Numbers are right, times mean nothing.
"""

import runpy
import sys
import tempfile
from pathlib import Path

# Links are not followed: `.ci/gpu` runs from a tree of links in which the packages lie together.
ROOT = Path(__file__).absolute().parents[2]
for folder in (ROOT / "tests" / "stand_in", ROOT):
    sys.path.insert(0, str(folder))

from tests.support.gpu.driver_stand_in import installed  # noqa: E402


def main() -> None:
    """Run the module that the command line names with the rest of its arguments."""
    _, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    with tempfile.TemporaryDirectory() as folder, installed(Path(folder)):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


main()
