"""`dynajit.linalg` agrees with PyTorch, batched; derivatives are those of finite differences."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.autograd import gradcheck, gradgradcheck
from dynajit.core.errors import DynajitError
from tests.support.rows.compare import agree

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(6)
A = RNG.standard_normal((2, 4, 4))
B = RNG.standard_normal((2, 4, 3))
TALL, WIDE = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 5))
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def lin(t):
    return torch.linalg if hasattr(t, "AliasDb") else dj.linalg


def definite(x):
    return x @ x.mT + x.mT @ x


CASES = {
    "inv": (lambda t, a: (lin(t).inv(a), t.inverse(a[0]), a.inverse()), A),
    "solve": (lambda t, a, b: (lin(t).solve(a, b), lin(t).solve(a[0], b)), A, B),
    "solve_vector": (lambda t, a, b: (lin(t).solve(a, b[..., 0]), lin(t).solve(a[0], b[0, :, 1])),
                     A, B),
    "solve_right": (lambda t, a, b: lin(t).solve(a, b.mT, left=False), A, B),
    "solve_triangular": (lambda t, a, b: [
        lin(t).solve_triangular(a, b, upper=u, unitriangular=n) for u in (True, False)
        for n in (True, False)], A, B),
    "solve_triangular_right": (
        lambda t, a, b: lin(t).solve_triangular(a, b.mT, upper=True, left=False), A, B),
    "cholesky": (lambda t, a: (lin(t).cholesky(definite(a)), t.cholesky(definite(a), True)), A),
    "cholesky_solve": (lambda t, a, b: (
        b.cholesky_solve(lin(t).cholesky(definite(a))),
        t.cholesky_inverse(lin(t).cholesky(definite(a[0])))), A, B),
    "det": (lambda t, a: (lin(t).det(a), a[0].det(), t.logdet(definite(a))), A),
    "slogdet": (lambda t, a: (lin(t).slogdet(a), a.slogdet()), A),
    "pinv": (lambda t, x, y: (lin(t).pinv(x), t.pinverse(y)), TALL, WIDE),
    "eigvalsh": (lambda t, a: (lin(t).eigvalsh(a + a.mT), lin(t).eigh(a + a.mT, "U")[0]), A),
    "eigenvectors": (lambda t, a: lin(t).eigh(a + a.mT)[1].abs(), A),
    "svdvals": (lambda t, x, y, a: [lin(t).svdvals(z) for z in (x, y, a)], TALL, WIDE, A),
    "svd": (lambda t, x, y: [
        f.abs() for z in (x, y) for f in lin(t).svd(z, full_matrices=False)], TALL, WIDE),
    "older_svd": (lambda t, x: [f.abs() for f in t.svd(x)], TALL),
    "qr": (lambda t, x, y, a: [f.abs() for z in (x, y, a) for f in lin(t).qr(z)], TALL, WIDE, A),
    "matrix_exp": (lambda t, a: (lin(t).matrix_exp(a), t.matrix_exp(a[0])), A),
    "matrix_power": (lambda t, a: [lin(t).matrix_power(a, n) for n in (-2, 0, 1, 2, 5)], A),
    "matrix_norm": (lambda t, a: [lin(t).matrix_norm(a, o) for o in ORDERS], A),
    "matrix_norm_dims": (lambda t, a: [
        lin(t).matrix_norm(a, o, dim=(0, 2), keepdim=True) for o in ("fro", "nuc", 1, math.inf)],
        A),
    "vector_norm": (lambda t, a: [
        lin(t).vector_norm(a, o, dim=(0, 1)) for o in (0, 1, 2, 3.5, math.inf, -math.inf)], A),
    "norm": (lambda t, a: (lin(t).norm(a), lin(t).norm(a, dim=1), lin(t).norm(a[0], 1),
                           lin(t).norm(a, "fro", dim=(1, 2)), lin(t).norm(a, 3, 0, True)), A),
    "cond": (lambda t, a: [lin(t).cond(a, p) for p in (None, 2, -2, "fro", 1, math.inf)], A),
    "vecdot": (lambda t, a: (lin(t).vecdot(a, a[0]), lin(t).vecdot(a, a, dim=0)), A),
    "cross": (lambda t, x: (lin(t).cross(x, x.flip(0)), t.cross(x, x * 2 + 1, dim=1)), TALL),
    "multi_dot": (lambda t, x, y: (
        lin(t).multi_dot((x, y, x, y)), lin(t).multi_dot((y[0], x, y, x[:, 0]))), TALL, WIDE),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_pytorch(name: str) -> None:
    expression, *arrays = CASES[name]
    # PyTorch's own gradient of cond writes over what it has saved.
    agree(expression, *arrays, tolerance=1e-9, gradients=name != "cond")


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("name", ["inv", "solve", "cholesky", "slogdet", "eigvalsh", "svdvals"])
def test_float32_keeps_its_dtype(name: str) -> None:
    expression, *arrays = CASES[name]
    agree(expression, *(x.astype(np.float32) for x in arrays), tolerance=2e-3)


@pytest.mark.parametrize("wrap", [lambda f: f, dj.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("order", [0.5, 1.5, 3, -2])
def test_slopes_of_norms_are_zero_at_zero(order: float, wrap: Any) -> None:
    found = []
    for library, around in ((torch, lambda f: f), (dj, wrap)):
        x = library.tensor([[1.0, -2.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
        norms = around(lambda x, t=library: t.linalg.vector_norm(x, order, dim=1))(x)
        norms.sum().backward()
        found.append((norms.tolist(), x.grad.tolist()))
    for actual, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("order", [1.5, 6])
def test_norms_of_16_bits_add_up_in_32(order: float) -> None:
    x = np.linspace(0.1, 20, 3000, dtype=np.float16)
    agree(lambda t, x: (lin(t).vector_norm(x, order), t.norm(x, order)), x, gradients=False)


def test_least_squares_agree_with_pytorch() -> None:
    target = RNG.standard_normal((5, 2))
    agree(lambda t, x, b: lin(t).lstsq(x, b).solution, TALL, target, tolerance=1e-9)
    expected = torch.linalg.lstsq(torch.tensor(TALL), torch.tensor(target), driver="gelsd")
    actual = dj.linalg.lstsq(dj.tensor(TALL), dj.tensor(target), driver="gelsd")

    np.testing.assert_allclose(actual.residuals.numpy(), expected.residuals.numpy())
    np.testing.assert_allclose(actual.singular_values.numpy(), expected.singular_values.numpy())
    assert int(expected.rank) == int(actual.rank)


def test_solutions_of_tensors() -> None:
    square, flat = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((6, 2, 3))
    for ind, x in ((2, square), (1, flat)):
        agree(lambda t, x, ind=ind: lin(t).tensorinv(x, ind), x, tolerance=1e-9)
    target = RNG.standard_normal((2, 3))
    agree(lambda t, a, b: lin(t).tensorsolve(a, b), square, target, tolerance=1e-9)
    moved = square.transpose(0, 2, 1).copy()
    agree(lambda t, a, b: lin(t).tensorsolve(a, b, dims=(1,)), moved, target, tolerance=1e-9)


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("data", [TALL, WIDE, A, SINGULAR, np.ones((4, 2))])
def test_parts_of_least_squares_are_those_of_the_driver(data: Any, driver: Any) -> None:
    if driver == "gels" and np.linalg.matrix_rank(data).min() < min(data.shape[-2:]):
        pytest.skip("LAPACK refuses such matrices")
    target = data[..., :1] + 1.0
    agree(lambda t, x, b: lin(t).lstsq(x, b, driver=driver), data, target, gradients=False,
          tolerance=1e-9)  # fmt: skip


def test_ranks_count_singular_values() -> None:
    arrays = (A, TALL, SINGULAR, np.zeros((3, 3)), np.zeros((2, 0, 3)), np.zeros((3, 0)))
    for array in arrays:
        agree(lambda t, x: lin(t).matrix_rank(x), array, gradients=False)
    agree(lambda t, x: lin(t).matrix_rank(x, tol=1.5), A, gradients=False)
    agree(lambda t, x: lin(t).matrix_rank(x + x.mT, hermitian=True), A, gradients=False)


def test_factors_of_every_shape_multiply_to_the_matrix() -> None:
    for array in (A, TALL, WIDE, np.zeros((0, 3, 3)), np.ones((2, 1, 1))):
        x = dj.tensor(array)
        u, s, vh = dj.linalg.svd(x)
        k = s.shape[-1]
        q, r = dj.linalg.qr(x, "complete")
        p, low, up = dj.linalg.lu(x)
        products = (u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], q @ r, p @ low @ up)
        for product in products:
            np.testing.assert_allclose(product.numpy(), array, atol=1e-12)
        theirs = torch.linalg.svd(torch.tensor(array))
        assert [tuple(f.shape) for f in theirs] == [tuple(f.shape) for f in (u, s, vh)]
        assert tuple(torch.linalg.qr(torch.tensor(array), "r").R.shape) == tuple(
            dj.linalg.qr(x, "r").R.shape
        )


@pytest.mark.filterwarnings("ignore:torch.lu_solve is deprecated")
def test_lu_factors_solve() -> None:
    agree(lambda t, a: lin(t).lu_factor(a.detach()), A, gradients=False)
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
        drawn = np.random.default_rng(0).standard_normal(shape)
        agree(lambda t, a: lin(t).lu_factor(a).LU, drawn, tolerance=1e-10)
    agree(lambda t, a: t.lu_unpack(*lin(t).lu_factor(a.detach())), A, gradients=False)
    for left, adjoint in ((True, False), (True, True), (False, False), (False, True)):
        agree(
            lambda t, a, b, left=left, adjoint=adjoint: lin(t).lu_solve(
                *lin(t).lu_factor(a.detach()), b if left else b.mT, left=left, adjoint=adjoint
            ),
            A, B, tolerance=1e-9,
        )  # fmt: skip
    agree(lambda t, a, b: b.lu_solve(*lin(t).lu_factor(a.detach())), A, B, tolerance=1e-9)


GRADIENTS = {
    "qr": lambda x: tuple(dj.linalg.qr(x)),
    "svd": lambda x: tuple(f.abs() for f in dj.linalg.svd(x, False)),
    "pinv": lambda x: dj.linalg.pinv(x),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives_equal_finite_differences(name: str) -> None:
    for array in (TALL, WIDE, A[0]):
        assert gradcheck(GRADIENTS[name], (dj.tensor(array, requires_grad=True),))


def hermitian(dtype: str, *batch: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((*batch, 4, 4)) + 1j * rng.standard_normal((*batch, 4, 4))
    return (x + np.conj(np.swapaxes(x, -1, -2))).astype(dtype)


def eigen_loss(t: Any, x: Any, upper: str) -> tuple[Any, ...]:
    """Eigenvalues and what no phase of eigenvectors changes."""
    values, vectors = t.linalg.eigh(x, upper)
    weights = t.arange(16.0).reshape(4, 4)
    sizes = vectors.abs()
    loss = (sizes * sizes * sizes * weights).sum() + (values * weights[0]).sum()
    return values, sizes, loss + t.linalg.eigvalsh(x, upper).exp().sum()


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float64"])
@pytest.mark.parametrize("upper", ["L", "U"])
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
def test_eigenvalues_of_hermitian_matrices_and_gradients_are_pytorchs(
    dtype: str, upper: str, batch: tuple[int, ...]
) -> None:
    """Gradients are symmetric, also where one triangle is read."""
    array = hermitian("complex128", *batch)
    array = array.real.copy() if dtype == "float64" else array.astype(dtype)
    found = []
    compiled = dj.compile(lambda x: eigen_loss(dj, x, upper), fullgraph=True)
    for t, run in ((torch, eigen_loss), (dj, eigen_loss), (dj, lambda t, x, upper: compiled(x))):
        x = t.from_numpy(array.copy()).requires_grad_(True)
        values, sizes, loss = run(t, x, upper)
        loss.backward()
        found.append([v.detach().numpy() for v in (values, sizes, loss, x.grad)])
    tolerance = 2e-3 if dtype == "complex64" else 1e-9
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def test_eigenvectors_of_hermitian_matrices_make_them_diagonal() -> None:
    x = dj.from_numpy(hermitian("complex128", 2))
    values, vectors = dj.linalg.eigh(x)
    again = (vectors * values.unsqueeze(-2)) @ vectors.mT.conj()
    np.testing.assert_allclose(again.numpy(), x.numpy(), atol=1e-12)


def test_derivatives_of_complex_eigenvalues_equal_finite_differences() -> None:
    x = dj.from_numpy(hermitian("complex128")).requires_grad_(True)

    def values(x: Any) -> Any:
        return dj.linalg.eigvalsh(x + x.mT.conj())

    assert gradcheck(values, (x,))
    assert gradgradcheck(values, (x,))


def test_the_gradient_of_a_determinant_is_the_cofactors_also_of_singular_matrices() -> None:
    x = dj.tensor(SINGULAR, requires_grad=True)
    dj.linalg.det(x).backward()

    np.testing.assert_allclose(x.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
def test_compiled_functions_and_gradients_are_the_same() -> None:
    def run(a, b):
        solved = dj.linalg.solve(a, b).sum() + dj.linalg.slogdet(a).logabsdet.sum()
        values, vectors = dj.linalg.eigh(a + a.mT)
        return solved + (vectors.abs() * values.unsqueeze(-2)).sum()

    gradients = []
    for function in (run, dj.compile(run, fullgraph=True)):
        a, b = dj.tensor(A, requires_grad=True), dj.tensor(B, requires_grad=True)
        function(a, b).backward()
        gradients.append((a.grad.numpy(), b.grad.numpy()))
    for left, right in zip(*gradients, strict=True):
        np.testing.assert_allclose(right, left, rtol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: lin(t).inv(x),
        lambda t, x: lin(t).solve(x, x),
        lambda t, x: lin(t).cholesky(-x),
        lambda t, x: lin(t).matrix_power(x, -1),
    ],
)
def test_singular_matrices_raise_linalg_error(call) -> None:
    with pytest.raises(torch.linalg.LinAlgError):
        call(torch, torch.tensor(SINGULAR))
    with pytest.raises(dj.linalg.LinAlgError):
        call(dj, dj.tensor(SINGULAR))


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: lin(t).inv(x),
        lambda t, x: lin(t).det(x[0]),
        lambda t, x: lin(t).eigvalsh(x[:3].long()),
        lambda t, x: lin(t).cholesky(x[:3].half()),
        lambda t, x: lin(t).solve(x[:3], x[:2]),
        lambda t, x: lin(t).solve(x[:3], x[:3].float()),
        lambda t, x: lin(t).qr(x, "economic"),
        lambda t, x: lin(t).eigh(x[:3], "X"),
        lambda t, x: lin(t).matrix_norm(x, 3),
        lambda t, x: lin(t).matrix_norm(x, dim=(0, 0)),
        lambda t, x: lin(t).norm(x.unsqueeze(0), 2),
        lambda t, x: lin(t).vector_norm(x.long()),
        lambda t, x: lin(t).multi_dot([x]),
        lambda t, x: lin(t).multi_dot([x, x]),
        lambda t, x: lin(t).cross(x, x[:, :2]),
        lambda t, x: lin(t).matrix_power(x, 2),
        lambda t, x: lin(t).lstsq(x, x[:2]),
        lambda t, x: lin(t).tensorinv(x, 0),
        lambda t, x: lin(t).tensorinv(x, 1),
        lambda t, x: lin(t).tensorsolve(x, x),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(TALL))
    with pytest.raises(DynajitError):
        call(dj, dj.tensor(TALL))


@pytest.mark.parametrize("options", [{}, {"N": 4}])
def test_vander_has_rising_powers(options: Any) -> None:
    for data in ([1.0, 2.0, 3.0], [[0.5, 2.0], [0.0, -1.0]], [1, 2, 3], [1j, 2.0]):
        x = np.array(data)
        count = options.get("N", x.shape[-1])
        expected = x[..., None] ** np.arange(count)
        np.testing.assert_allclose(
            dj.linalg.vander(dj.tensor(x), **options).numpy(), expected, rtol=1e-12
        )


MATRICES = np.random.default_rng(5).standard_normal((4, 5, 5))


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_ex_says_which_minors_are_not_positive(upper):
    """And differentiates the factors of the others; `check_errors` raises."""
    values = MATRICES @ MATRICES.swapaxes(-1, -2) + 0.1 * np.eye(5)
    values[1, 2, 2], values[3, 0, 0] = -1, 0
    found = []
    for library in (torch, dj):
        x = library.tensor(values, requires_grad=True)
        factor, info = library.linalg.cholesky_ex(x, upper=upper)
        factor[[0, 2]].sum().backward()
        with pytest.raises(RuntimeError, match="positive-definite"):
            library.linalg.cholesky_ex(x, upper=upper, check_errors=True)
        found.append((info, factor.detach()[[0, 2]].tolist(), x.grad[[0, 2]].tolist()))
    assert [0, 3, 0, 1] == found[0][0].tolist() == found[1][0].tolist()
    for expected, actual in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-9)
    assert bool(factor[1].isnan().any())


def test_inv_ex_says_which_pivots_are_zero():
    values = MATRICES.copy()
    values[1, :, 2] = 0
    values[2] = 0
    expected, actual = (library.linalg.inv_ex(library.tensor(values)) for library in (torch, dj))
    assert expected.info.tolist() == actual.info.tolist()
    np.testing.assert_allclose(
        actual.inverse[[0, 3]].numpy(), expected.inverse[[0, 3]].numpy(), atol=1e-9
    )
    assert bool(actual.inverse[1].isnan().any())


def test_lu_factor_ex_says_which_pivots_are_zero():
    values = np.array([[[1.0, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 0], [0, 1]]])
    pytest.importorskip("scipy")
    expected, actual = (
        library.linalg.lu_factor_ex(library.tensor(values)) for library in (torch, dj)
    )
    for theirs, ours in zip(expected, actual, strict=True):
        assert theirs.tolist() == ours.tolist()
    assert dj.int32 is actual.info.dtype
    with pytest.raises(RuntimeError, match="zero"):
        dj.linalg.lu_factor_ex(dj.tensor(values), check_errors=True)
    one = dj.compile(dj.linalg.lu_factor_ex)(dj.tensor(values[0]))
    assert 2 == int(one.info)
