"""The double functions of vecmath_f64*.h: at most 4 ULP, C99 rules at the edges.

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
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
NEAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin_near": np.sin,
    "cos_near": np.cos,
    "tan_near": np.tan,
}
"""Functions for |x| <= `LARGEST_NEAR`."""

BY_C = {"erf": "erfl", "lgamma_near": "lgammal"}
"""Functions that NumPy lacks: those of the C library for long double are the oracle."""

LARGEST_NEAR = 65536.0
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2250738585072014e-308,
     1.7e308, -1.7e308, 709.782712893384, 709.7827128933841, -745.13, -745.14, -708.0, -707.5,
     1023.999, 1024.0, -1074.0, -1075.0, -1076.5, 710.4758600739439, 710.475860073944],
)  # fmt: skip

pytestmark = [
    pytest.mark.c_only,
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
    headers = (
        "vecmath.h", "vecmath_f64.h", "vecmath_f64_inverse.h", "vecmath_f64_power.h",
        "vecmath_special.h",
    )  # fmt: skip
    source = "".join(f'#include "{header}"\n' for header in headers)
    source += "".join(
        f"void run_{name}(const double *x, double *y, long n)"
        f"{{ for (long i = 0; i < n; i++) y[i] = dj_{name}_f64(x[i]); }}\n"
        for name in (*EXACT, *NEAR, *BY_C, "erfinv")
    )
    source += "".join(
        f"void exact_{name}(const double *x, long double *y, long n)"
        f"{{ for (long i = 0; i < n; i++) y[i] = {exact}(x[i]); }}\n"
        for name, exact in BY_C.items()
    )
    source += (
        "void run_pow(const double *x, const double *y, double *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = dj_pow_f64(x[i], y[i]); }\n"
        "void run_pow_near(const double *x, const double *y, double *z, long n)"
        "{ for (long i = 0; i < n; i++) {"
        " double near = dj_pow_near_f64(x[i], y[i]), far = dj_pow_f64(x[i], y[i]);"
        " z[i] = dj_pow_is_far_f64(x[i], y[i]) ? far : near; } }\n"
        "void exact_pow(const double *x, const double *y, long double *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = powl(x[i], y[i]); }\n"
    )
    source += (
        "void exact_erfc(const double *x, long double *y, long n)"
        "{ for (long i = 0; i < n; i++) y[i] = erfcl(x[i]); }\n"
        "void run_nextafter(const double *x, const double *y, double *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = dj_nextafter_f64(x[i], y[i]); }\n"
    )
    source += (
        "void run_atan2(const double *y, const double *x, double *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = dj_atan2_f64(y[i], x[i]); }\n"
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


@pytest.mark.parametrize("name", (*EXACT, *NEAR, *BY_C))
def test_error_is_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """NaN, infinities and zeros exactly where the exact value has them after rounding."""
    x = samples()
    if name in NEAR:
        x = x[~(np.abs(x) > LARGEST_NEAR) | np.isinf(x)]
    if name == "lgamma_near":
        x = beside_its_zeros(x[(x >= 2.2250738585072014e-308) & (x < np.inf)])
    y = run(library, name, x)
    with np.errstate(all="ignore"):
        if name in BY_C:
            exact = exact_by_c(library, name, x)
        else:
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


def beside_its_zeros(x: np.ndarray) -> np.ndarray:
    """More operands of lgamma: beside 1 and 2, and from 1 / 2 to where Stirling's series begins."""
    random = np.random.default_rng(1)
    less = random.uniform(-1, 1, 100_000) * 2.0 ** random.uniform(-52, -1, 100_000)
    return np.concatenate([x, 1 + less, 2 + less, random.uniform(0.4, 8.5, 300_000)])


def exact_by_c(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    """The C library's function for long double."""
    y = np.empty(x.shape, np.longdouble)
    getattr(library, "exact_" + name)(
        ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(x.size)
    )
    return y


@pytest.mark.parametrize("form", ["pow", "pow_near"])
def test_powers_are_within_4_ulp(library: ctypes.CDLL, form: str) -> None:
    """All pairs of edges with their C99 results; any bits; large exponents of what is near 1."""
    rng = np.random.default_rng(0)
    edges = np.array([*SPECIAL, 2, -2, 3, -3, 0.5, -0.5, 1.5, 2.0**53 + 2, 2.0**52 + 1, 1 + 2e-16])
    bits = rng.integers(0, 2**64, (2, 100_000), dtype=np.uint64).view(np.float64)
    by_one = 1 + rng.uniform(-1, 1, 100_000) * 2.0 ** rng.integers(-50, 0, 100_000)
    large = rng.uniform(-1, 1, 100_000) * 2.0 ** rng.integers(0, 60, 100_000)
    wide = np.array([2.0 ** rng.uniform(-3, 3, 200_000), rng.uniform(-700, 700, 200_000)])
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    parts = np.concatenate([pairs, bits, [by_one, large], wide], axis=1)
    x, y = (np.ascontiguousarray(part) for part in parts)
    z, exact = np.empty_like(x), np.empty(x.shape, np.longdouble)
    for function, result in ((library[f"run_{form}"], z), (library.exact_pow, exact)):
        pointers = [ctypes.c_void_p(part.ctypes.data) for part in (x, y, result)]
        function(*pointers, ctypes.c_long(x.size))
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float64)
        ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 53, -1074))
        error = np.where(np.isfinite(rounded), np.abs(z - exact) / ulp, 0).astype(float)

    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(rounded[special], z[special])
    zero = rounded == 0
    np.testing.assert_array_equal(np.signbit(rounded[zero]), np.signbit(z[zero]))
    assert error.max() <= 4.0, (error.max(), x[error.argmax()], y[error.argmax()])


def test_powers_of_ordinary_operands_have_the_same_bits(library: ctypes.CDLL) -> None:
    """Those for which loops have a shorter form; at its ends, too."""
    rng = np.random.default_rng(1)
    ends = 2.0 ** np.array([-61.0, -60, -59.99, 59.99, 60, 60.01])
    edges = np.array([*SPECIAL, *ends, 2, 0.5, 16.0, -16.0, 16.1, 2.2, -1.5, 1 / 3])
    random = [2.0 ** rng.uniform(-65, 65, 300_000), rng.uniform(-17, 17, 300_000)]
    beside_one = [1 + rng.standard_normal(100_000) * 1e-6, rng.uniform(-6, 6, 100_000)]
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    parts = np.concatenate([pairs, random, beside_one], axis=1)
    x, y = (np.ascontiguousarray(part) for part in parts)
    results = np.empty_like(x), np.empty_like(x)
    for function, result in zip((library.run_pow, library.run_pow_near), results, strict=True):
        pointers = [ctypes.c_void_p(part.ctypes.data) for part in (x, y, result)]
        function(*pointers, ctypes.c_long(x.size))
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(*map(np.signbit, results))


def test_angles_of_points_are_within_4_ulp(library: ctypes.CDLL) -> None:
    """All pairs of edges with their C99 results, and points of every size and direction."""
    rng = np.random.default_rng(0)
    edges = np.array([*SPECIAL, 1e300, 1e-300, 2.5, 0.4])
    bits = rng.integers(0, 2**64, (2, 200_000), dtype=np.uint64).view(np.float64)
    near = rng.standard_normal((2, 200_000)) * 2.0 ** rng.uniform(-20, 20, 200_000)
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    y, x = (np.ascontiguousarray(part) for part in np.concatenate([pairs, bits, near], axis=1))
    z = np.empty_like(y)
    pointers = [ctypes.c_void_p(part.ctypes.data) for part in (y, x, z)]
    library.run_atan2(*pointers, ctypes.c_long(y.size))
    with np.errstate(all="ignore"):
        exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 53, -1074))
        error = np.where(np.isnan(rounded), 0, np.abs(z - exact) / ulp).astype(float)

    np.testing.assert_array_equal(np.isnan(rounded), np.isnan(z))
    np.testing.assert_array_equal(np.signbit(rounded)[z == z], np.signbit(z)[z == z])
    assert error.max() <= 4.0, (error.max(), y[error.argmax()], x[error.argmax()])


@pytest.mark.parametrize("name", (*EXACT, *NEAR, *BY_C, "erfinv"))
def test_vector_body_and_remainder_agree(library: ctypes.CDLL, name: str) -> None:
    """An element's bits do not depend on where in the loop it is computed."""
    x = np.random.default_rng(0).standard_normal(35)
    whole = run(library, name, x)
    single = np.concatenate([run(library, name, x[i : i + 1].copy()) for i in range(x.size)])

    assert np.array_equal(whole.view(np.uint64), single.view(np.uint64))


def test_erfinv_is_within_4_ulp(library: ctypes.CDLL) -> None:
    """Against one step of Newton's method in extended precision from SciPy's value.

    erf below 0.9, and 1 - erf beyond, of the C library for long double are the oracle.
    """
    special = pytest.importorskip("scipy.special")
    random = np.random.default_rng(3)
    parts = (
        random.uniform(0, 1, 100_000), -np.exp(random.uniform(-700, 0, 50_000)),
        1 - np.exp(random.uniform(-36.7, -1, 100_000)), [1 - 2.0**-53, 5e-324, 1e-12, 1.001e-12],
    )  # fmt: skip
    x = np.concatenate(parts)
    start = special.erfinv(x)
    values, complements = (np.empty(x.shape, np.longdouble) for _ in range(2))
    size = np.abs(start)
    for function, result in ((library.exact_erf, values), (library.exact_erfc, complements)):
        pointers = [ctypes.c_void_p(part.ctypes.data) for part in (size, result)]
        function(*pointers, ctypes.c_long(x.size))
    a, wide = np.abs(x).astype(np.longdouble), size.astype(np.longdouble)
    missing = np.where(a < 0.9, a - values, complements - (1 - a))
    exact = np.copysign(wide + missing * np.sqrt(np.pi) / 2 * np.exp(wide * wide), x)
    ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 53, -1074))
    error = (np.abs(run(library, "erfinv", x) - exact) / ulp).astype(float)

    assert error.max() <= 4.0, (error.max(), x[error.argmax()])


def test_erfinv_has_its_edges(library: ctypes.CDLL) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 1.5, -np.inf, np.nan])
    y = run(library, "erfinv", x)

    np.testing.assert_array_equal(y, [0, 0, np.inf, -np.inf, np.nan, np.nan, np.nan])
    assert [False, True] == np.signbit(y[:2]).tolist()


def test_next_numbers_are_those_of_numpy(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(4)
    edges = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    bits = random.integers(0, 2**64, (2, 100_000), dtype=np.uint64).view(np.float64)
    parts = np.concatenate([edges, bits], axis=1)
    x, y = np.where(np.isnan(parts), np.nan, parts)  # which do not signal
    z, expected = np.empty_like(x), np.nextafter(x, y)
    pointers = (ctypes.c_void_p(part.ctypes.data) for part in (x, y, z))
    library.run_nextafter(*pointers, ctypes.c_long(x.size))

    np.testing.assert_array_equal(z, expected)
    is_number = ~np.isnan(expected)
    assert np.array_equal(z.view(np.uint64)[is_number], expected.view(np.uint64)[is_number])
