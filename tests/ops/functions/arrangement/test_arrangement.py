"""Functions that arrange tensors agree with PyTorch: values, gradients, refusals, compiled."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tests.support.rows.compare import agree, numbers, outputs_of

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(1)
X = RNG.standard_normal((4, 6))
Y = RNG.standard_normal((4, 6))
V = RNG.standard_normal(5)
CUBE = RNG.standard_normal((2, 3, 4))
BATCH = RNG.standard_normal((3, 4, 5)), RNG.standard_normal((3, 5, 6))

CASES = {
    "tensor_split_parts": (lambda t, x: t.tensor_split(x, 4, dim=1), X),
    "tensor_split_indices": (lambda t, x: x.tensor_split((1, -2, 9), dim=1), X),
    "tensor_split_backwards": (lambda t, x: t.tensor_split(x, (3, 1)), X),
    "hsplit": (lambda t, x: t.hsplit(x, 3), X),
    "hsplit_vector": (lambda t, v: v.hsplit((2,)), V),
    "vsplit": (lambda t, x: x.vsplit(2), X),
    "dsplit": (lambda t, c: t.dsplit(c, (1, 3)), CUBE),
    "split_with_sizes": (lambda t, x: x.split_with_sizes([1, 3]), X),
    "atleast": (lambda t, v: (t.atleast_1d(v), t.atleast_2d(v), t.atleast_3d(v)), V),
    "atleast_several": (lambda t, v: t.atleast_2d(v, v[0]), V),
    "atleast_3d_matrix": (lambda t, x: t.atleast_3d(x), X),
    "dstack": (lambda t, x, y: t.dstack((x, y)), X, Y),
    "dstack_vectors": (lambda t, v: t.dstack((v, v)), V),
    "column_stack": (lambda t, v, x: t.column_stack((v[:4], x)), V, X),
    "block_diag": (lambda t, v, x: t.block_diag(v, x, v[0], x[:, :2]), V, X),
    "cartesian_prod": (lambda t, v: t.cartesian_prod(v, v[:2]), V),
    "cartesian_prod_of_one": (lambda t, v: t.cartesian_prod(v), V),
    "combinations": (lambda t, v: t.combinations(v), V),
    "combinations_of_three": (lambda t, v: t.combinations(v, 3, True), V),
    "rot90": (lambda t, x: [t.rot90(x, k) for k in range(-1, 5)], X),
    "rot90_dims": (lambda t, c: c.rot90(1, (0, 2)), CUBE),
    "fliplr": (lambda t, x: t.fliplr(x), X),
    "flipud": (lambda t, v: v.flipud(), V),
    "adjoint": (lambda t, c: c.adjoint(), CUBE),
    "trace": (lambda t, x: x.trace(), X),
    "diag_embed": (lambda t, x: t.diag_embed(x), X),
    "diag_embed_above": (lambda t, x: x.diag_embed(2, 0, 2), X),
    "diag_embed_below": (lambda t, x: x.diag_embed(-1, 2, 0), X),
    "diagflat": (lambda t, x: t.diagflat(x[:2, :2], 1), X),
    "kron": (lambda t, x, v: t.kron(x, v), X, V),
    "kron_ranks": (lambda t, x, c: x.kron(c), X, CUBE),
    "vander": (lambda t, v: t.vander(v.detach()), V),
    "vander_rising": (lambda t, v: t.vander(v.detach(), 3, increasing=True), V),
    "inner": (lambda t, x, y: t.inner(x, y), X, Y),
    "inner_vectors": (lambda t, v: v.inner(v), V),
    "vdot": (lambda t, v: t.vdot(v, v + 1), V),
    "ger": (lambda t, v: t.ger(v, v[:3]), V),
    "addr": (lambda t, v, x: t.addr(x, v[:4], x[0], beta=0.5, alpha=2), V, X),
    "addbmm": (lambda t, a, b: t.addbmm(a[0, :, :1], a, b, alpha=0.5), *BATCH),
    "chain_matmul": (lambda t, x, y: x @ y.T @ x, X, Y),
    "as_strided": (lambda t, x: t.as_strided(x, (3, 2), (6, 2), 1), X),
    "as_strided_overlaps": (lambda t, v: v.as_strided((3, 3), (1, 1)), V),
    "narrow_copy": (lambda t, x: x.detach().narrow_copy(1, -4, 2), X),
    "select_scatter": (lambda t, x, v: t.select_scatter(x, v[:4], 1, -2), X, V),
    "slice_scatter": (lambda t, x: t.slice_scatter(x, x[:, :3] * 2, 1, 0, 6, 2), X),
    "diagonal_scatter": (lambda t, x, v: t.diagonal_scatter(x, v[:4], 1), X, V),
    "unravel_small": (lambda t, x: t.unravel_index((x.abs() * 6).to(t.uint8), (3, 300)), X),
    "unravel_index": (lambda t, x: t.unravel_index((x.abs() * 6).long(), (3, 4, 2)), X),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_pytorch(name: str) -> None:
    expression, *arrays = CASES[name]
    agree(expression, *arrays)


def test_everything_compiles_as_one_graph() -> None:
    arrays = (X, Y, V, CUBE, *BATCH)
    number = {id(array): i for i, array in enumerate(arrays)}
    calls = [
        (call, [number[id(array)] for array in given])
        for name, (call, *given) in CASES.items()
        if "as_strided" not in name
    ]

    def run(*tensors):
        return [call(dj, *[tensors[i] for i in places]) for call, places in calls]

    operands = [dj.tensor(array) for array in arrays]
    expected = outputs_of(run(*operands))
    actual = outputs_of(dj.compile(run, fullgraph=True)(*operands))

    assert len(expected) == len(actual)
    for left, right in zip(expected, actual, strict=True):
        np.testing.assert_allclose(numbers(right), numbers(left), rtol=1e-12, atol=1e-12)


def test_the_gradient_of_powers_is_their_derivative() -> None:
    x = dj.tensor(V, requires_grad=True)
    dj.vander(x, 3).sum().backward()

    np.testing.assert_allclose(x.grad.numpy(), 2 * V + 1)


def test_as_strided_is_a_view_of_the_memory() -> None:
    def run(t, x):
        y = x.clone()
        part = y.T[1:].as_strided((2, 3), (6, 1), 1)
        part += 1
        return y, part, y[1:].as_strided((2,), (1,)), y[1:].as_strided((2,), (1,), 2)

    agree(run, X, gradients=False)
    compiled = dj.compile(lambda x: run(dj, x))
    for left, right in zip(run(dj, dj.tensor(X)), compiled(dj.tensor(X)), strict=True):
        assert left.tolist() == right.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x.T.as_strided((2, 2), (3, 1), 1),
        lambda t, x: (x * 2).T[1:].as_strided((2, 2), (1, 1)),
        lambda t, x: (x * 2)[:, ::2].as_strided((2, 3), (2, 0)),
        lambda t, x: (x * 2).T.as_strided((0, 2), (1, 1)),
    ],
)
def test_as_strided_of_other_layouts_has_gradients(call: Any) -> None:
    agree(call, X)


def test_as_strided_shows_elements_beside_the_tensor() -> None:
    agree(lambda t, x: (x * 2)[:, ::2].as_strided((2,), (1,)), X)
    agree(lambda t, x: x[:1].expand(3, x.shape[1]).as_strided((2,), (1,)), X)


def test_integers_keep_their_dtype() -> None:
    whole = np.arange(6).reshape(2, 3)
    agree(lambda t, x: (t.vander(x[0]), t.trace(x), t.block_diag(x, x), t.kron(x, x)), whole)


def test_empty_tensors_are_arranged() -> None:
    none = np.zeros((0, 3))
    agree(lambda t, x: t.tensor_split(x, 2), none)
    agree(lambda t, x: (t.block_diag(x, x), t.diag_embed(x), t.combinations(x[:, 0])), none)
    agree(lambda t, x: t.vander(x[:, 0].detach(), 2), none)


def test_shapes_broadcast_as_in_pytorch() -> None:
    shapes = ((2, 1), (3,), 1)

    assert tuple(torch.broadcast_shapes(*shapes)) == dj.broadcast_shapes(*shapes)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t, x: t.tensor_split(x[0, 0], 2), ShapeError),
        (lambda t, x: t.tensor_split(x, 0), ShapeError),
        (lambda t, x: t.hsplit(x, 4), ShapeError),
        (lambda t, x: t.dsplit(x, 1), ShapeError),
        (lambda t, x: t.block_diag(x.unsqueeze(0)), ShapeError),
        (lambda t, x: t.cartesian_prod(x), ShapeError),
        (lambda t, x: t.combinations(x), ShapeError),
        (lambda t, x: t.combinations(x[0], -1), Exception),
        (lambda t, x: t.rot90(x, 1, (0, 0)), ShapeError),
        (lambda t, x: t.rot90(x[0]), ShapeError),
        (lambda t, x: t.trace(x[0]), ShapeError),
        (lambda t, x: t.diag_embed(x, 0, 1, 1), ShapeError),
        (lambda t, x: t.vander(x), ShapeError),
        (lambda t, x: t.inner(x, x[:, :2]), ShapeError),
        (lambda t, x: t.select_scatter(x, x[0], 0, 7), BoundsError),
        (lambda t, x: t.slice_scatter(x, x[:1], 0, 0, 2), ShapeError),
        (lambda t, x: t.as_strided(x, (4,), (9,)), ShapeError),
        (lambda t, x: t.as_strided(x, (4,), (1, 1)), ShapeError),
        (lambda t, x: t.unravel_index(x, (4,)), DTypeError),
        (lambda t, x: t.fliplr(x[0]), ShapeError),
        (lambda t, x: t.flipud(x[0, 0]), ShapeError),
    ],
)
def test_refusals(call, error) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(X))
    with pytest.raises((error, ArgumentError)):
        call(dj, dj.tensor(X))


def test_factors_of_integers_lose_their_fraction() -> None:
    whole = np.arange(1, 5).reshape(2, 2)

    def products(t, x):
        pair = x[None]
        return (
            t.addmm(x, x, x, beta=1.7, alpha=2.5),
            t.addmv(x[0], x, x[0], beta=0.6, alpha=0.2),
            t.baddbmm(pair, pair, pair, beta=1.7, alpha=2.5),
            t.addbmm(x, pair, pair, beta=0.6, alpha=2.2),
            t.index_add(x, 0, x[0] - 1, x, alpha=1.5),
        )

    agree(products, whole)
    x = dj.tensor(whole)
    for left, right in zip(products(dj, x), dj.compile(lambda x: products(dj, x))(x), strict=True):
        assert left.dtype is right.dtype
        assert left.tolist() == right.tolist()


def test_batches_of_small_integers_keep_their_dtype() -> None:
    pair = np.arange(8, dtype=np.int32).reshape(2, 2, 2)
    agree(lambda t, x: (t.addbmm(x[0], x, x), x[0].addbmm(x, x, beta=0, alpha=3)), pair)


def test_outer_products_of_truth_values_stay_truth_values() -> None:
    mask = np.array([[False, True], [True, False]])
    agree(lambda t, x: (t.addr(x, x[0], x[1], beta=3, alpha=2), x.addr(x[1], x[0], beta=0)), mask)
    agree(lambda t, x: t.addr(x, x[0], x[1], beta=3, alpha=2), np.arange(4).reshape(2, 2))
    for kind in (dj.bool, dj.int64):
        with pytest.raises(DTypeError, match="addr: beta is"):
            dj.addr(dj.ones(2, 2, dtype=kind), *dj.ones(2, 2, dtype=kind), beta=0.5)
