"""Pain 3: a second process pays for the compiler again."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dynajit import codegen, core, ir, ops
from dynajit.driver import artefacts

PROGRAM = """
import dynajit as dj
def f(x, y):
    return (x * y + 1).tanh().sum(dim=1)
found = dj.explain(f)(dj.ones(4, 5), dj.ones(4, 5))
print(all(record.from_cache for record in found.records), found.graph_count)
"""


def test_a_warm_process_does_not_call_the_c_compiler(tmp_path: Path) -> None:
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert [["False", "1"], ["True", "1"]] == runs
    environment["DYNAJIT_CC"] = "/bin/false"
    again = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in again.stderr


@pytest.mark.parametrize("package", [codegen, core, ir, ops])
def test_what_is_kept_is_of_the_present_files_of_every_room(package: ModuleType) -> None:
    files = {line.partition(" ")[0] for line in artefacts.version().splitlines()}
    folder = Path(str(package.__file__)).parent
    assert {path.name for path in folder.rglob("*.py")} - {"__init__.py"} <= files
