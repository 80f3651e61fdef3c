"""Graph networks over sparse tensors, as programs write them: eager and compiled, like PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
    pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor"),
]

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 30, 90, 12, 8, 4
RNG = np.random.default_rng(0)
PLACES = RNG.integers(0, NODES, (2, EDGES))
X = RNG.random((NODES, FEATURES), np.float32)
LABELS = RNG.integers(0, CLASSES, NODES)
WEIGHTS = [
    RNG.standard_normal(shape).astype(np.float32) / 2
    for shape in ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
]


def of_the_older_class(t: Any) -> Any:
    """Normalised by rows, through the class by element type."""
    degrees = np.bincount(PLACES[0], minlength=NODES).clip(1)
    values = (1 / degrees[PLACES[0]]).astype(np.float32)
    return t.sparse.FloatTensor(t.from_numpy(PLACES), t.from_numpy(values), t.Size((NODES, NODES)))


def of_the_function(t: Any) -> Any:
    """With loops, normalised from both sides, in sparse arithmetic."""
    values = t.ones(EDGES)
    adjacency = t.sparse_coo_tensor(t.from_numpy(PLACES), values, (NODES, NODES))
    adjacency = (adjacency + t.eye(NODES).to_sparse()).coalesce()
    degrees = t.sparse.sum(adjacency, dim=1).to_dense()
    rows, columns = adjacency.indices()
    values = adjacency.values() * degrees[rows] ** -0.5 * degrees[columns] ** -0.5
    return t.sparse_coo_tensor(adjacency.indices(), values, adjacency.size()).coalesce()


def network(t: Any, product: Callable[[Any, Any, Any], Any]) -> Any:
    """A GCN of two layers, as a module of `t`."""

    class Convolution(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, weight: Any, bias: Any) -> None:
            super().__init__()
            self.weight = t.nn.Parameter(t.tensor(weight))
            self.bias = t.nn.Parameter(t.tensor(bias))

        def forward(self, x: Any, adjacency: Any) -> Any:
            support = t.mm(x, self.weight)
            return product(t, adjacency, support) + self.bias

    class Network(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = Convolution(*WEIGHTS[:2])
            self.second = Convolution(*WEIGHTS[2:])

        def forward(self, x: Any, adjacency: Any) -> Any:
            x = t.nn.functional.relu(self.first(x, adjacency))
            x = t.nn.functional.dropout(x, 0.5, training=False)
            return t.nn.functional.log_softmax(self.second(x, adjacency), dim=1)

    return Network()


def trained(t: Any, make: Any, product: Any, change: Callable[[Any], Any] = lambda f: f) -> Any:
    """The losses of some steps."""
    model = network(t, product)
    optimiser = t.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    call = change(model)
    adjacency, x, labels = make(t), t.from_numpy(X), t.from_numpy(LABELS)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = t.nn.functional.nll_loss(call(x, adjacency), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


PRODUCTS = {
    "spmm": lambda t, a, x: t.spmm(a, x),
    "sparse.mm": lambda t, a, x: t.sparse.mm(a, x),
    "@": lambda t, a, x: a @ x,
    "transposed": lambda t, a, x: t.mm(a.t(), x),
}


@pytest.mark.parametrize("make", [of_the_older_class, of_the_function])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_graph_convolution_trains_as_in_pytorch(make: Any, name: str) -> None:
    product = PRODUCTS[name]
    expected = trained(torch, make, product)

    assert expected == pytest.approx(trained(dj, make, product), rel=1e-4)
    assert expected == pytest.approx(trained(dj, make, product, dj.compile), rel=1e-4)


def attention(t: Any, values: Any, x: Any) -> Any:
    """Weights of edges by a softmax over each node's edges, learnt."""
    adjacency = t.sparse_coo_tensor(t.from_numpy(PLACES), values, (NODES, NODES)).coalesce()
    weights = t.sparse.softmax(adjacency, dim=1)
    scores = (x @ x.t()).sparse_mask(weights.detach())
    mixed = t.sparse_coo_tensor(
        weights.indices(), weights.values() * scores.values().sigmoid(), weights.size()
    )
    return (t.sparse.mm(mixed, x).tanh() ** 2).sum()


def test_attention_over_edges_has_the_gradients_of_pytorch() -> None:
    found = []
    for t, change in ((torch, lambda f: f), (dj, lambda f: f), (dj, dj.compile)):
        values = t.linspace(-1, 1, EDGES).requires_grad_()
        x = t.from_numpy(X).clone().requires_grad_()
        loss = change(lambda v, x, t=t: attention(t, v, x))(values, x)
        loss.backward()
        found.append((loss.detach().numpy(), values.grad.numpy(), x.grad.numpy()))
    for ours in found[1:]:
        for expected, mine in zip(found[0], ours, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)
