"""Products of matrices and vectors on the tape."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize("name", ["mv", "matmul", "transposed", "twice"])
def test_a_product_with_a_vector_has_pytorchs_gradients(name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    matrix, vector = random.integers(-3, 4, (4, 3)), random.integers(-3, 4, 3)
    found = []
    for t in (torch, dj):
        kind = getattr(t, dtype)
        w = t.tensor(matrix).to(kind).requires_grad_()
        x = t.tensor(vector).to(kind).requires_grad_()
        product: Any = {
            "mv": lambda w, x, t=t: t.mv(w, x),
            "matmul": lambda w, x: w @ x,
            "transposed": lambda w, x: w.mT.contiguous().mT @ x,
            "twice": lambda w, x: w.mT @ (w @ x),
        }[name]
        result = product(w, x)
        (result * result.conj()).real.sum().backward()
        found.append([y.detach().to(t.complex64).numpy() for y in (result, w.grad, x.grad)])
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_it_is_one_node() -> None:
    w, x = dj.ones(4, 3, requires_grad=True), dj.ones(3, requires_grad=True)
    ends = [node for node, _ in (w @ x).grad_fn.next_functions if node is not None]
    assert sorted(id(node.variable) for node in ends) == sorted([id(w), id(x)])


def test_second_derivatives_go_through_it() -> None:
    found = []
    for t in (torch, dj):
        w = t.arange(12.0).reshape(4, 3).requires_grad_()
        x = t.arange(3.0).requires_grad_()
        (slope,) = t.autograd.grad((w @ x).sin().sum(), x, create_graph=True)
        found.append(t.autograd.grad(slope.square().sum(), (w, x)))
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError, match="matmul"):
        dj.ones(4, 3) @ dj.ones(4)
    with pytest.raises(RuntimeError, match="dtype"):
        dj.ones(4, 3) @ dj.ones(3).double()
