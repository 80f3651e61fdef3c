"""A ConvNet on images that the workers of a data loader prepare.

    python examples/convnet.py [--small] [--workers N]

Each sample is a digit of scikit-learn's, moved and made noisy by a worker process while the
compiled step of the batch before runs.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import dynajit as dj
from dynajit import nn
from dynajit.utils.data import DataLoader, Dataset


class MovedDigits(Dataset):
    """Digits on 16 x 16 pixels, each at a place of its own.

    Args:
        part: which of the 1797 images.
        seed: of places and noise; a sample is a function of it and of its number.
    """

    def __init__(self, part: slice, seed: int) -> None:
        images, classes = load_digits(return_X_y=True)
        self.images = (images[part] / 16).reshape(-1, 8, 8).astype(np.float32)
        self.classes = classes[part]
        self.seed = seed

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> tuple[dj.Tensor, int]:
        """(1, 16, 16) pixels, and the class."""
        generator = np.random.default_rng((self.seed, number))
        row, column = generator.integers(0, 9, 2)
        image = generator.normal(0, 0.1, (1, 16, 16)).astype(np.float32)
        image[0, row : row + 8, column : column + 8] += self.images[number]
        return dj.from_numpy(image), int(self.classes[number])


def make_model(width: int) -> nn.Module:
    """(n, 1, 16, 16) -> (n, 10)."""
    layers: list[nn.Module] = []
    for channels_in, channels_out in ((1, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [
            nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 4, 10))


def main() -> None:
    """Train and test."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="an epoch on 64 images")
    given = parser.parse_args()
    count, epochs, width = (64, 1, 4) if given.small else (1437, given.epochs, 32)

    dj.manual_seed(0)
    model = make_model(width)
    optimizer = dj.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    @dj.compile(fullgraph=True)
    def step(images: dj.Tensor, classes: dj.Tensor) -> dj.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for epoch in range(epochs):
        train_set = MovedDigits(slice(count), seed=epoch)
        loader = DataLoader(
            train_set, batch_size=32, shuffle=True, drop_last=True, num_workers=given.workers
        )
        losses = [step(images, classes) for images, classes in loader]
        print(f"epoch {epoch + 1}: loss {dj.stack(losses).mean().item():.3f}")

    model.eval()
    predict = dj.compile(model)
    right = seen = 0
    with dj.no_grad():
        test_set = MovedDigits(slice(1437, None), seed=epochs)
        for images, classes in DataLoader(test_set, batch_size=120):
            right += (predict(images).argmax(dim=1) == classes).sum().item()
            seen += len(classes)
    print(f"accuracy {right / seen:.3f} on {seen} images")
    print(step.report().summary)


if __name__ == "__main__":
    main()
