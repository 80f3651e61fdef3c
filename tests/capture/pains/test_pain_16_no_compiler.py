"""Pain 16: no C compiler, no program."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import warnings
import dynajit as dj
compiled = dj.compile(lambda x: (x * 2).tanh() + (3 if dj.is_compiling() else 5))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    results = [compiled(dj.zeros(n)).tolist() for n in (1, 2, 3)]
assert [[3.0], [3.0] * 2, [3.0] * 3] == results, results
assert 1 == len(caught), [str(w.message) for w in caught]
assert "no C compiler" in str(caught[0].message)
"""


def test_without_a_compiler_graphs_run_on_numpy_with_one_warning(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "DYNAJIT_CACHE_DIR": str(tmp_path)}
    environment.pop("CC", None)
    environment.pop("DYNAJIT_CC", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
