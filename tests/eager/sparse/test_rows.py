"""What rows do with sparse operands, against PyTorch."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.eager.sparse.rows import ROWS
from dynajit.eager.sparse.sparse_tensor import SparseTensor
from dynajit.ops.table.op_table import TABLE

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

#: (sizes, number of sparse dims, number of values): duplicates, one value, none, dense dims.
FORMS = [
    ((4, 5), 2, 17), ((4, 5), 2, 1), ((4, 5), 2, 0), ((3, 4), 1, 6), ((3, 4, 2), 2, 9),
    ((7,), 1, 9), ((2, 3, 4), 3, 11), ((1, 1), 2, 3), ((3, 2, 0), 2, 4),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _checked() -> Iterator[None]:
    """PyTorch checks positions, and so does not warn that it does not."""
    with torch.sparse.check_sparse_tensor_invariants():
        yield


def parts(form: Any, dtype: str = "float64", seed: int = 0) -> tuple[Any, Any, Any]:
    """Indices, values and size, as arrays."""
    sizes, sparse, count = form
    rng = np.random.default_rng([seed, count, *sizes])
    where = np.stack([rng.integers(0, n, count) for n in sizes[:sparse]]).reshape(sparse, count)
    values = rng.integers(-4, 5, (count, *sizes[sparse:]))
    if dtype.startswith("float"):
        values = values + rng.random(values.shape)
    return where, values.astype(dtype), sizes


def pair(form: Any, dtype: str = "float64", seed: int = 0) -> tuple[Any, Any]:
    """The same sparse tensor here and there, with the leaves that its values come from."""
    where, values, sizes = parts(form, dtype, seed)
    ours = dj.sparse_coo_tensor(dj.tensor(where), dj.tensor(values), sizes)
    theirs = torch.sparse_coo_tensor(torch.tensor(where), torch.tensor(values), sizes)
    return ours, theirs


def same(ours: Any, theirs: Any) -> None:
    """One kind, dtype, size, and the same elements; where both are coalesced the same positions.

    Up to the order in which values of one position are added.
    """
    assert theirs.is_sparse == ours.is_sparse
    assert tuple(theirs.shape) == tuple(ours.shape)
    assert str(theirs.dtype).split(".")[1] == ours.dtype.name.rstrip("_")
    if theirs.is_sparse:
        assert (theirs.sparse_dim(), theirs.dense_dim()) == (ours.sparse_dim(), ours.dense_dim())
        ours, theirs = ours.coalesce(), theirs.coalesce()
        if theirs.values().numel():  # where values have no elements, PyTorch may drop positions
            assert theirs.indices().tolist() == ours.indices().tolist()
        else:
            ours, theirs = (x.to_dense().to_sparse() for x in (ours, theirs))
        ours, theirs = ours.values(), theirs.values()
    tolerance = {"float32": 2e-6, "float64": 1e-14}.get(ours.dtype.name, 0)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=4 * tolerance
    )


def both(run: Callable[[Any, Any], Any], ours: Any, theirs: Any) -> None:
    same(run(dj, ours), run(torch, theirs))


UNARY: list[Callable[[Any, Any], Any]] = [
    lambda t, x: x.coalesce(),
    lambda t, x: x.to_dense(),
    lambda t, x: -x,
    lambda t, x: x * 2,
    lambda t, x: 2.5 * x,
    lambda t, x: x / 2,
    lambda t, x: x * t.tensor(3),
    lambda t, x: x.mul(x),
    lambda t, x: x + x,
    lambda t, x: x.sub(x * 3),
    lambda t, x: t.add(x, x, alpha=2),
    lambda t, x: x.float(),
    lambda t, x: x.to(t.int32),
    lambda t, x: x.clone(),
    lambda t, x: x.detach(),
    lambda t, x: abs(x),
    lambda t, x: t.relu(x),
    lambda t, x: x.sign(),
    lambda t, x: x.pow(2),
    lambda t, x: x.transpose(-1, -1),
    lambda t, x: x.sum(),
    lambda t, x: t.sparse.sum(x),
    lambda t, x: t.sparse.sum(x, 0),
    lambda t, x: t.sparse.sum(x, [-1]),
    lambda t, x: t.sparse.sum(x, list(range(x.dim()))),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_operations_on_one_tensor_give_what_pytorch_gives(form: Any, dtype: str) -> None:
    for number, run in enumerate(UNARY):
        ours, theirs = pair(form, dtype, number)
        both(run, ours, theirs)
        both(run, ours.coalesce(), theirs.coalesce())


def test_bool_values_of_one_position_are_joined_by_or() -> None:
    where, values = [[0, 0, 1], [1, 1, 2]], [True, True, False]
    ours, theirs = (t.sparse_coo_tensor(where, values, (2, 3)) for t in (dj, torch))

    both(lambda t, x: x.coalesce(), ours, theirs)
    both(lambda t, x: x.to_dense(), ours, theirs)
    both(lambda t, x: x.sum(), ours, theirs)
    both(lambda t, x: x.sum(0), ours, theirs)


def test_dense_and_sparse_tensors_meet_elementwise() -> None:
    """Addition gives a dense tensor, multiplication a sparse one; the dense one broadcasts."""
    for form in FORMS:
        ours, theirs = pair(form)
        shape = form[0]
        for size in (shape, shape[-1:], (1,) * len(shape)):
            array = np.random.default_rng(1).random(size)
            dense = (dj.tensor(array), torch.tensor(array))
            if size == shape:
                same(dense[0] + ours, dense[1] + theirs)
                same(dense[0] - ours, dense[1] - theirs)
            same(ours * dense[0], theirs.to_dense().mul(dense[1]).sparse_mask(theirs.coalesce()))
            same(dense[0] * ours, ours * dense[0])


def test_sparse_tensors_of_two_patterns_are_added_and_multiplied() -> None:
    for form in FORMS:
        for seed in range(3):
            a, b = pair(form, seed=seed), pair(form, "int64", seed + 7)
            for run in (
                lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: y * x
            ):  # fmt: skip
                found, expected = run(a[0], b[0]), run(a[1], b[1])
                assert found.is_sparse
                same(found.to_dense(), expected.to_dense())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_products_with_dense_matrices(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for rows, inner, columns, count in [(4, 5, 3, 17), (4, 5, 3, 0), (1, 1, 1, 2), (3, 4, 0, 5)]:
        ours, theirs = pair(((rows, inner), 2, count), dtype)
        array = rng.integers(-4, 5, (inner, columns)).astype(dtype)
        x, y = dj.tensor(array), torch.tensor(array)
        expected = theirs.to_dense() @ y
        for found in (
            ours @ x, dj.mm(ours, x), dj.spmm(ours, x), dj.sparse.mm(ours, x), dj.matmul(ours, x),
            ours.mm(x), (x.t() @ ours.t()).t(), dj.addmm(dj.zeros_like(ours @ x), ours, x),
            dj.sparse.addmm(dj.zeros_like(ours @ x), ours, x), ours.coalesce() @ x,
        ):  # fmt: skip
            assert not found.is_sparse
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
        vector = array[:, 0] if columns else np.zeros(inner, dtype)
        np.testing.assert_allclose(
            (ours @ dj.tensor(vector)).numpy(), (theirs.to_dense() @ torch.tensor(vector)).numpy(),
            rtol=1e-6,
        )  # fmt: skip
        assert (ours.mv(dj.tensor(vector)) == ours @ dj.tensor(vector)).all()


def test_products_of_batches_and_of_two_sparse_matrices() -> None:
    ours, theirs = pair(((2, 3, 4), 3, 11))
    array = np.random.default_rng(0).random((2, 4, 5))
    found, expected = ours.bmm(dj.tensor(array)), theirs.bmm(torch.tensor(array))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    for left, right in [(9, 8), (0, 5), (5, 0), (1, 1), (30, 40)]:
        a, b = pair(((3, 4), 2, left)), pair(((4, 6), 2, right), seed=5)
        same(a[0] @ b[0], a[1] @ b[1])
        same(dj.sparse.mm(a[0].coalesce(), b[0]), a[1] @ b[1])


def test_products_of_16_bit_floats_are_rounded_once() -> None:
    where = [[0] * 300, list(range(300))]
    ones = dj.ones(300, 1, dtype=dj.bfloat16)
    adjacency = dj.sparse_coo_tensor(where, dj.ones(300, dtype=dj.bfloat16), (1, 300))

    assert 300 == (adjacency @ ones).item()
    assert 300 == adjacency.sum(1).to_dense().item()


def test_dims_are_permuted_among_their_kind() -> None:
    for form, dims in [(((3, 4, 2), 2, 9), (1, 0, 2)), (((2, 3, 4), 3, 11), (2, 0, 1)),
                       (((2, 3, 4), 1, 3), (0, 2, 1))]:  # fmt: skip
        ours, theirs = pair(form)
        both(lambda t, x, dims=dims: x.permute(*dims), ours, theirs)
    ours, theirs = pair(FORMS[0])
    both(lambda t, x: x.t(), ours, theirs)
    both(lambda t, x: x.T, ours, theirs)
    both(lambda t, x: t.transpose(x, 0, 1), ours, theirs)
    with pytest.raises(UnsupportedError, match=r"permute.*to_dense"):
        pair(((3, 4), 1, 6))[0].t()


def test_sums_keep_dims() -> None:
    """They are dense where no sparse dim is left."""
    for form in FORMS:
        for dim in range(len(form[0])):
            ours, theirs = (x.sum(dim, keepdim=True) for x in pair(form, "int64"))
            assert theirs.is_sparse == ours.is_sparse
            assert theirs.to_dense().tolist() == ours.to_dense().tolist()


def test_gradients_reach_values_and_dense_operands() -> None:
    """The chain that graph networks are: scaled, coalesced, transposed, multiplied."""
    programs: list[Callable[[Any, Any, Any], Any]] = [
        lambda t, a, x: a @ x,
        lambda t, a, x: t.sparse.mm(a, x).tanh(),
        lambda t, a, x: (a.coalesce() * 2).t() @ x[: a.shape[0]],
        lambda t, a, x: (a @ a.t()).to_dense() @ x[: a.shape[0]],
        lambda t, a, x: times(a, x.t()[: a.shape[0]]),
        lambda t, a, x: x.t()[: a.shape[0]] + a,
        lambda t, a, x: t.sparse.sum(a, 1).to_dense() * x[: a.shape[0], 0],
        lambda t, a, x: (a + a * 3).coalesce().values().sin(),
        lambda t, a, x: t.sparse.softmax(a, 1).to_dense() @ x,
        lambda t, a, x: t.sparse.log_softmax(a, 0).to_dense() @ x,
        lambda t, a, x: abs(a / 3).to_dense().to(x.dtype) @ x,
    ]
    where, values, sizes = parts(((4, 5), 2, 17))
    array = np.random.default_rng(2).random((5, 4))
    for run in programs:
        found = []
        for t in (dj, torch):
            v = t.tensor(values, requires_grad=True)
            x = t.tensor(array, requires_grad=True)
            result = run(t, t.sparse_coo_tensor(t.tensor(where), v, sizes), x)
            (result * result.detach()).sum().backward()
            found.append([result, v.grad, t.zeros(1) if x.grad is None else x.grad])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(
                ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12
            )


def times(a: Any, x: Any) -> Any:
    """The product as a dense tensor; PyTorch has no gradient of its product for such an x."""
    return (a * x).to_dense() if isinstance(a, SparseTensor) else a.to_dense() * x


def test_gradients_are_those_of_differences() -> None:
    where = dj.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])

    def product(values: Any, x: Any) -> Any:
        adjacency = dj.sparse_coo_tensor(where, values, (2, 3))
        return (adjacency @ x).tanh(), dj.sparse.softmax(adjacency, 1).to_dense()

    values, x = dj.rand(4, dtype=dj.float64), dj.rand(3, 2, dtype=dj.float64)
    operands = (values.requires_grad_(), x.requires_grad_())
    assert dj.autograd.gradcheck(product, operands)
    assert dj.autograd.gradgradcheck(product, operands)


def test_every_other_row_refuses_a_sparse_operand_by_name() -> None:
    """All rows of the table, with the sparse tensor in each place."""
    sparse, dense = dj.eye(2).to_sparse(), dj.ones(2, 2)
    refused = 0
    for row in TABLE:
        if row in ROWS:
            continue
        for place in range(max(1, len(row.inputs))):
            inputs: list[Any] = [dense] * max(1, len(row.inputs))
            inputs[place] = sparse
            if not row.inputs:
                continue
            with pytest.raises(UnsupportedError, match=rf"^{row.name}: .*to_dense"):
                row.run(*inputs, **dict.fromkeys(row.attributes))
            refused += 1
    assert refused > 200


def test_operands_that_do_not_fit_are_refused() -> None:
    a = dj.eye(2).to_sparse()
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (ShapeError, lambda: a @ dj.ones(3, 2)),
        (ShapeError, lambda: a * dj.ones(3, 2, 2)),
        (ShapeError, lambda: a + dj.eye(3).to_sparse()),
        (ShapeError, lambda: a + dj.eye(2).to_sparse(1)),
        (RuntimeError, lambda: a @ dj.ones(2, 2).double()),
        (UnsupportedError, lambda: a + 1),
        (UnsupportedError, lambda: 1 - a),
        (UnsupportedError, lambda: a / dj.ones(2, 2)),
        (UnsupportedError, lambda: 1 / a),
        (UnsupportedError, lambda: a**-1),
        (UnsupportedError, lambda: 2**a),
        (UnsupportedError, lambda: a == a),
        (UnsupportedError, lambda: dj.exp(a)),
        (UnsupportedError, lambda: dj.cat([a, a])),
        (UnsupportedError, lambda: dj.stack([dj.ones(2, 2), a])),
        (UnsupportedError, lambda: dj.nn.functional.linear(a, dj.ones(2, 2))),
        (UnsupportedError, lambda: dj.nn.functional.dropout(a, 0.5)),
        (UnsupportedError, lambda: dj.eye(2).to_sparse(1) @ dj.ones(2, 2)),
    ]  # fmt: skip
    for error, call in refused:
        with pytest.raises(error):
            call()


def test_a_dense_tensor_takes_a_sparse_one_in_place() -> None:
    """Small and large, with and without gradients."""
    for size in (3, 200):
        for tracked in (False, True):
            x, a = dj.ones(size, size), dj.eye(size).to_sparse()
            with dj.set_grad_enabled(tracked):
                x += a
                x.sub_(a * 3)
            assert (x == 1 - 2 * dj.eye(size)).all()
            assert not isinstance(x, SparseTensor)
