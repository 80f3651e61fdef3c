"""A program of a user's: `tests/test_stubs.py` has type checkers read it, and runs it."""

import dynajit as dj
from dynajit import nn
from dynajit.nn import functional as F


class Perceptron(nn.Module):
    """Two layers and a residual connection."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.second = nn.Linear(hidden, features, bias=False)
        self.scale = nn.Parameter(dj.ones(features))

    def forward(self, x: dj.Tensor) -> dj.Tensor:
        """Shape: as x."""
        hidden = F.gelu(self.first(x))
        change: dj.Tensor = self.second(hidden)
        return x + self.scale * change


@dj.compile
def loss_of(prediction: dj.Tensor, target: dj.Tensor, weight: float = 1.0) -> dj.Tensor:
    """The weighted mean of squares."""
    return ((prediction - target) ** 2).mean() * weight


@dj.compile(fullgraph=True)
def normalized(x: dj.Tensor) -> dj.Tensor:
    """Mean 0, deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-6)


def train(steps: int) -> float:
    """The last loss."""
    dj.manual_seed(0)
    model = Perceptron(4, 8)
    optimizer = dj.optim.Adam(model.parameters(), lr=1e-2)
    schedule = dj.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    data = normalized(dj.randn(16, 4))
    target = dj.cat([data[:, 1:], data[:, :1]], dim=1)
    total = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(data), target, weight=0.5)
        loss.backward()
        optimizer.step()
        schedule.step()
        total = loss.item()
    with dj.no_grad():
        best = (model(data) - target).abs().amax(dim=1)
        mask = best > best.median()
        data[mask] = 0.0
    rows, columns = target.shape
    numbers: list[float] = dj.add(best, 1, alpha=2).clamp_(0, 10).tolist()
    assert len(numbers) == rows and columns == 4
    first: dj.Tensor = dj.stack((data, target))[0, ..., 1].exp().sum() + dj.linalg.norm(data)
    first += 1
    assert first.ndim == 0 and float(first) > 1
    return float(total)


if __name__ == "__main__":
    print(train(3))
