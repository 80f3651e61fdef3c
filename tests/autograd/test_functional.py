"""Jacobians, Hessians and products with vectors against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, AutogradError

torch = pytest.importorskip("torch")

X, Y = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0.5, 2, 3)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "vector": lambda x, y: (x.exp() * y).sum(1),
    "number": lambda x, y: (x * x * y).sum() + y.prod(),
    "several": lambda x, y: (x @ y, (y * y).sum(), x.sin()),
    "one matters": lambda x, y: (y * y).sum(),
    "linear": lambda x, y: x * 2 + y,
}
ONE: dict[str, Callable[..., Any]] = {
    "vector": lambda x: x.tanh().sum(0), "number": lambda x: (x**3).prod(), "same": lambda x: x,
}  # fmt: skip


def lists(found: Any) -> Any:
    """Nested tensors as (shapes and) nested lists."""
    if isinstance(found, (tuple, list)):
        return [lists(item) for item in found]
    assert not found.requires_grad
    return [list(found.shape), np.asarray(found.numpy(), np.float64).ravel().round(9).tolist()]


def same(run: Callable[[Any], Any]) -> None:
    """Both libraries give the same."""
    assert lists(run(torch)) == lists(run(dj))


def inputs(library: Any) -> tuple[Any, Any]:
    """Two tensors."""
    return library.from_numpy(X.copy()), library.from_numpy(Y.copy())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_are_pytorchs(name: str) -> None:
    """Nested by outputs, then inputs."""
    same(lambda t: t.autograd.functional.jacobian(FUNCTIONS[name], inputs(t)))


@pytest.mark.parametrize("name", ONE)
def test_jacobians_of_one_input_are_pytorchs(name: str) -> None:
    """Tensors, not tuples."""
    same(lambda t: t.autograd.functional.jacobian(ONE[name], inputs(t)[0]))


def ones(library: Any, found: Any) -> Any:
    """Vectors 1, 2, ... of the shapes found."""
    if isinstance(found, tuple):
        return tuple(ones(library, item) for item in found)
    count = found.numel()
    return library.arange(1, count + 1, dtype=library.float64).reshape(tuple(found.shape))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_are_pytorchs(name: str) -> None:
    """From the left and the right, with the value."""

    def run(library: Any) -> Any:
        functional, given = library.autograd.functional, inputs(library)
        v = ones(library, FUNCTIONS[name](*given))
        left = functional.vjp(FUNCTIONS[name], given, v)
        return left, functional.jvp(FUNCTIONS[name], given, ones(library, given))

    same(run)


@pytest.mark.parametrize("name", ["number", "one matters"])
def test_hessians_are_pytorchs(name: str) -> None:
    """And their products with vectors."""

    def run(library: Any) -> Any:
        functional, given = library.autograd.functional, inputs(library)
        v = ones(library, given)
        return [
            functional.hessian(FUNCTIONS[name], given),
            functional.vhp(FUNCTIONS[name], given, v),
            functional.hvp(FUNCTIONS[name], given, v),
            functional.hessian(ONE["number"], given[0]),
        ]

    same(run)


def test_graphs_are_made_where_asked_for() -> None:
    """The derivative of a Jacobian's sum."""
    found = []
    for library in (torch, dj):
        x = library.from_numpy(Y.copy()).requires_grad_(True)
        matrix = library.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True)
        matrix.sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_wrong_calls_are_refused() -> None:
    """No tensors, vectors that do not fit, functions without influence where that is asked."""
    functional = dj.autograd.functional
    x = dj.ones(2)
    with pytest.raises(ArgumentError, match="either a Tensor"):
        functional.jacobian(lambda x: x, 1.0)
    with pytest.raises(ArgumentError, match="outputs"):
        functional.jacobian(lambda x: 1.0, x)
    with pytest.raises(AutogradError, match="can only be None"):
        functional.vjp(lambda x: x, x)
    with pytest.raises(AutogradError, match="invalid size"):
        functional.vjp(lambda x: x, x, dj.ones(3))
    with pytest.raises(AutogradError, match="strict"):
        functional.jacobian(lambda x: dj.ones(2), x, strict=True)
    with pytest.raises(AutogradError, match="single element"):
        functional.hessian(lambda x: x, x)
    assert (0, 2) == functional.jacobian(lambda x: x[:0], x).shape
