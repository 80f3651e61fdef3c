"""A training loop on handwritten digits, eager and compiled.

    python examples/digits.py [--small] [--epochs N]

The data are scikit-learn's 1797 images of 8 x 8 pixels, which come with that library. The same loop
runs twice from the same seed: the only difference is `dj.compile` around the step.
"""

import argparse
import time
from collections.abc import Callable

from sklearn.datasets import load_digits

import dynajit as dj
from dynajit import nn
from dynajit.utils.data import DataLoader, TensorDataset, random_split

Step = Callable[[dj.Tensor, dj.Tensor], dj.Tensor]


def digits() -> TensorDataset:
    """(1797, 64) pixels from 0 to 1, and (1797,) classes."""
    images, classes = load_digits(return_X_y=True)
    return TensorDataset(dj.tensor(images / 16, dtype=dj.float32), dj.tensor(classes))


def make_model() -> nn.Module:
    """A multilayer perceptron, (n, 64) -> (n, 10)."""
    return nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


def train(compiled: bool, epochs: int) -> tuple[float, float]:
    """Test accuracy, and seconds of training behind the first epoch."""
    dj.manual_seed(0)
    train_set, test_set = random_split(digits(), [0.8, 0.2])
    model = make_model()
    optimizer = dj.optim.AdamW(model.parameters(), lr=1e-3)

    def step(images: dj.Tensor, classes: dj.Tensor) -> dj.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Step = dj.compile(step, fullgraph=True) if compiled else step
    seconds = 0.0
    for epoch in range(epochs):
        start = time.perf_counter()
        for images, classes in DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True):
            run(images, classes)
        seconds += time.perf_counter() - start if epoch else 0.0

    model.eval()
    images, classes = test_set[:]
    with dj.no_grad():
        correct = (model(images).argmax(dim=1) == classes).float().mean()
    return correct.item(), seconds


def main() -> None:
    """Train both ways, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="three epochs")
    given = parser.parse_args()
    epochs = 3 if given.small else given.epochs

    for compiled in (False, True):
        accuracy, seconds = train(compiled, epochs)
        name = "compiled" if compiled else "eager"
        print(f"{name:9} accuracy {accuracy:.3f}  {seconds:.2f} s behind the first epoch")


if __name__ == "__main__":
    main()
