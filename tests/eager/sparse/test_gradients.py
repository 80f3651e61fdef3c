"""Sparse gradients of embeddings, on the tape and in `.grad`, against PyTorch."""

import copy
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, InvalidValueError, UnsupportedError

torch = pytest.importorskip("torch")

NUMBERS = [[0, 2, 2], [3, 0, 2]]


def table(t: Any) -> Any:
    return t.arange(12.0).reshape(4, 3).sin().requires_grad_()


def facts(gradient: Any) -> Any:
    """What one sees of a gradient; where values are added twice, their order is no matter."""
    if not gradient.is_sparse:
        return False, gradient.tolist()
    sizes = (tuple(gradient.shape), gradient.sparse_dim(), gradient._nnz())
    return sizes, gradient.is_coalesced(), gradient.to_dense().tolist()


def looked_up(t: Any, w: Any, **options: Any) -> Any:
    return t.nn.functional.embedding(t.tensor(NUMBERS), w, sparse=True, **options)


PROGRAMS = {
    "one": lambda t, w: (looked_up(t, w) * 2).sum().backward(),
    "padding": lambda t, w: looked_up(t, w, padding_idx=-2).square().sum().backward(),
    "nothing": lambda t, w: t.nn.functional.embedding(
        t.zeros(0, dtype=t.int64), w, sparse=True
    ).sum().backward(),
    "int32": lambda t, w: t.nn.functional.embedding(
        t.tensor(NUMBERS, dtype=t.int32), w, sparse=True
    ).sum().backward(),
    "twice": lambda t, w: (looked_up(t, w) + looked_up(t, w) * 3).sum().backward(),
    "two runs": lambda t, w: [looked_up(t, w).sum().backward() for _ in range(2)],
    "beside a dense one": lambda t, w: (looked_up(t, w).sum() + (w * w).sum()).backward(),
    "before a dense one": lambda t, w: [
        looked_up(t, w).sum().backward(), (w * w).sum().backward()
    ],
    "after a dense one": lambda t, w: [
        (w * w).sum().backward(), looked_up(t, w).sum().backward()
    ],
    "of what was computed": lambda t, w: looked_up(t, w * 2).sum().backward(),
    "bags": lambda t, w: t.nn.functional.embedding_bag(
        t.tensor(NUMBERS), w, sparse=True, mode="mean"
    ).square().sum().backward(),
    "sums of bags": lambda t, w: t.nn.functional.embedding_bag(
        t.tensor(NUMBERS[0]), w, t.tensor([0, 1]), sparse=True, mode="sum"
    ).square().sum().backward(),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    found = []
    for t in (torch, dj):
        w = table(t)
        PROGRAMS[name](t, w)
        found.append(facts(w.grad))

    expected, ours = found
    assert expected[:-1] == ours[:-1]
    assert pytest.approx(torch.tensor(expected[-1]).flatten().tolist(), abs=1e-6) == (
        torch.tensor(ours[-1]).flatten().tolist()
    )


def test_gradients_may_be_asked_for_and_watched() -> None:
    w = table(dj)
    (found,) = dj.autograd.grad(looked_up(dj, w).sum(), w)
    assert found.is_sparse
    seen: list[Any] = []
    handle = w.register_hook(lambda g: seen.append(g.is_sparse))
    with dj.autograd.detect_anomaly():
        looked_up(dj, w).sum().backward()
    handle.remove()
    assert [True] == seen
    assert copy.deepcopy(w).grad.to_dense().tolist() == w.grad.to_dense().tolist()
    with (
        pytest.raises(AutogradError, match="nan"),
        dj.autograd.detect_anomaly(),
    ):
        (looked_up(dj, w) * float("nan")).sum().backward()


def test_gradients_of_gradients_go_through_the_values() -> None:
    w, expected = table(dj), table(dj)
    (sparse,) = dj.autograd.grad(looked_up(dj, w).pow(3).sum(), w, create_graph=True)
    dense = dj.nn.functional.embedding(dj.tensor(NUMBERS), expected)
    (other,) = dj.autograd.grad(dense.pow(3).sum(), expected, create_graph=True)
    sparse.to_dense().square().sum().backward()
    other.square().sum().backward()

    assert dj.allclose(w.grad.to_dense(), expected.grad)


def test_a_gradient_is_of_the_size_of_its_tensor() -> None:
    w = table(dj)
    w.grad = dj.eye(4).to_sparse() @ dj.ones(4, 3).to_sparse()
    assert w.grad.is_sparse
    for wrong in (dj.eye(4).to_sparse(), dj.sparse_coo_tensor((0, 0))):
        with pytest.raises(AutogradError, match="different size"):
            w.grad = wrong
    empty = dj.zeros(0, requires_grad=True)
    with pytest.raises(AutogradError, match="different size"):
        empty.grad = dj.eye(4).to_sparse()  # which holds an empty array, too


def test_modules_take_sparse_and_say_so() -> None:
    for t in (torch, dj):
        assert "Embedding(4, 3, sparse=True)" == repr(t.nn.Embedding(4, 3, sparse=True))
        module = t.nn.Embedding(4, 3, sparse=True)
        module(t.tensor(NUMBERS)).sum().backward()
        assert module.weight.grad.is_sparse
        module.zero_grad(set_to_none=False)
        assert 0 == module.weight.grad._nnz()


def test_what_has_no_sparse_gradient_is_refused() -> None:
    w = table(dj)
    with pytest.raises(UnsupportedError, match="frequencies"):
        looked_up(dj, w, scale_grad_by_freq=True)
    with pytest.raises(InvalidValueError, match="max mode"):
        dj.nn.functional.embedding_bag(dj.tensor(NUMBERS), w, sparse=True, mode="max")


def test_compiled_functions_break_at_them() -> None:
    module = dj.nn.Embedding(4, 3, sparse=True)

    def loss(numbers: Any) -> Any:
        return (module(numbers + 1) * 2).sum()

    compiled = dj.compile(loss)
    for numbers in (dj.tensor([0, 1]), dj.tensor([2, 2, 0])):
        module.weight.grad = None
        compiled(numbers).backward()
        gradient = module.weight.grad
        assert gradient.is_sparse
        module.weight.grad = None
        loss(numbers).backward()
        assert dj.equal(gradient.to_dense(), module.weight.grad.to_dense())
    with pytest.raises(RuntimeError, match="fullgraph"):
        dj.compile(loss, fullgraph=True)(dj.tensor([0, 1]))
    with dj.no_grad():
        found = dj.compile(loss, fullgraph=True)(dj.tensor([0, 1]))
    assert dj.allclose(found, loss(dj.tensor([0, 1])))
