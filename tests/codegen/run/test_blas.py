"""Where generated products find BLAS."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.run import blas
from dynajit.core.errors import CodegenError
from dynajit.core.process import openblas

pytestmark = pytest.mark.c_only


def product(address: int, real: Any, dtype: Any) -> tuple[Any, Any]:
    """(result of gemm at `address`, NumPy's) for small matrices in column-major order."""
    random = np.random.default_rng(3)
    a = np.asfortranarray(random.integers(-5, 5, (3, 4)).astype(dtype))
    b = np.asfortranarray(random.integers(-5, 5, (4, 2)).astype(dtype))
    c = np.zeros((3, 2), dtype, order="F")
    gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)
    sizes = [ctypes.c_int(n) for n in (3, 2, 4)]
    one, zero, plain = real(1), real(0), ctypes.c_char(b"N")
    pointers = [ctypes.addressof(value) for value in (plain, plain, *sizes, one)]
    gemm(*pointers, a.ctypes.data, ctypes.addressof(sizes[0]), b.ctypes.data,
         ctypes.addressof(sizes[2]), ctypes.addressof(zero), c.ctypes.data,
         ctypes.addressof(sizes[0]))  # fmt: skip
    return c, a @ b


@pytest.mark.parametrize("find", [blas._library_products, blas._scipy_products])
def test_products_are_those_of_numpy(find: Any) -> None:
    """Both ways to the functions; 32-bit sizes."""
    found = find()
    if found is None:
        pytest.skip("this SciPy has no OpenBLAS beside it")
    types = ((ctypes.c_float, np.float32), (ctypes.c_double, np.float64))
    for address, (real, dtype) in zip(found[:2], types, strict=True):
        actual, expected = product(address, real, dtype)
        np.testing.assert_array_equal(expected, actual)


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was found of libraries is looked for again, here and afterwards."""
    openblas.thread_functions.cache_clear()
    yield
    openblas.thread_functions.cache_clear()


def test_without_the_library_scipy_is_asked(
    monkeypatch: pytest.MonkeyPatch, forgetful: None
) -> None:
    """As on systems whose SciPy links another BLAS; nobody knows its threads then."""
    monkeypatch.setattr(openblas.glob, "glob", lambda pattern: [])
    *products, get_threads, set_threads = blas.addresses.__wrapped__()

    assert tuple(products) == blas._scipy_products()
    assert (get_threads, set_threads) == (0, 0)


def test_a_file_that_is_no_library_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Damaged, or of another machine."""
    broken = tmp_path / "libopenblas.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(openblas.glob, "glob", lambda pattern: [str(broken)])

    assert blas._library_products() is None


def test_a_scipy_without_gemm_is_an_error() -> None:
    """It names the version that is needed."""

    class Module:
        """Publishes nothing."""

        __pyx_capi__: dict[str, Any] = {}  # noqa: RUF012

    with pytest.raises(CodegenError, match="no sgemm: install SciPy"):
        blas._capsule_pointer(Module, "sgemm")


def test_products_do_not_import_scipy() -> None:
    """Where the library lies beside it; SciPy imported later works."""
    code = """
import sys, dynajit as dj
from dynajit.codegen.run import blas
x = dj.ones(40, 40)
assert (dj.compile(lambda a: a @ a)(x) == 40).all()
print(blas._library_products() is None or "scipy" not in sys.modules)
import numpy as np, scipy.linalg
print(float(scipy.linalg.blas.sgemm(2.0, np.ones((2, 2)), np.ones((2, 2)))[0, 0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ["True", "4.0"] == done.stdout.split()


def test_products_compile_where_something_stands_for_scipy() -> None:
    """Programs put modules that they do not need aside."""
    code = """
import sys, types, dynajit as dj
sys.modules["scipy"] = types.ModuleType("scipy")
x = dj.ones(40, 40)
with dj.config.override(strict=True):
    print(dj.allclose(dj.compile(lambda a: (a @ a).relu())(x), x * 40))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "True\n" == done.stdout
