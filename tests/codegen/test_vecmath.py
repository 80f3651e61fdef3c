"""The float functions of vecmath.h: at most 4 ULP over all of float, C99 rules at the edges."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

HEADERS = Path(__file__).resolve().parent.parent.parent / "codegen" / "headers"
COMPILER = shutil.which("gcc") or shutil.which("clang")
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": special.erf,
}
STRIDE = 331
"""Every 331st bit pattern: 13 million floats, all exponents, both signs."""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang")


@pytest.fixture(scope="module", params=["-O3 -march=native", "-O1"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The functions over arrays, vectorised and not."""
    folder = tmp_path_factory.mktemp("vecmath")
    source = '#include "vecmath.h"\n' + "".join(
        f"void run_{name}(const float *x, float *y, long n)"
        f"{{ for (long i = 0; i < n; i++) y[i] = dj_{name}_f32(x[i]); }}\n"
        for name in EXACT
    )
    (folder / "all.c").write_text(source)
    built = folder / "all.so"
    subprocess.run(
        [COMPILER, "-std=gnu11", *request.param.split(), "-fno-math-errno", "-shared", "-fPIC",
         f"-I{HEADERS}", str(folder / "all.c"), "-o", str(built), "-lm"],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(built))


def run(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    """The C function applied to an array."""
    y = np.empty_like(x)
    pointer = ctypes.c_void_p
    getattr(library, "run_" + name)(
        pointer(x.ctypes.data), pointer(y.ctypes.data), ctypes.c_long(x.size)
    )
    return y


@pytest.mark.parametrize("name", EXACT)
def test_error_is_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """Against float64 over a sweep of bit patterns; NaN and infinity exactly where float64 has
    them after rounding to float."""
    x = np.arange(0, 2**32, STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)
    y = run(library, name, x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
        ulp = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
        finite = np.isfinite(rounded) & np.isfinite(y)
        error = np.where(finite, np.abs(y - exact) / ulp, 0.0)

    assert np.array_equal(np.isnan(rounded), np.isnan(y))
    assert np.array_equal(np.isinf(rounded), np.isinf(y))
    assert error.max() <= 4.0, f"{error.max()} ULP at {x[error.argmax()]!r}"


@pytest.mark.parametrize("name", EXACT)
def test_edges(library: ctypes.CDLL, name: str) -> None:
    """Zeros with their signs, infinities, NaN, subnormals, one."""
    x = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 3.4e38, -3.4e38],
        np.float32,
    )
    y = run(library, name, x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64)).astype(np.float32)

    np.testing.assert_allclose(y, exact, rtol=5e-7, atol=2e-45)
    zero = exact == 0
    assert np.array_equal(np.signbit(exact[zero]), np.signbit(y[zero]))


@pytest.mark.parametrize("name", EXACT)
def test_vector_body_and_remainder_agree(library: ctypes.CDLL, name: str) -> None:
    """An element's bits do not depend on where in the loop it is computed."""
    x = np.random.default_rng(0).standard_normal(67).astype(np.float32)
    whole = run(library, name, x)
    single = np.concatenate([run(library, name, x[i : i + 1].copy()) for i in range(x.size)])

    assert np.array_equal(whole.view(np.uint32), single.view(np.uint32))
