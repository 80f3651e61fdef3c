"""Special functions, functions on single numbers and windows agree with PyTorch."""

import math

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DynajitError
from tests.support.rows.compare import agree

torch = pytest.importorskip("torch")
scipy_special = pytest.importorskip("scipy.special")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 4)) * 2
Y = RNG.standard_normal((3, 4)) * 2
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, math.inf, -math.inf, math.nan])
P = RNG.uniform(0.05, 0.95, (3, 4))

UNARY = {
    "digamma": X, "gammaln": np.abs(X) + 0.1, "psi": X, "erfinv": P * 2 - 1, "expit": X,
    "i0": X, "i0e": X, "i1": X, "i1e": X, "entr": P, "ndtr": X, "ndtri": P, "log_ndtr": X,
    "erfcx": X, "sinc": X, "exp2": X, "expm1": X, "log1p": P, "logit": P, "erf": X,
    "erfc": X, "round": X,
}  # fmt: skip


def special(t, name):
    return getattr(torch.special if hasattr(t, "_C") else dj.special, name)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    agree(lambda t, x: special(t, name)(x), UNARY[name], tolerance=1e-10)
    single = UNARY[name].astype(np.float32)
    agree(lambda t, x: special(t, name)(x), single, tolerance=5e-5, gradients=False)


@pytest.mark.parametrize("name", ["sinc", "i1e"])
def test_slopes_at_the_smallest_numbers(name: str) -> None:
    tiny = np.array([1e-40, -1e-40, 1e-44, 0.0], np.float32)
    agree(lambda t, x: special(t, name)(x), tiny)


def test_sinc_of_16_bits_rounds_once() -> None:
    x = np.array([1.0, -1.0, 2.0, 3.0, 0.5], np.float16)
    agree(lambda t, x: special(t, "sinc")(x), x, tolerance=1e-6, gradients=False)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_polygamma_on_both_sides_of_zero(n: int) -> None:
    """SciPy is the referee: PyTorch's trigamma has ten digits."""
    points = np.array([-5.3, -0.7, -0.2, 0.1, 0.49, 0.5, 1.0, 3.7, 12.0, 150.0])
    x = dj.tensor(points, requires_grad=True)
    result = dj.polygamma(n, x)
    result.sum().backward()

    expected = scipy_special.polygamma(n, points[3:])
    np.testing.assert_allclose(result.detach().numpy()[3:], expected, rtol=1e-13)
    slopes = scipy_special.polygamma(n + 1, points[3:])
    np.testing.assert_allclose(x.grad.numpy()[3:], slopes, rtol=1e-13)
    step = 1e-6
    ends = [dj.polygamma(n, dj.tensor(points[:3] + s)).numpy() for s in (step, -step)]
    np.testing.assert_allclose(x.grad.numpy()[:3], (ends[0] - ends[1]) / (2 * step), rtol=1e-6)
    if n < 2:
        below = torch.polygamma(n, torch.tensor(points[:3])).numpy()
        np.testing.assert_allclose(result.detach().numpy()[:3], below, rtol=1e-8)


def test_functions_of_two_numbers() -> None:
    a, b = np.abs(X) + 0.2, np.abs(Y) + 0.2
    agree(lambda t, x, y: t.igamma(x.detach(), y), a, b, tolerance=1e-10)
    agree(lambda t, x, y: special(t, "gammaincc")(x.detach(), y), a, b, tolerance=1e-10)
    agree(lambda t, x, y: special(t, "zeta")(x.detach() + 1, y), a, b, tolerance=1e-10)
    agree(lambda t, x, y: special(t, "zeta")(2.0, y), a, b, tolerance=1e-10)
    agree(lambda t, x, y: (t.xlogy(x, y), special(t, "xlog1py")(x, y)), a, b)
    agree(lambda t, x: t.xlogy(x, 2.0) + special(t, "xlog1py")(3.0, x), a)
    agree(lambda t, x: special(t, "multigammaln")(x + 2, 3), a)


def test_nothing_times_a_logarithm_is_nothing() -> None:
    zeros, logs = np.zeros(4), np.array([0.0, 1.0, math.inf, math.nan])
    agree(lambda t, x, y: t.xlogy(x, y), zeros, logs, gradients=False)
    for name in ("xlogy", "xlog1py"):
        agree(
            lambda t, x, y, name=name: special(t, name)(x, y), zeros[:3], np.array([0.8, 1.0, 3.0])
        )
    agree(lambda t, x: special(t, "entr")(x), EDGES, gradients=False)


@pytest.mark.parametrize(
    "name",
    ["signbit", "sgn", "positive", "isposinf", "isneginf", "isreal", "deg2rad", "rad2deg", "sinc"],
)
def test_signs_and_angles(name: str) -> None:
    agree(lambda t, x: getattr(t, name)(x), X, gradients=name != "sgn")
    agree(lambda t, x: getattr(t, name)(x), EDGES, gradients=False)
    agree(lambda t, x: getattr(x, name)(), np.array([-2, 0, 3]), gradients=False)


@pytest.mark.parametrize("name", ["copysign", "fmax", "fmin", "hypot", "logaddexp2", "heaviside"])
def test_pairs_of_numbers(name: str) -> None:
    def run(t, x, y):
        return getattr(t, name)(x, y.detach() if name in ("copysign", "heaviside") else y)

    gradients = name != "heaviside"
    agree(run, X, Y, gradients=gradients)
    left, right = (part.reshape(-1) for part in np.meshgrid(EDGES, EDGES))
    agree(run, left, right, gradients=False)
    agree(run, X.astype(np.float16), Y.astype(np.float16), gradients=False)


def test_copysign_takes_numbers_and_integers() -> None:
    agree(lambda t, x: t.copysign(x, -2), X)
    agree(lambda t, x: t.copysign(x, -x), np.array([1, -2, 3]), gradients=False)


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
def test_divisors_and_neighbours() -> None:
    a, b = RNG.integers(-30, 30, (4, 5)), RNG.integers(-30, 30, 5)
    agree(lambda t, x, y: (t.gcd(x, y), x.lcm(y), t.gcd(x, x * 0)), a, b)
    agree(lambda t, x, y: t.nextafter(x, y), X, Y)
    single = X.astype(np.float32)
    agree(lambda t, x: x.nextafter(x * 0), single, gradients=False)
    compiled = dj.compile(lambda x, y: dj.gcd(x, y) + 1, fullgraph=True)
    assert (np.gcd(a, b) + 1).tolist() == compiled(dj.tensor(a), dj.tensor(b)).tolist()


def test_floats_come_apart_and_together() -> None:
    for array in (X, np.array([0.0, -0.0, 0.5, 1.0, 1e300, 5e-324, -3.0])):
        agree(lambda t, x: t.frexp(x), array, gradients=False)
    agree(lambda t, x: t.frexp(x).mantissa, X)
    agree(lambda t, x: t.ldexp(x, t.tensor([1, -2, 3, 0])), X, gradients=False)


@pytest.mark.parametrize(
    "name", ["hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"]
)
@pytest.mark.parametrize("length", [0, 1, 2, 9, 16])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name: str, length: int, periodic: bool) -> None:
    agree(lambda t: getattr(t, name)(length, periodic, dtype=t.float64), tolerance=1e-10)
    agree(lambda t: getattr(t, name)(length, periodic), tolerance=1e-6)


def test_windows_take_their_parameters() -> None:
    agree(lambda t: t.hamming_window(7, True, 0.6, 0.4), tolerance=1e-6)
    agree(lambda t: t.kaiser_window(7, False, beta=5.0), tolerance=1e-6)


def test_in_place_forms_write() -> None:
    def run(t, x, y):
        z = x.clone()
        z.copysign_(y).sinc_().mul_(0.3).erfinv_()
        return z.xlogy_(y.abs() + 1).deg2rad_()

    agree(run, X / 10, Y, gradients=False)


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
def test_compiled_functions_give_the_same() -> None:
    def fused(x, y):
        return (
            dj.digamma(x), dj.lgamma(y), dj.hypot(x, y), dj.xlogy(x * x, y * y), dj.sinc(x),
            dj.copysign(x, y), dj.special.ndtr(x), dj.hann_window(4) * x, dj.fmax(x, y),
        )  # fmt: skip

    def called(x, y):
        return dj.special.i0(x) + dj.erfinv(y.sigmoid()), x.signbit()

    operands = dj.tensor(X), dj.tensor(Y)
    for run in (fused, called):
        for left, right in zip(run(*operands), dj.compile(run, fullgraph=True)(*operands),
                               strict=True):  # fmt: skip
            np.testing.assert_allclose(right.numpy(), left.numpy(), rtol=1e-11)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.polygamma(-1, x),
        lambda t, x: t.heaviside(x, x.float()),
        lambda t, x: t.gcd(x, x),
        lambda t, x: t.frexp(x.long()),
        lambda t, x: t.positive(x > 0),
        lambda t, x: t.hann_window(-1),
        lambda t, x: t.hann_window(3, dtype=t.int64),
        lambda t, x: t.mvlgamma(x, 0),
        lambda t, x: t.nextafter(x.long(), x.long()),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(X))
    with pytest.raises(DynajitError):
        call(dj, dj.tensor(X))
