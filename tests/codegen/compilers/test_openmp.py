"""The runtime of threads is loaded once, with workers that sleep soon unless the user said more."""

import os
import subprocess
import sys

import pytest

from dynajit.codegen.compilers import openmp

pytestmark = pytest.mark.skipif(openmp.load() is None, reason="needs GCC's OpenMP runtime")

TOLD = """
import os
from dynajit.codegen.compilers import openmp
openmp.load()
print(os.environ.get("GOMP_SPINCOUNT"), os.popen("echo $GOMP_SPINCOUNT").read().strip())
"""


def shown(code: str, **settings: str) -> tuple[str, str]:
    environment = {**os.environ, **settings}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


def test_it_is_loaded_once() -> None:
    assert openmp.load() is openmp.load()


def test_nothing_is_left_in_the_environment() -> None:
    assert shown(TOLD) == ("None", "")


def test_workers_are_told_to_sleep_soon() -> None:
    """The runtime shows its settings when it is loaded."""
    text = shown(
        "from dynajit.codegen.compilers import openmp; openmp.load()", OMP_DISPLAY_ENV="VERBOSE"
    )[1]

    assert f"GOMP_SPINCOUNT = '{openmp.SPIN_COUNT}'" in text


@pytest.mark.parametrize("setting", [("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "ACTIVE")])
def test_the_settings_of_the_user_win(setting) -> None:
    code = "from dynajit.codegen.compilers import openmp; openmp.load()"
    text = shown(code, OMP_DISPLAY_ENV="VERBOSE", **dict([setting]))[1]

    assert f"GOMP_SPINCOUNT = '{openmp.SPIN_COUNT}'" not in text
    assert f"{setting[0]} = '{setting[1]}'" in text
