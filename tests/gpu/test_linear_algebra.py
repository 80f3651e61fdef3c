"""Factorizations and solutions on a GPU: by what they must satisfy, and errors as on the CPU."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import LinAlgError

pytestmark = pytest.mark.one_python

SHAPES = [(3, 3), (2, 4, 4), (5, 2), (2, 2, 5), (0, 3, 3), (0, 0)]


def drawn(*shape: int, seed: int = 0) -> Any:
    return dj.from_numpy(np.random.default_rng(seed).standard_normal(shape)).cuda()


def close(expected: Any, actual: Any) -> None:
    assert expected.device is actual.device
    np.testing.assert_allclose(actual.cpu().numpy(), expected.cpu().numpy(), rtol=1e-9, atol=1e-9)


def identity(n: int) -> Any:
    return dj.eye(n, dtype=dj.float64, device="cuda")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values_give_the_matrix_again(shape: Any) -> None:
    a = drawn(*shape)
    u, s, vh = dj.linalg.svd(a, full_matrices=False)

    close(a, u * s[..., None, :] @ vh)
    close(s, s.sort(-1, descending=True).values)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_q_and_r_give_the_matrix_again(shape: Any, mode: str) -> None:
    a = drawn(*shape)
    q, r = dj.linalg.qr(a, mode)

    close(a, q @ r)
    close(r, r.triu())
    close(identity(q.shape[-1]).expand(*q.shape[:-2], -1, -1), q.mT @ q)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] == s[-2]], ids=str)
def test_eigenvectors_are_stretched_by_eigenvalues(shape: Any) -> None:
    a = drawn(*shape)
    a = a + a.mT
    values, vectors = dj.linalg.eigh(a)

    close(a @ vectors, vectors * values[..., None, :])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lower_and_upper_factors_give_the_matrix_again(shape: Any) -> None:
    a = drawn(*shape)
    p, l, u = dj.linalg.lu(a)

    close(a, p @ l @ u)


@pytest.mark.parametrize("batch", [(), (2,), (0,)], ids=str)
def test_solutions_solve(batch: Any) -> None:
    a, b = drawn(*batch, 4, 4), drawn(4, 2, seed=1)

    close(b.expand(*batch, 4, 2), a @ dj.linalg.solve(a, b))
    close(identity(4).expand(*batch, 4, 4), a @ dj.linalg.inv(a))
    close(dj.linalg.det(a.cpu()).cuda(), dj.linalg.det(a))


def test_cholesky_factors_give_the_matrix_again() -> None:
    a = drawn(2, 4, 4)
    a = a @ a.mT + identity(4)
    factor = dj.linalg.cholesky(a)

    close(a, factor @ factor.mT)


def test_what_has_no_solution_raises_as_on_the_cpu() -> None:
    zeros = dj.zeros(3, 3, device="cuda")
    for function, words in (
        (dj.linalg.inv, "could not be completed because the input matrix is singular"),
        (lambda a: dj.linalg.solve(a, a), "the input matrix is singular"),
        (lambda a: dj.linalg.cholesky(a - 1), "not positive-definite"),
    ):
        with pytest.raises(LinAlgError, match=words):
            function(zeros)


def test_exponentials_of_matrices() -> None:
    a = drawn(2, 3, 3)

    close(dj.linalg.matrix_exp(a.cpu()).cuda(), dj.linalg.matrix_exp(a))


def test_products_of_every_dtype() -> None:
    for dtype in (dj.bool, dj.uint8, dj.int64, dj.float16, dj.bfloat16, dj.float32, dj.complex64):
        a = dj.arange(6).reshape(2, 3).to(dtype)
        b = dj.arange(6).reshape(3, 2).to(dtype)

        assert dj.equal(a @ b, (a.cuda() @ b.cuda()).cpu()), dtype
