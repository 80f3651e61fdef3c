"""The runtime of threads is loaded once, with workers that sleep soon unless the user said more;
its threads serve the loops of eager execution that follow a compiled function, too."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.compilers import openmp
from dynajit.core.arrays import _products

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


#: GOMP_parallel(function, its argument, threads, flags)
PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
#: Calls after which a loop must have met threads that are awake: others may hold up one of them.
MANY = 300


@pytest.fixture
def two_threads() -> Iterator[None]:
    with dj.config.override(num_threads=2):
        yield
    share(openmp.load())


def share(library: ctypes.CDLL | None) -> None:
    assert library is not None
    _products.share_team(ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0)


def test_loops_behind_a_compiled_function_run_on_its_threads(two_threads: None) -> None:
    asked: list[int] = []

    def parallel(function: int, argument: int, threads: int, flags: int) -> None:
        asked.append(threads)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(argument)

    callback = PARALLEL(parallel)
    x, weight, large = dj.randn(4, 16, 32, 32), dj.randn(16, 16, 3, 3), dj.randn(1 << 20)
    compiled = dj.compile(lambda large: large.exp() * 2)
    expected, values = F.conv2d(x, weight), compiled(large)
    _products.share_team(ctypes.cast(callback, ctypes.c_void_p).value or 0)
    for _ in range(MANY):
        found = (compiled(large), F.conv2d(x, weight))
        assert dj.equal(found[0], values)
        assert dj.equal(found[1], expected)
        if asked:
            break

    assert set(asked) == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_none_of_them(two_threads: None) -> None:
    """It would wait for them without end."""
    x, weight, large = dj.randn(4, 16, 32, 32), dj.randn(16, 16, 3, 3), dj.randn(1 << 20)
    compiled = dj.compile(lambda large: large.exp() * 2)
    expected = F.conv2d(x, weight)
    for _ in range(3):
        compiled(large)
        child = os.fork()
        if child == 0:
            os._exit(0 if dj.equal(F.conv2d(x, weight), expected) else 1)

        assert os.waitpid(child, 0)[1] == 0
        assert dj.equal(F.conv2d(x, weight), expected)
