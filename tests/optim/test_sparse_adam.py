"""Optimisers that take sparse gradients, against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import InvalidValueError, UnsupportedError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse invariant checks"
)  # PyTorch, of its own step

OPTIMISERS: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda t, p: t.optim.SGD(p, lr=0.1),
    "sgd lr tensor": lambda t, p: t.optim.SGD(p, lr=t.tensor(0.1)),
    "momentum": lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, maximize=True),
    "nesterov": lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sparse adam": lambda t, p: t.optim.SparseAdam(p, lr=0.1),
    "sparse adam options": lambda t, p: t.optim.SparseAdam(
        p, lr=t.tensor(0.1), betas=(0.5, 0.7), eps=1e-3, maximize=True
    ),
    "adagrad": lambda t, p: t.optim.Adagrad(p, lr=0.1),
    "adagrad options": lambda t, p: t.optim.Adagrad(
        p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2, maximize=True
    ),
}
WEIGHT = np.random.default_rng(0).random((10, 3))


def trained(t: Any, name: str, steps: int = 6) -> tuple[Any, Any]:
    """(the module, its optimiser): each step sees other rows, twice."""
    module = t.nn.Embedding(10, 3, sparse=True, dtype=t.float64)
    with t.no_grad():
        module.weight.copy_(t.tensor(WEIGHT))
    optimiser = OPTIMISERS[name](t, list(module.parameters()))
    train(t, module, optimiser, steps)
    return module, optimiser


def train(t: Any, module: Any, optimiser: Any, steps: int) -> None:
    rng = np.random.default_rng(1)
    for step in range(steps):
        optimiser.zero_grad(set_to_none=bool(step % 2))
        numbers = t.tensor(rng.integers(0, 8, (3, 2)))
        for _ in range(2):
            (module(numbers).square().sum() * 0.3 + module(numbers).sum()).backward()
        assert module.weight.grad.is_sparse
        optimiser.step()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_pytorch(name: str) -> None:
    ours, theirs = (trained(t, name)[0].weight.detach().numpy() for t in (dj, torch))

    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert (WEIGHT[8:] == ours[8:]).all()


def test_momentum_keeps_each_row_once() -> None:
    state = trained(dj, "momentum")[1].state_dict()["state"][0]

    assert state["momentum_buffer"].is_sparse
    assert state["momentum_buffer"]._nnz() <= 8


def test_momentum_of_a_sparse_gradient_takes_a_dense_one() -> None:
    """As if all had been dense; PyTorch refuses it."""
    found = []
    for t in (torch, dj):
        module = t.nn.Embedding.from_pretrained(t.tensor(WEIGHT), freeze=False, sparse=t is dj)
        optimiser = t.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for loss in (
            lambda m=module, t=t: m(t.tensor([1, 3])).sum(),
            lambda m=module: m.weight.square().sum(),
            lambda m=module, t=t: m(t.tensor([2])).sum(),
        ):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        found.append(module.weight.detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_moments_are_those_of_pytorch_and_are_saved() -> None:
    (module, ours), (_, theirs) = (trained(t, "sparse adam") for t in (dj, torch))
    state, expected = (o.state_dict()["state"][0] for o in (ours, theirs))
    assert expected["step"] == state["step"] == 6
    for key in ("exp_avg", "exp_avg_sq"):
        np.testing.assert_allclose(state[key].numpy(), expected[key].numpy(), rtol=1e-12)
    again = dj.nn.Embedding(10, 3, sparse=True, dtype=dj.float64)
    again.load_state_dict(module.state_dict())
    optimiser = dj.optim.SparseAdam(again.parameters(), lr=0.1)
    optimiser.load_state_dict(ours.state_dict())
    train(dj, module, ours, 2)
    train(dj, again, optimiser, 2)
    assert dj.equal(module.weight, again.weight)


@pytest.mark.parametrize("name", ["sgd", "sparse adam", "adagrad"])
def test_compiled_steps_take_sparse_gradients(name: str) -> None:
    (module, optimiser), (other, plain) = (trained(dj, name) for _ in range(2))
    step = dj.compile(optimiser.step)
    for _ in range(3):
        step()
        plain.step()
    assert dj.allclose(module.weight, other.weight)


def test_wrong_gradients_and_options_are_refused() -> None:
    w = dj.ones(4, 3, requires_grad=True)
    w.sum().backward()
    with pytest.raises(UnsupportedError, match="does not support dense gradients"):
        dj.optim.SparseAdam([w]).step()
    w.grad = None
    dj.nn.functional.embedding(dj.tensor([1]), w, sparse=True).sum().backward()
    for optimiser in (dj.optim.Adam, dj.optim.RMSprop, dj.optim.AdamW):
        with pytest.raises(UnsupportedError, match="does not support sparse gradients"):
            optimiser([w]).step()
    with pytest.raises(UnsupportedError, match="weight_decay"):
        dj.optim.Adagrad([w], weight_decay=0.1).step()
    assert (w == 1).all()
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}, {"lr": dj.ones(2)}):
        with pytest.raises(InvalidValueError):
            dj.optim.SparseAdam([w], **options)
    with pytest.raises(InvalidValueError, match="dense, real parameters"):
        dj.optim.SparseAdam([dj.eye(2).to_sparse().requires_grad_()])
