"""The double functions of vecmath_f64.h: at most 4 ULP, C99 rules at the edges.

The oracle is NumPy in extended precision, where the machine has it.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

HEADERS = Path(__file__).resolve().parent.parent.parent / "codegen" / "headers"
COMPILER = shutil.which("gcc") or shutil.which("clang")
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
}
NEAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin_near": np.sin,
    "cos_near": np.cos,
    "tan_near": np.tan,
}
"""Functions for |x| <= `LARGEST_NEAR`."""

LARGEST_NEAR = 65536.0
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2250738585072014e-308,
     1.7e308, -1.7e308, 709.782712893384, 709.7827128933841, -745.13, -745.14, -708.0, -707.5,
     1023.999, 1024.0, -1074.0, -1075.0, -1076.5, 710.4758600739439, 710.475860073944],
)  # fmt: skip

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang"),
    pytest.mark.skipif(
        np.finfo(np.longdouble).nmant < 63, reason="needs a float of extended precision"
    ),
]


@pytest.fixture(scope="module", params=["-O3 -march=native", "-O2 -ftree-vectorize", "-O1"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The functions over arrays: vectorised with and without fused products, and not vectorised."""
    folder = tmp_path_factory.mktemp("vecmath")
    source = '#include "vecmath.h"\n#include "vecmath_f64.h"\n' + "".join(
        f"void run_{name}(const double *x, double *y, long n)"
        f"{{ for (long i = 0; i < n; i++) y[i] = dj_{name}_f64(x[i]); }}\n"
        for name in (*EXACT, *NEAR)
    )
    (folder / "all.c").write_text(source)
    built = folder / "all.so"
    subprocess.run(
        [COMPILER, "-std=gnu11", *request.param.split(), "-fno-math-errno", "-ffp-contract=off",
         "-fno-trapping-math", "-shared", "-fPIC",
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


def samples() -> np.ndarray:
    """Edges; random bits; moderate numbers; numbers beside 1 and beside quarter turns."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, 300_000, dtype=np.uint64).view(np.float64)
    moderate = random.standard_normal(300_000) * 2.0 ** random.uniform(-8, 10, 300_000)
    beside_one = 1 + random.standard_normal(100_000) * 2.0 ** random.uniform(-50, 0, 100_000)
    turns = np.arange(1, 41722, 7) * (np.pi / 2)
    beside_turns = [np.nextafter(turns, 0), turns, np.nextafter(turns, 1e9), -turns]
    return np.concatenate([SPECIAL, bits, moderate, beside_one, *beside_turns])


@pytest.mark.parametrize("name", (*EXACT, *NEAR))
def test_error_is_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """NaN, infinities and zeros exactly where the exact value has them after rounding."""
    x = samples()
    if name in NEAR:
        x = x[~(np.abs(x) > LARGEST_NEAR) | np.isinf(x)]
    y = run(library, name, x)
    with np.errstate(all="ignore"):
        exact = {**EXACT, **NEAR}[name](x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 53, -1074))
        finite = np.isfinite(rounded) & np.isfinite(y)
        error = np.where(finite, np.abs(y - exact) / ulp, 0.0).astype(float)

    assert np.array_equal(np.isnan(rounded), np.isnan(y))
    infinite = np.isinf(rounded)
    assert np.array_equal(infinite, np.isinf(y))
    assert np.array_equal(rounded[infinite], y[infinite])
    zero = rounded == 0
    assert np.array_equal(np.signbit(rounded[zero]), np.signbit(y[zero]))
    assert error.max() <= 4.0, f"{error.max()} ULP at {x[error.argmax()]!r}"


@pytest.mark.parametrize("name", (*EXACT, *NEAR))
def test_vector_body_and_remainder_agree(library: ctypes.CDLL, name: str) -> None:
    """An element's bits do not depend on where in the loop it is computed."""
    x = np.random.default_rng(0).standard_normal(35)
    whole = run(library, name, x)
    single = np.concatenate([run(library, name, x[i : i + 1].copy()) for i in range(x.size)])

    assert np.array_equal(whole.view(np.uint64), single.view(np.uint64))
