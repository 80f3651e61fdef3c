"""Householder reflectors, failures that are reported, low ranks, segments and grids of bins agree
with PyTorch, in values, gradients and classes of errors."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

RANDOM = np.random.default_rng(0)
TALL = RANDOM.standard_normal((2, 5, 3))
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
STACK = np.stack([SQUARE, SINGULAR, -SQUARE])


def outcome(call: Any, m: Any) -> Any:
    """What a call gives, as arrays, or the class of its error."""
    try:
        found = call(m)
    except Exception as error:
        kinds = (NotImplementedError, ValueError, TypeError, RuntimeError)
        return next(kind for kind in kinds if isinstance(error, kind))
    parts = found if isinstance(found, (tuple, list)) else (found,)
    flat = [p for part in parts for p in (part if isinstance(part, tuple) else (part,))]
    return [(part.detach().numpy(), str(part.dtype).rpartition(".")[2]) for part in flat]


def assert_like_pytorch(call: Any, tolerance: float = 1e-5) -> None:
    torch = pytest.importorskip("torch")
    expected, found = outcome(call, torch), outcome(call, dj)
    if isinstance(expected, type):
        assert expected is found
        return
    assert not isinstance(found, type), found
    assert len(expected) == len(found)
    for (one, kind), (other, other_kind) in zip(expected, found, strict=True):
        assert kind == other_kind
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


def tensor(m: Any, array: Any, dtype: str = "float64") -> Any:
    return m.tensor(np.asarray(array), dtype=getattr(m, dtype))


REFLECTORS = {
    "geqrf": lambda m: m.geqrf(tensor(m, TALL)),
    "geqrf of wide ones": lambda m: m.geqrf(tensor(m, TALL.swapaxes(1, 2), "float32")),
    "geqrf of complex ones": lambda m: m.geqrf(tensor(m, TALL + 1j * TALL[::-1], "complex128")),
    "geqrf of nothing": lambda m: m.geqrf(m.empty(0, 3)),
    "geqrf of a vector": lambda m: m.geqrf(m.ones(3)),
    "geqrf of integers": lambda m: m.geqrf(m.ones(3, 3, dtype=m.int64)),
    "geqrf of halves": lambda m: m.geqrf(m.ones(3, 3, dtype=m.float16)),
    "product": lambda m: m.linalg.householder_product(*m.geqrf(tensor(m, TALL))),
    "complex product": lambda m: m.linalg.householder_product(
        *m.geqrf(tensor(m, TALL + 1j * TALL[::-1], "complex128"))
    ),
    "orgqr of fewer factors": lambda m: m.orgqr(tensor(m, TALL), tensor(m, TALL[:, 0, :2])),
    "product of none": lambda m: m.orgqr(tensor(m, TALL), tensor(m, TALL[:, 0, :0])),
    "product of wide ones": lambda m: m.orgqr(m.ones(2, 3), m.ones(2)),
    "product of too many": lambda m: m.orgqr(m.ones(3, 2), m.ones(3)),
    "product of a vector": lambda m: m.orgqr(m.ones(3), m.ones(2)),
    "product of two dtypes": lambda m: m.orgqr(m.ones(3, 2), m.ones(2, dtype=m.float64)),
    "ormqr of another size": lambda m: m.ormqr(m.ones(3, 2), m.ones(2), m.ones(2, 2)),
    **{
        f"ormqr {left} {transposed} {kind}": lambda m, given=(left, transposed), kind=kind: m.ormqr(
            *m.geqrf(tensor(m, TALL + (1j * TALL[::-1] if "complex" in kind else 0), kind)),
            m.ones(2, *((5, 4) if given[0] else (4, 5)), dtype=getattr(m, kind)),
            *given,
        )
        for left in (True, False)
        for transposed in (True, False)
        for kind in ("float64", "complex128")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFLECTORS)
def test_reflectors_are_those_of_pytorch(name: str) -> None:
    assert_like_pytorch(REFLECTORS[name])


def test_products_of_reflectors_have_derivatives() -> None:
    """Compiled in one graph, too; geqrf has none and says so."""
    torch = pytest.importorskip("torch")
    weights = RANDOM.standard_normal((2, 5, 3))

    def loss(m: Any, a: Any, tau: Any, weights: Any) -> Any:
        q = m.linalg.householder_product(a, tau)
        other = m.ormqr(a, tau, weights, True, True)
        return (q * weights).sum() + (other * other * q).sum()

    gradients = []
    for m, run in ((torch, loss), (dj, loss), (dj, None)):
        start = m.geqrf(tensor(m, TALL))
        a, tau = (part.detach().requires_grad_() for part in start)
        given = a, tau, tensor(m, weights)
        compiled = dj.compile(lambda a, tau, w: loss(dj, a, tau, w), fullgraph=True)
        result = run(m, *given) if run else compiled(*given)
        result.backward()
        gradients.append((np.tril(a.grad.numpy(), -1), tau.grad.numpy()))
    for other in gradients[1:]:
        for one, same in zip(gradients[0], other, strict=True):
            np.testing.assert_allclose(same, one, rtol=1e-7, atol=1e-9)
    with pytest.raises(NotImplementedError, match="derivative"):
        dj.geqrf(dj.ones(2, 2, requires_grad=True))


def infos(name: str, *options: Any, **named: Any) -> Any:
    """The info, and the results of matrices that did not fail."""

    def call(m: Any) -> Any:
        given = tensor(m, STACK, named.get("dtype", "float64"))
        arguments = [tensor(m, np.ones((3, 3)))] if name == "solve_ex" else []
        found = getattr(m.linalg, name)(given, *arguments, *options)
        good = found.info == 0
        return found.info, found[0][good]

    return call


@pytest.mark.parametrize("name", ["inv_ex", "cholesky_ex", "solve_ex", "lu_factor_ex"])
def test_failures_are_reported_as_by_pytorch(name: str) -> None:
    assert_like_pytorch(infos(name))
    for options in (
        lambda m, f: f(tensor(m, SQUARE), *([m.ones(3, dtype=m.float64)] * ("solve" in name))),
        lambda m, f: f(tensor(m, STACK), *([tensor(m, STACK)] * ("solve" in name)),
                       check_errors=True),
        lambda m, f: f(m.ones(3), *([m.ones(3)] * ("solve" in name))),
        lambda m, f: f(m.ones(0, 2, 2), *([m.ones(0, 2, 2)] * ("solve" in name))),
    ):  # fmt: skip
        assert_like_pytorch(lambda m, options=options: options(m, getattr(m.linalg, name)))


def test_failed_matrices_are_not_numbers_and_have_no_gradient() -> None:
    """The others have theirs."""
    for name in ("inv_ex", "cholesky_ex"):
        given = dj.tensor(STACK, requires_grad=True)
        found, info = getattr(dj.linalg, name)(given)
        assert dj.isnan(found[info > 0]).all()
        found[0].sum().backward()
        alone = dj.tensor(SQUARE, requires_grad=True)
        getattr(dj.linalg, name.removesuffix("_ex"))(alone).sum().backward()
        np.testing.assert_allclose(given.grad[0].numpy(), alone.grad.numpy())
        assert (given.grad[1:] == 0).all()


def test_upper_factors_read_the_upper_triangle() -> None:
    matrix = np.triu(SQUARE)
    for upper, given in ((True, matrix), (False, matrix.T)):
        assert_like_pytorch(
            lambda m, upper=upper, given=given: m.linalg.cholesky_ex(tensor(m, given), upper=upper)
        )


def test_a_compiled_function_reports_failures_behind_a_break() -> None:
    def program(matrix: Any) -> Any:
        factor, info = dj.linalg.cholesky_ex(matrix * 2)
        if info.any():
            return dj.zeros(3, 3)
        return factor * 3

    compiled = dj.compile(program)
    for matrix in (SQUARE, -SQUARE):
        given = dj.tensor(matrix)
        np.testing.assert_allclose(compiled(given).numpy(), program(given).numpy())


INDEFINITE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
HERMITIAN = INDEFINITE + 1j * np.array([[0, 1, 0], [-1, 0, 2], [0, -2, 0]])
SYMMETRIC: dict[str, Any] = {
    "real": lambda m: m.linalg.ldl_factor(tensor(m, np.stack([INDEFINITE, SQUARE]))),
    "complex": lambda m: m.linalg.ldl_factor(tensor(m, HERMITIAN, "complex128")),
    "hermitian": lambda m: m.linalg.ldl_factor(tensor(m, HERMITIAN, "complex128"), hermitian=True),
    "singular": lambda m: m.linalg.ldl_factor_ex(m.zeros(2, 2)),
    "singular, checked": lambda m: m.linalg.ldl_factor_ex(m.zeros(2, 2), check_errors=True),
    "nothing": lambda m: m.linalg.ldl_factor(m.empty(0, 2, 2)),
    "no square": lambda m: m.linalg.ldl_factor(m.ones(2, 3)),
    "a vector": lambda m: m.linalg.ldl_factor(m.ones(3)),
    "integers": lambda m: m.linalg.ldl_factor(m.ones(2, 2, dtype=m.int64)),
    "halves": lambda m: m.linalg.ldl_factor(m.ones(2, 2, dtype=m.float16)),
    "a solution": lambda m: m.linalg.ldl_solve(
        *m.linalg.ldl_factor(tensor(m, INDEFINITE)), m.ones(4, 3, 2, dtype=m.float64)
    ),
    "a hermitian solution": lambda m: m.linalg.ldl_solve(
        *m.linalg.ldl_factor(tensor(m, HERMITIAN, "complex128"), hermitian=True),
        m.ones(3, 2, dtype=m.complex128),
        hermitian=True,
    ),
    "a solution of another dtype": lambda m: m.linalg.ldl_solve(
        *m.linalg.ldl_factor(tensor(m, INDEFINITE)), m.ones(3, 2)
    ),
    "a solution of another size": lambda m: m.linalg.ldl_solve(
        *m.linalg.ldl_factor(tensor(m, INDEFINITE)), m.ones(2, 2, dtype=m.float64)
    ),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_factors_are_those_of_pytorch(name: str) -> None:
    pytest.importorskip("scipy", reason="SciPy is not installed")
    assert_like_pytorch(SYMMETRIC[name])


def test_symmetric_factors_have_no_derivative() -> None:
    """And say so."""
    with pytest.raises(NotImplementedError, match="derivative"):
        dj.linalg.ldl_factor(dj.ones(2, 2, requires_grad=True))


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (2, 8, 5)])
def test_low_ranks_are_found(shape: tuple[int, ...]) -> None:
    """A matrix of rank 2, and its principal components."""
    left = RANDOM.standard_normal((*shape[:-1], 2))
    matrix = dj.tensor(left @ RANDOM.standard_normal((*shape[:-2], 2, shape[-1])))
    u, s, v = dj.svd_lowrank(matrix, q=3)
    assert (3, 3) == (u.shape[-1], v.shape[-1])
    np.testing.assert_allclose(
        ((u * s.unsqueeze(-2)) @ v.transpose(-2, -1)).numpy(), matrix.numpy(), atol=1e-9
    )
    u, s, v = dj.pca_lowrank(matrix, q=3)
    centred = matrix - matrix.mean(-2, keepdim=True)
    np.testing.assert_allclose(
        ((u * s.unsqueeze(-2)) @ v.transpose(-2, -1)).numpy(), centred.numpy(), atol=1e-9
    )
    shifted = dj.svd_lowrank(matrix, q=3, M=matrix.mean(-2, keepdim=True))
    np.testing.assert_allclose(shifted[1].numpy(), s.numpy(), atol=1e-9)


def test_low_ranks_are_captured_and_differentiated() -> None:
    """With the draws of eager execution."""
    matrix = RANDOM.standard_normal((7, 5))
    compiled = dj.compile(lambda a: dj.svd_lowrank(a, q=2)[1].sum(), fullgraph=True)
    found = []
    for function in (lambda a: dj.svd_lowrank(a, q=2)[1].sum(), compiled):
        dj.manual_seed(3)
        a = dj.tensor(matrix, requires_grad=True)
        value = function(a)
        value.backward()
        found.append((value.item(), a.grad.numpy()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6, atol=1e-8)
    for options in ({"q": 6}, {"q": -1}, {"niter": -1}):
        with pytest.raises(ValueError, match="non-negative"):
            dj.pca_lowrank(dj.ones(7, 5), **options)


def test_some_eigenvalues() -> None:
    """The largest first; also of pairs of matrices."""
    base = RANDOM.standard_normal((9, 9))
    a, b = dj.tensor(base + base.T), dj.tensor(base @ base.T + 9 * np.eye(9))
    for options in ({}, {"B": b}, {"largest": False}):
        values, vectors = dj.lobpcg(a, k=2, **options)
        right = options.get("B", dj.eye(9, dtype=dj.float64)) @ vectors
        np.testing.assert_allclose((a @ vectors).numpy(), (right * values).numpy(), atol=1e-9)
        np.testing.assert_allclose((vectors.t() @ right).numpy(), np.eye(2), atol=1e-9)
    whole = np.linalg.eigvalsh(base + base.T)
    np.testing.assert_allclose(dj.lobpcg(a, k=2)[0].numpy(), whole[::-1][:2])
    np.testing.assert_allclose(dj.lobpcg(a, k=2, largest=False)[0].numpy(), whole[:2])
    with pytest.raises(RuntimeError, match="not applicable"):
        dj.lobpcg(a, k=4)


DATA = np.arange(12.0).reshape(6, 2) - 4
SEGMENTS: dict[str, Any] = {
    f"{kind} {initial} {form}": lambda m, kind=kind, initial=initial, form=form: m.segment_reduce(
        tensor(m, DATA, "float32"),
        kind,
        initial=initial,
        **{form: m.tensor([2, 0, 4] if form == "lengths" else [0, 2, 2, 6])},
    )
    for kind in ("sum", "mean", "max", "min", "prod")
    for initial in (None, 2.0)
    for form in ("lengths", "offsets")
}
SEGMENTS |= {
    "along a later dim": lambda m: m.segment_reduce(
        tensor(m, DATA).reshape(2, 3, 2), "sum", lengths=m.tensor([[1, 2], [3, 0]]), axis=1
    ),
    "too short": lambda m: m.segment_reduce(tensor(m, DATA), "sum", lengths=m.tensor([2, 2])),
    "too short, unsafe": lambda m: m.segment_reduce(
        tensor(m, DATA), "sum", lengths=m.tensor([2, 2]), unsafe=True
    ),
    "negative": lambda m: m.segment_reduce(tensor(m, DATA), "sum", lengths=m.tensor([-2, 8])),
    "no lengths": lambda m: m.segment_reduce(tensor(m, DATA), "sum"),
    "indices": lambda m: m.segment_reduce(tensor(m, DATA), "sum", indices=m.tensor([0] * 6)),
    "median": lambda m: m.segment_reduce(tensor(m, DATA), "median", lengths=m.tensor([6])),
    "integers": lambda m: m.segment_reduce(m.ones(2, dtype=m.int64), "sum", lengths=m.tensor([2])),
    "lengths of floats": lambda m: m.segment_reduce(m.ones(2), "sum", lengths=m.tensor([2.0])),
    "nan": lambda m: m.segment_reduce(
        m.tensor([1.0, float("nan"), 3.0]), "max", lengths=m.tensor([2, 1])
    ),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_reduced_as_by_pytorch(name: str) -> None:
    assert_like_pytorch(SEGMENTS[name])


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
def test_segments_have_pytorchs_gradients(kind: str) -> None:
    """Equal largest elements share it; compiled in one graph where lengths are not looked at."""
    torch = pytest.importorskip("torch")
    found = []
    compiled = dj.compile(
        lambda x, lengths: dj.segment_reduce(x, kind, lengths=lengths, unsafe=True), fullgraph=True
    )
    for m, function in (
        (torch, lambda x, lengths: torch.segment_reduce(x, kind, lengths=lengths)),
        (dj, lambda x, lengths: dj.segment_reduce(x, kind, lengths=lengths)),
        (dj, compiled),
    ):
        x = m.tensor([3.0, 3.0, 1.0, 2.0], requires_grad=True)
        result = function(x, m.tensor([2, 2]))
        (result * m.tensor([1.0, 2.0])).sum().backward()
        found.append((result.detach().numpy(), x.grad.numpy()))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_allclose(same, one, rtol=1e-6)


POINTS = np.array([[0.0, 1.0], [1, 0], [2, 0], [2, 2], [0.5, 0.5]])
GRIDS = {
    "equal": {"bins": [3, 3]},
    "one number": {"bins": 2},
    "weights": {"bins": [3, 3], "weight": np.arange(5.0)},
    "range": {"bins": [2, 2], "range": [0.0, 1.0, 0.0, 1.0], "density": True},
    "edges": {"bins": [np.array([0.0, 1, 3]), np.array([0.0, 2])]},
    "one list of bins": {"bins": [3]},
    "a short range": {"bins": [3, 3], "range": [0.0, 1.0]},
}


@pytest.mark.parametrize("name", GRIDS)
def test_points_are_counted_as_by_pytorch(name: str) -> None:
    def call(m: Any) -> Any:
        options = {
            key: [m.tensor(one) if isinstance(one, np.ndarray) else one for one in value]
            if isinstance(value, list)
            else m.tensor(value)
            if isinstance(value, np.ndarray)
            else value
            for key, value in GRIDS[name].items()
        }
        return m.histogramdd(m.tensor(POINTS), **options)

    assert_like_pytorch(call)


def test_points_of_other_shapes() -> None:
    assert_like_pytorch(lambda m: m.histogramdd(m.ones(2, 3, 2), bins=[2, 2]))
    assert_like_pytorch(lambda m: m.histogramdd(m.ones(0, 2), bins=[2, 2]))
    assert_like_pytorch(lambda m: m.histogramdd(m.ones(2, 2, dtype=m.int64), bins=[2, 2]))


@pytest.mark.parametrize("number", [2, 2.5, True, 1j])
@pytest.mark.parametrize("dtype", [None, "int64", "complex64", "bool"])
def test_numbers_as_tensors(number: Any, dtype: str | None) -> None:
    """Of the default dtype."""

    def call(m: Any) -> Any:
        return m.scalar_tensor(number, dtype=None if dtype is None else getattr(m, dtype))

    assert_like_pytorch(call)
