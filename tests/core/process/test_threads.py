"""The number of threads: what users set, and what programs that exist already make of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.arrays import products
from dynajit.core.process import config
from dynajit.core.process.openblas import thread_functions


@pytest.fixture
def number():
    before = config.configure()
    blas = thread_functions("numpy")
    blas_before = blas.get() if blas else 0
    yield
    config.configure(num_threads=before.num_threads)
    if blas:
        blas.set(blas_before)


def test_the_number_is_what_was_set(number) -> None:
    dj.set_num_threads(3)

    assert 3 == dj.get_num_threads()
    assert 3 == config.default().num_threads


def test_products_of_eager_execution_follow(number) -> None:
    blas = thread_functions("numpy")
    if blas is None:
        pytest.skip("this NumPy brought no OpenBLAS along")
    for threads in (1, 2):
        dj.set_num_threads(threads)
        assert threads == blas.get()


def test_a_package_without_an_openblas_of_its_own_has_no_functions_of_threads() -> None:
    assert thread_functions("json") is None
    assert thread_functions("no_such_package") is None


def test_products_of_eager_execution_follow_the_setting_too(number) -> None:
    blas = thread_functions("numpy")
    for threads in (1, 2):
        config.num_threads = threads
        assert threads == products.thread_count()
        assert blas is None or threads == blas.get()


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "DYNAJIT_NUM_THREADS"])
def test_the_environment_says_how_many_threads_compute(name) -> None:
    """Kernels, products of eager execution, and NumPy's own."""
    program = (
        "import dynajit as dj\n"
        "from dynajit.core.arrays.products import thread_count\n"
        "from dynajit.core.process.openblas import thread_functions\n"
        "blas = thread_functions('numpy')\n"
        "print(dj.get_num_threads(), thread_count(), blas.get() if blas else 1)\n"
    )
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", program], env={**kept, name: "1"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert "1 1 1\n" == run.stdout


def test_zero_is_one_thread_per_usable_core(number) -> None:
    config.configure(num_threads=0)

    assert dj.get_num_threads() >= 1


@pytest.mark.parametrize("wrong", [0, -2])
def test_a_number_that_is_not_positive_is_refused(number, wrong) -> None:
    before = dj.get_num_threads()

    with pytest.raises(RuntimeError, match="positive integer"):
        dj.set_num_threads(wrong)
    assert before == dj.get_num_threads()


def test_a_number_that_is_no_integer_is_refused(number) -> None:
    with pytest.raises(TypeError):
        dj.set_num_threads(1.5)


def test_programs_that_exist_follow_and_give_the_same_bits(number) -> None:
    function = dj.compile(lambda x: (x.exp() * 2).sum(1))
    x = dj.from_numpy(np.random.default_rng(0).standard_normal((1000, 700)).astype(np.float32))
    results = []
    for threads in (1, 2, 3, 1):
        dj.set_num_threads(threads)
        results.append(function(x).numpy().copy())

    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)
