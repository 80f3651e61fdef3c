"""`.ci/gpu` on the stand-ins, run by a Python in which dynajit is not installed."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.one_python
def test_the_script_runs_tests_and_benchmarks_where_dynajit_is_not_installed(tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    # A folder named in a .pth file is searched for packages, its own .pth files are not read: the
    # packages are there, the editable installation of dynajit is not.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "bare")}))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(tmp_path / "bare" / "bin" / "python")
    absent = subprocess.run([python, "-P", "-c", "import dynajit"], cwd=tmp_path, check=False)
    assert 1 == absent.returncode

    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "gpu"), str(tmp_path / "results")],
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        | {
            "PYTHON": python,
            "DYNAJIT_STAND_IN": "1",
            "GPU_TESTS": "tests/gpu/test_copies.py",
            "GPU_BENCH_ARGS": "--cases softmax",
            "GPU_BENCH_S": "20",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert " passed" in (tmp_path / "results" / "tests.log").read_text()
    assert "dynajit-eager" in (tmp_path / "results" / "gpu.txt").read_text()
