"""Linear algebra of complex matrices, and eigenvalues of general ones, agree with PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.autograd import gradcheck, gradgradcheck

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(11)


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


A, B, TALL, SIDES = drawn(2, 4, 4), drawn(2, 4, 3), drawn(5, 3), drawn(5, 2)
REAL = RNG.standard_normal((3, 4, 4))


def definite(t: Any, x: Any) -> Any:
    return x @ x.mH + 0.5 * t.eye(4, dtype=x.dtype)


def eigenvalues(t: Any, x: Any) -> Any:
    """What does not depend on their order."""
    values = t.linalg.eigvals(x)
    return (values.real.sum(-1), (values**2).sum(-1), values.exp().sum(-1))


def eigenvectors(t: Any, x: Any) -> Any:
    """What depends neither on their order nor on their phase."""
    values, vectors = t.linalg.eig(x)
    return (vectors.abs() ** 3 * values.abs().unsqueeze(-2)).sum((-1, -2))


def singular_vectors(t: Any, x: Any) -> Any:
    """What does not depend on their phase."""
    u, s, vh = t.linalg.svd(x, full_matrices=False)
    return (u.abs() ** 3).sum() + (vh.abs() ** 3).sum() + ((u * s.sqrt()) @ vh).real.sin().sum()


def older_svd(t: Any, x: Any) -> Any:
    u, s, v = t.svd(x)
    return (u * s) @ v.mH + s.sum()


CASES: dict[str, tuple[Any, ...]] = {
    "inv": (lambda t, a: t.linalg.inv(a), A),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), A, B),
    "solve from the right": (lambda t, a, b: t.linalg.solve(a, b.mT, left=False) + 0, A, B),
    "solve_triangular": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), A, B),
    "cholesky": (lambda t, a: t.linalg.cholesky(definite(t, a)), A),
    "slogdet": (lambda t, a: [t.linalg.slogdet(a).sign, t.linalg.slogdet(a).logabsdet], A),
    "logdet": (lambda t, a: t.logdet(a), A),
    "lu": (lambda t, a: t.linalg.lu(a)[1:], A),
    "lu of tall ones": (lambda t, a: t.linalg.lu_factor(a).LU, TALL),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), A, B),
    "lu_solve, adjoint": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
        A,
        B,
    ),
    "lu_solve from the right": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False) + 0,
        A,
        B,
    ),
    "upper cholesky": (lambda t, a: t.linalg.cholesky(definite(t, a), upper=True), A),
    "cholesky_solve": (
        lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(definite(t, a))), A, B),
    "upper cholesky_solve": (
        lambda t, a, b: t.cholesky_solve(
            b, t.linalg.cholesky(definite(t, a), upper=True), upper=True), A, B),
    "cholesky_inverse": (lambda t, a: t.cholesky_inverse(t.linalg.cholesky(definite(t, a))), A),
    "det": (lambda t, a: t.linalg.det(a), A),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a), A),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, -2), A),
    "pinv": (lambda t, a: t.linalg.pinv(a), TALL),
    "wide pinv": (lambda t, a: t.linalg.pinv(a.mT), TALL),
    "qr": (lambda t, a: t.linalg.qr(a), A),
    "tall qr": (lambda t, a: t.linalg.qr(a), TALL),
    "wide qr": (lambda t, a: t.linalg.qr(a.mT), TALL),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b).solution, TALL, SIDES),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a[0].reshape(4, 2, 2), ind=1), A),
    "svdvals": (lambda t, a, x: (t.linalg.svdvals(a), t.linalg.svdvals(x)), A, TALL),
    "svd": (singular_vectors, A[0]),
    "tall svd": (singular_vectors, TALL),
    "wide svd": (lambda t, a: singular_vectors(t, a.mT), TALL),
    "older svd": (older_svd, TALL),
    "nuclear norm": (lambda t, a: t.linalg.matrix_norm(a, "nuc"), A),
    "spectral norm": (lambda t, a: t.linalg.matrix_norm(a, 2), A),
    "cond": (lambda t, a: t.linalg.cond(a), A),
    "eigenvalues of real matrices": (eigenvalues, REAL),
    "eigenvalues of complex matrices": (eigenvalues, A),
    "eigenvectors of real matrices": (eigenvectors, REAL),
    "eigenvectors of complex matrices": (eigenvectors, A),
}  # fmt: skip


def outcome(t: Any, function: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Results, and gradients of real and imaginary parts and of sizes."""
    given = [t.tensor(array, requires_grad=True) for array in arrays]
    results = function(t, *given)
    results = results if isinstance(results, (tuple, list)) else (results,)
    loss = sum((r * (1 + 0.3j)).real.sum() + (r.abs() ** 1.5).sum() for r in results)
    loss.backward()
    return [r.detach().numpy() for r in results] + [x.grad.numpy() for x in given]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_pytorch(name: str) -> None:
    function, *arrays = CASES[name]
    expected, found = (outcome(t, function, arrays) for t in (torch, dj))
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["inv", "solve", "svdvals", "eigenvalues of real matrices"])
def test_32_bits_keep_their_dtype(name: str) -> None:
    function, *arrays = CASES[name]
    short = [a.astype(np.float32 if a.dtype == float else np.complex64) for a in arrays]
    expected, found = (outcome(t, function, short) for t in (torch, dj))
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other, one, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
@pytest.mark.parametrize("name", ["inv", "svd", "qr", "eigenvectors of real matrices"])
def test_compiled_functions_give_the_same(name: str) -> None:
    function, *arrays = CASES[name]
    compiled = dj.compile(lambda *given: function(dj, *given), fullgraph=True)
    expected = outcome(dj, function, arrays)
    found = outcome(dj, lambda t, *given: compiled(*given), arrays)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["inv", "det", "eigenvalues of complex matrices", "svdvals"])
def test_derivatives_equal_finite_differences(name: str) -> None:
    function, first, *rest = CASES[name]
    x = dj.tensor(first[0] * 0.7, requires_grad=True)
    others = [dj.tensor(array) for array in rest]
    assert gradcheck(lambda x: function(dj, x, *others), (x,))
    assert gradgradcheck(lambda x: function(dj, x, *others), (x,))


def test_eigenvectors_make_their_matrix_diagonal() -> None:
    for array in (REAL, A, A.astype(np.complex64), np.zeros((2, 0, 0)), np.eye(3)):
        x = dj.tensor(array)
        values, vectors = dj.linalg.eig(x)
        assert values.dtype is vectors.dtype
        assert values.dtype.is_complex
        again = vectors * values.unsqueeze(-2)
        np.testing.assert_allclose((x.to(values.dtype) @ vectors).numpy(), again.numpy(), atol=1e-5)


def test_whole_factors_of_complex_matrices_are_unitary() -> None:
    u, s, vh = dj.linalg.svd(dj.tensor(TALL))
    assert s.dtype is dj.float64
    np.testing.assert_allclose((u.mH @ u).numpy(), np.eye(5), atol=1e-12)
    again = (u[:, :3] * s) @ vh
    np.testing.assert_allclose(again.numpy(), TALL, atol=1e-12)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_of_complex_matrices_agree_with_pytorch(driver: str) -> None:
    expected, found = (t.linalg.lstsq(t.tensor(TALL), t.tensor(SIDES), driver=driver)
                       for t in (torch, dj))  # fmt: skip
    for one, other in zip(expected, found, strict=True):
        assert str(one.dtype).rpartition(".")[2] == other.dtype.name
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-9)


def _of_singular_values(x: Any) -> Any:
    """What does not depend on the phases of the vectors, which are turned in pairs."""
    u, s, vh = dj.linalg.svd(x, full_matrices=False)
    product = u @ dj.diag_embed(s.to(u.dtype) ** 2) @ vh
    return u.abs() ** 3, s, vh.abs() ** 2, product


def _of_eigenvalues(x: Any) -> Any:
    values, vectors = dj.linalg.eigh(x + x.mH)
    product = vectors @ dj.diag_embed(values.to(vectors.dtype) ** 2) @ vectors.mH
    return values, vectors.abs() ** 3, product


@pytest.mark.parametrize("function", [_of_singular_values, _of_eigenvalues])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_factors_have_right_second_derivatives_in_both_modes(function: Any, kind: str) -> None:
    """Real values within complex factors have real gradients."""
    given = drawn(3, 3)
    x = dj.from_numpy(given if kind == "complex" else given.real.copy()).requires_grad_()
    assert gradcheck(function, x, check_forward_ad=True)
    assert gradgradcheck(function, x, check_fwd_over_rev=True)
