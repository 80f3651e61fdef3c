"""`sparse_coo_tensor` and the functions of `dynajit.sparse`, against PyTorch."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, BoundsError, DeviceError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor")

WHERE = [[0, 1, 1, 0], [2, 0, 2, 2]]
VALUES = [3.0, 4.0, 5.0, 6.0]


@pytest.fixture(autouse=True)
def _checked() -> Iterator[None]:
    """PyTorch checks positions, and so does not warn that it does not."""
    with torch.sparse.check_sparse_tensor_invariants():
        yield


def text(x: Any) -> str:
    return str(x).replace("torch.", "dynajit.")


def test_all_forms_of_arguments() -> None:
    forms: list[Callable[[Any], Any]] = [
        lambda t: t.sparse_coo_tensor(WHERE, VALUES),
        lambda t: t.sparse_coo_tensor(WHERE, VALUES, (2, 3)),
        lambda t: t.sparse_coo_tensor(t.tensor(WHERE), t.tensor(VALUES), [5, 3]),
        lambda t: t.sparse_coo_tensor(t.tensor(WHERE).int(), t.tensor(VALUES), t.Size([2, 3])),
        lambda t: t.sparse_coo_tensor(
            indices=t.tensor(WHERE), values=t.tensor(VALUES), size=(2, 3)
        ),
        lambda t: t.sparse_coo_tensor(np.array(WHERE), np.array(VALUES), (2, 3)),
        lambda t: t.sparse_coo_tensor(WHERE, VALUES, (2, 3), dtype=t.float64, device="cpu"),
        lambda t: t.sparse_coo_tensor(WHERE, [1, 2, 3, 4], (2, 3)),
        lambda t: t.sparse_coo_tensor(WHERE, VALUES, (2, 3), requires_grad=True),
        lambda t: t.sparse_coo_tensor(WHERE, [[1.0, 2.0]] * 4, (2, 3, 2)),
        lambda t: t.sparse_coo_tensor(WHERE, [[1.0, 2.0]] * 4),
        lambda t: t.sparse_coo_tensor((2, 3)),
        lambda t: t.sparse_coo_tensor((2, 3), dtype=t.int64),
        lambda t: t.sparse_coo_tensor(size=(2, 3)),
        lambda t: t.sparse_coo_tensor(t.zeros(2, 0).long(), t.zeros(0), (2, 3)),
        lambda t: t.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), is_coalesced=True),
        lambda t: t.sparse.FloatTensor(t.tensor(WHERE), t.tensor(VALUES), t.Size([2, 3])),
        lambda t: t.sparse.FloatTensor(t.tensor(WHERE), t.tensor(VALUES)),
        lambda t: t.sparse.FloatTensor(2, 3),
        lambda t: t.sparse.FloatTensor(t.Size([2, 3])),
        lambda t: t.sparse.LongTensor(t.tensor(WHERE), t.tensor([1, 2, 3, 4]), t.Size([2, 3])),
        lambda t: t.sparse.DoubleTensor(t.tensor(WHERE), t.tensor(VALUES).double()),
    ]
    for number, form in enumerate(forms):
        assert text(form(torch)) == text(form(dj)), number
        assert form(torch).is_coalesced() == form(dj).is_coalesced(), number


def test_classes_by_element_type_tell_tensors_apart() -> None:
    x = dj.sparse.FloatTensor(2, 3)
    assert isinstance(x, dj.sparse.FloatTensor)
    assert not isinstance(x, dj.sparse.DoubleTensor)
    assert isinstance(x.double(), dj.sparse.DoubleTensor)
    assert not isinstance(dj.ones(2), dj.sparse.FloatTensor)
    assert "torch.sparse.DoubleTensor" == x.double().type()
    with pytest.raises(TypeError, match="float32"):
        dj.sparse.FloatTensor(dj.tensor(WHERE), dj.ones(4).double(), (2, 3))


def test_wrong_arguments_are_refused() -> None:
    wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (BoundsError, "size is 1 but found index 1",
         lambda: dj.sparse_coo_tensor(WHERE, VALUES, (1, 3))),
        (BoundsError, "found index -1", lambda: dj.sparse_coo_tensor([[-1]], [1.0], (2,))),
        (BoundsError, "found index -1", lambda: dj.sparse_coo_tensor([[-1, 3]], [1.0, 2.0])),
        (ShapeError, "same nnz", lambda: dj.sparse_coo_tensor(WHERE, VALUES[:3], (2, 3))),
        (ShapeError, "sparse_dim", lambda: dj.sparse_coo_tensor(WHERE, VALUES, (2, 3, 4))),
        (ShapeError, "incorrect size", lambda: dj.sparse_coo_tensor([[0]], [[1.0]], (2, 3))),
        (ShapeError, "sparse_dim x nnz", lambda: dj.sparse_coo_tensor([0, 1], [1.0, 2.0])),
        (ShapeError, "negative", lambda: dj.sparse_coo_tensor((2, -3))),
        (ArgumentError, "is_coalesced",
         lambda: dj.sparse_coo_tensor(WHERE, VALUES, (2, 3), is_coalesced=True)),
        (ArgumentError, "expected sparse_coo_tensor", lambda: dj.sparse_coo_tensor()),
        (ArgumentError, "expected sparse_coo_tensor", lambda: dj.sparse_coo_tensor(WHERE, None)),
        (DeviceError, "pin_memory",
         lambda: dj.sparse_coo_tensor(WHERE, VALUES, (2, 3), pin_memory=True)),
        (ArgumentError, "expected a sparse tensor", lambda: dj.sparse.sum(dj.ones(2))),
        (ArgumentError, "expected a sparse tensor", lambda: dj.sparse.softmax(dj.ones(2), 0)),
        (ArgumentError, "Tensor alone", lambda: dj.sparse.FloatTensor(dj.tensor(WHERE))),
        (ArgumentError, "expected 'sum'",
         lambda: dj.sparse.mm(dj.eye(2).to_sparse(), dj.eye(2), "mean")),
    ]  # fmt: skip
    for error, words, call in wrong:
        with pytest.raises(error, match=words):
            call()


def test_a_leaf_is_cut_off_from_the_values_it_is_made_of() -> None:
    values = dj.tensor(VALUES, requires_grad=True)
    leaf = dj.sparse_coo_tensor(WHERE, values, (2, 3), requires_grad=True)
    other = dj.sparse_coo_tensor(WHERE, values, (2, 3))

    assert (True, False) == (leaf.is_leaf, other.is_leaf)
    assert other.requires_grad
    assert not dj.sparse_coo_tensor(WHERE, VALUES, (2, 3)).requires_grad_(False).requires_grad
    (leaf.to_dense().sum() + 2 * other.to_dense().sum()).backward()
    assert [2.0] * 4 == values.grad.tolist()


def test_a_sparse_tensor_does_not_change_whether_its_values_require_gradients() -> None:
    values = dj.tensor(VALUES)
    dj.sparse_coo_tensor(WHERE, values, (2, 3)).requires_grad_()

    assert not values.requires_grad


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_over_the_positions_there_are(name: str) -> None:
    rng = np.random.default_rng(0)
    for sizes, sparse, count in [
        ((4, 5), 2, 12), ((4, 5), 2, 0), ((3, 4, 2), 2, 7), ((6,), 1, 4), ((2, 3, 4), 3, 9)
    ]:  # fmt: skip
        where = np.stack([rng.integers(0, n, count) for n in sizes[:sparse]]).reshape(sparse, count)
        values = rng.normal(size=(count, *sizes[sparse:])) * 30
        for dim in range(-1, len(sizes)):
            for options in ({}, {"dtype": "float32"}):
                found = []
                for t in (dj, torch):
                    x = t.sparse_coo_tensor(where, values, sizes)
                    kinds = {key: getattr(t, kind) for key, kind in options.items()}
                    found.append(getattr(t.sparse, name)(x, dim, **kinds))
                ours, theirs = found
                assert theirs.indices().tolist() == ours.indices().tolist()
                assert str(theirs.dtype).split(".")[1] == ours.dtype.name
                atol = 1e-6 if options else 1e-13  # PyTorch takes the logarithm in float64
                np.testing.assert_allclose(
                    ours.values().numpy(), theirs.values().numpy(), rtol=1e-5, atol=atol
                )


def test_sums_take_a_dtype() -> None:
    for options in ({}, {"dtype": "float64"}, {"dtype": "int64"}):
        for dim in (None, 0, 1, [0, 1]):
            found = []
            for t in (dj, torch):
                x = t.sparse_coo_tensor(WHERE, VALUES, (2, 3))
                kinds = {key: getattr(t, kind) for key, kind in options.items()}
                result = t.sparse.sum(x, **kinds) if dim is None else t.sparse.sum(x, dim, **kinds)
                found.append(text(result.coalesce() if result.is_sparse else result))
            assert found[0] == found[1]
