"""The float functions of vecmath.h and vecmath_special.h: at most 4 ULP over all of float, and the
rules of C99 at the edges."""

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


def odd(function: np.ufunc) -> Callable[[np.ndarray], np.ndarray]:
    """A function of SciPy with the sign of a zero; outside [-1, 1] erfinv is not even called."""

    def signed(x: np.ndarray) -> np.ndarray:
        a = np.abs(x)
        inside = a <= 1 if function is special.erfinv else np.full(a.shape, True)
        return np.copysign(function(a, out=np.full_like(a, np.nan), where=inside), x)

    return signed


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
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": odd(special.erfinv),
    "ndtri": special.ndtri,
    "log_ndtr": special.log_ndtr,
    "i0": special.i0,
    "i0e": special.i0e,
    "i1": odd(special.i1),
    "i1e": odd(special.i1e),
    "lgamma": lambda x: special.gammaln(np.where(x == -np.inf, np.inf, x)),
}
PAIRS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "atan2": np.arctan2,
}
"""Functions of two numbers."""

NEAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin_near": np.sin,
    "cos_near": np.cos,
    "tan_near": np.tan,
    "bessel_j0_near": special.j0,
    "bessel_j1_near": special.j1,
}
"""Functions for |x| <= `LARGEST_NEAR`."""

TERM = "softmax_term"

LARGEST_NEAR = 65536.0
STRIDE = 331
"""Every 331st bit pattern: 13 million floats, all exponents, both signs."""

pytestmark = [
    pytest.mark.c_only,
    pytest.mark.one_python,
    pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang"),
]


@pytest.fixture(scope="module", params=["-O3 -march=native", "-O2 -ftree-vectorize", "-O1"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The functions over arrays: vectorised with and without fused products, and not vectorised."""
    folder = tmp_path_factory.mktemp("vecmath")
    headers = ("vecmath.h", "vecmath_f64.h", "vecmath_special.h")
    source = "".join(f'#include "{header}"\n' for header in headers) + "".join(
        f"void run_{name}(const float *x, float *y, long n)"
        f"{{ for (long i = 0; i < n; i++) y[i] = dj_{name}_f32(x[i]); }}\n"
        for name in (*EXACT, *NEAR, TERM)
    )
    source += "".join(
        f"void run_{name}(const float *x, const float *y, float *z, long n)"
        f"{{ for (long i = 0; i < n; i++) z[i] = dj_{name}_f32(x[i], y[i]); }}\n"
        for name in (*PAIRS, "nextafter", "zeta_near")
    )
    source += (
        "void run_pow(const float *x, const float *y, float *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = dj_pow_f32(x[i], y[i]); }\n"
        "void run_pow_near(const float *x, const float *y, float *z, long n)"
        "{ for (long i = 0; i < n; i++) {"
        " float near = dj_pow_near_f32(x[i], y[i]), far = dj_pow_f32(x[i], y[i]);"
        " z[i] = (fabsf(y[i]) <= 6.0f) & !dj_pow_is_far_f32(x[i]) ? near : far; } }\n"
        "void run_whole_pow(const float *x, const float *y, float *z, long n)"
        "{ for (long i = 0; i < n; i++) z[i] = dj_whole_pow_f32(x[i], y[i]); }\n"
        "void run_whole_pow_near(const float *x, const float *y, float *z, long n)"
        "{ for (long i = 0; i < n; i++) {"
        " float near = dj_whole_pow_near_f32(x[i], y[i]), far = dj_whole_pow_f32(x[i], y[i]);"
        " z[i] = (fabsf(y[i]) <= 65536.0f) & !dj_pow_is_far_f32(x[i]) ? near : far; } }\n"
    )
    source += (
        "#include <fenv.h>\n"
        "int underflows(const float *x, float *y, long n)"
        "{ feclearexcept(FE_ALL_EXCEPT); run_exp(x, y, n); return fetestexcept(FE_UNDERFLOW); }\n"
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


def assert_close(x: np.ndarray, y: np.ndarray, exact: np.ndarray) -> None:
    """At most 4 ULP; NaN and infinity exactly where float64 has them after rounding to float."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        ulp = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
        finite = np.isfinite(rounded) & np.isfinite(y)
        error = np.where(finite, np.abs(y - exact) / ulp, 0.0)

    assert np.array_equal(np.isnan(rounded), np.isnan(y))
    infinite = np.isinf(rounded)
    assert np.array_equal(infinite, np.isinf(y))
    assert np.array_equal(rounded[infinite], y[infinite])
    assert error.max() <= 4.0, f"{error.max()} ULP at {x[error.argmax()]!r}"


def sweep() -> np.ndarray:
    """Floats of every exponent and both signs, NaN among them."""
    return np.arange(0, 2**32, STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", EXACT)
def test_error_is_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """Against float64 over a sweep of bit patterns."""
    x = sweep()
    with np.errstate(all="ignore"):
        exact = {**EXACT, **NEAR}[name](x.astype(np.float64))

    assert_close(x, run(library, name, x), exact)


@pytest.mark.parametrize("name", NEAR)
def test_error_of_angles_is_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """For small angles; NaN and infinity give NaN."""
    x = sweep()
    x = x[~(np.abs(x) > LARGEST_NEAR) | np.isinf(x)]
    with np.errstate(all="ignore"):
        exact = NEAR[name](x.astype(np.float64))

    assert_close(x, run(library, name, x), exact)


def test_terms_of_sums_are_powers_or_zero(library: ctypes.CDLL) -> None:
    """exp of what is not positive: at most 4 ULP, or 0 where that is below 2^-126; NaN is NaN."""
    x = sweep()
    x = x[~(x > 0)]
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
    exact[exact < 2.0**-126] = 0
    y = run(library, TERM, x)
    edge = (x < -87.3) & (x > -87.7)  # where a rounded exponent decides

    assert_close(x[~edge], y[~edge], exact[~edge])
    assert (y[edge] < 2.0**-125).all()


@pytest.mark.parametrize("multiple", [1, 2, 3, 4, 11, 1000, 41721])
@pytest.mark.parametrize("name", NEAR)
def test_angles_beside_multiples_of_a_quarter_turn(
    library: ctypes.CDLL, name: str, multiple: int
) -> None:
    """Where nearly all bits of the angle cancel; tangents there are huge, sines tiny."""
    centre = np.float32(multiple * np.pi / 2)
    x = (centre.view(np.uint32) + np.arange(-20, 21)).astype(np.uint32).view(np.float32)
    exact = NEAR[name](x.astype(np.float64))

    assert_close(x, run(library, name, x), exact)
    assert_close(-x, run(library, name, -x), NEAR[name](-x.astype(np.float64)))


@pytest.mark.parametrize("name", ["sin_near", "tan_near"])
def test_angles_keep_signed_zero(library: ctypes.CDLL, name: str) -> None:
    """-0 and subnormals are their own sine and tangent."""
    x = np.array([0.0, -0.0, 1e-45, -1e-45], np.float32)

    assert np.array_equal(x.view(np.uint32), run(library, name, x).view(np.uint32))


@pytest.mark.parametrize("library", ["-O3 -march=native"], indirect=True)
def test_exponentials_that_are_zero_do_not_underflow(library: ctypes.CDLL) -> None:
    """Masked scores; processors take many cycles for a product that is too small for a number.

    With the flags of kernels: without fused products GCC puts the choice behind the product.
    """
    x = np.concatenate(
        [-np.geomspace(104.0001, 3e38, 1024), [-np.inf, -1e9, -np.finfo(np.float32).max]]
    ).astype(np.float32)
    y = np.ones_like(x)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (x, y))

    assert 0 == library.underflows(*pointers, ctypes.c_long(x.size))
    assert not y.view(np.uint32).any()


@pytest.mark.parametrize("edge", [-104.0, -103.2789, -87.33655, 0.0, 88.02969, 88.72284, 89.41599])
def test_exponentials_beside_their_edges(library: ctypes.CDLL, edge: float) -> None:
    """Where results become 0, subnormal or infinite, and the scale its largest."""
    bits = int(np.float32(edge).view(np.uint32)) + np.arange(-200, 201)
    x = bits[bits >= 0].astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64))

    assert_close(x, run(library, "exp", x), exact)


SPECIAL = np.array(
    [0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 7.0, 0.1, 100.0, 127.0, 128.0, 149.0, 150.0, np.inf, np.nan,
     1e-45, 1e-38, 3e38, 1 + 2**-23, 1 - 2**-24, 16777215.0, 16777216.0, 33554432.0, 1e10],
    np.float32,
)  # fmt: skip


def is_whole(y: np.ndarray) -> np.ndarray:
    """Which exponents the functions of whole powers take."""
    return np.isfinite(y) & (np.floor(y) == y)


POWERS = ("pow", "pow_near", "whole_pow", "whole_pow_near")


def power(library: ctypes.CDLL, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dj_<name>_f32 of two arrays; of a near function only where that is right."""
    z = np.empty_like(x)
    pointer = ctypes.c_void_p
    arrays = (pointer(array.ctypes.data) for array in (x, y, z))
    getattr(library, f"run_{name}")(*arrays, ctypes.c_long(x.size))
    return z


@pytest.mark.parametrize("name", POWERS)
def test_power_has_c99_edges(library: ctypes.CDLL, name: str) -> None:
    """Every pair of special numbers with both signs, against NumPy's float64."""
    both = np.concatenate([SPECIAL, -SPECIAL])
    exponents = both if "whole" not in name else both[is_whole(both)]
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(both, exponents))
    z = power(library, name, x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))

    assert_close(x, z, exact)
    zero = np.abs(exact) < 2.0**-150
    assert np.array_equal(np.signbit(exact[zero]), np.signbit(z[zero]))


@pytest.mark.parametrize("name", POWERS)
def test_power_has_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """Random bases of every exponent and random powers."""
    random = np.random.default_rng(0)
    count = 1 << 20
    x = random.integers(0, 0x7F800000, count, dtype=np.uint32).view(np.float32)
    x[::2] = np.exp(random.uniform(-3, 3, count // 2))
    y = (random.uniform(-1, 1, count) * 2.0 ** random.uniform(-10, 9, count)).astype(np.float32)
    if "whole" in name:
        y = np.rint(y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))

    assert_close(x, power(library, name, x, y), exact)


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


@pytest.mark.parametrize("name", (*EXACT, *NEAR))
def test_vector_body_and_remainder_agree(library: ctypes.CDLL, name: str) -> None:
    """An element's bits do not depend on where in the loop it is computed."""
    x = np.random.default_rng(0).standard_normal(67).astype(np.float32)
    whole = run(library, name, x)
    single = np.concatenate([run(library, name, x[i : i + 1].copy()) for i in range(x.size)])

    assert np.array_equal(whole.view(np.uint32), single.view(np.uint32))


def power_and_direction(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special numbers with both signs, and pairs of every size and direction."""
    random = np.random.default_rng(seed)
    both = np.concatenate([SPECIAL, -SPECIAL])
    edges = np.array(np.meshgrid(both, both)).reshape(2, -1)
    bits = random.integers(0, 2**32, (2, 1 << 20), dtype=np.uint32).view(np.float32)
    near = random.standard_normal((2, 1 << 20)) * 2.0 ** random.uniform(-12, 12, 1 << 20)
    parts = np.concatenate([edges, bits, near.astype(np.float32)], axis=1)
    x, y = np.where(np.isnan(parts), np.float32(np.nan), parts)  # which do not signal
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_pairs_have_at_most_4_ulp(library: ctypes.CDLL, name: str) -> None:
    """With the signs of C99 for zeros."""
    x, y = power_and_direction(0)
    z = power(library, name, x, y)
    exact = PAIRS[name](x.astype(np.float64), y.astype(np.float64))

    assert_close(x, z, exact)
    zero = np.abs(exact) < 2.0**-150
    assert np.array_equal(np.signbit(exact[zero]), np.signbit(z[zero]))


def test_next_numbers_are_those_of_numpy(library: ctypes.CDLL) -> None:
    x, y = power_and_direction(1)
    close = np.nextafter(x, np.float32(0))
    for other in (y, x, close, np.zeros_like(x)):
        expected = np.nextafter(x, other)
        z = power(library, "nextafter", x, other)

        assert np.array_equal(np.isnan(expected), np.isnan(z))
        same = expected.view(np.uint32) == z.view(np.uint32)
        assert (same | np.isnan(expected)).all()


def test_zeta_has_at_most_4_ulp(library: ctypes.CDLL) -> None:
    """Exponents beside 1 and large ones, from every start; infinite at 1, NaN below."""
    random = np.random.default_rng(2)
    count = 100_000
    x = np.concatenate([1 + np.exp(random.uniform(-16, 8, count)), random.uniform(1, 40, count)])
    q = np.exp(np.concatenate([random.uniform(-20, 20, count), random.uniform(-3, 4, count)]))
    x, q = (
        np.concatenate([part, edges]).astype(np.float32)
        for part, edges in (
            (x, [1.0, 0.5, -3.0, 1.0, 1e29, 50, 3]),
            (q, [2, 2, 2, 1e30, 1, 1e37, 1e-40]),
        )
    )
    z = power(library, "zeta_near", x, q)
    with np.errstate(all="ignore"):
        exact = special.zeta(x.astype(np.float64), q.astype(np.float64))

    assert_close(x, z, exact)


def beside(*centres: float) -> np.ndarray:
    """The 4000 floats on either side of each number."""
    bits = np.array(centres, np.float32).view(np.int32)
    return (bits[:, None] + np.arange(-4000, 4001, dtype=np.int32)).ravel().view(np.float32)


@pytest.mark.parametrize(
    ("name", "zeros"),
    [
        ("lgamma", (1.0, 2.0, -2.457024738, -2.747682647, -3.143580888, -4.039361839, -5.991679)),
        ("ndtri", (0.5,)),
        ("erfinv", (1.0, -1.0)),
        ("erfc", (10.054, 9.194, -0.0)),
        ("i1e", (7.75, -7.75)),
        ("i0", (7.75, 91.906, 88.72)),
        ("bessel_j0_near", (2.4048256, 5.5200781, 8.6537279, 11.7915344, 8.0)),
        ("bessel_j1_near", (3.8317060, 7.0155867, 10.1734681, 13.3236919, 8.0)),
    ],
)
def test_functions_are_exact_beside_zeros_and_seams(
    library: ctypes.CDLL, name: str, zeros: tuple[float, ...]
) -> None:
    """Relative to their values there, which float64 has to 8 digits; lgamma by `math`."""
    x = beside(*zeros)
    with np.errstate(all="ignore"):
        exact = {**EXACT, **NEAR}[name](x.astype(np.float64))

    assert_close(x, run(library, name, x), exact)
