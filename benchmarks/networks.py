"""Whole convolutional networks in evaluation and training, beside PyTorch: eager, and compiled by
both.

Run: `python -m benchmarks networks --compare torch`. Every network is written once over a namespace
`m` (dynajit or torch) and gets the same numbers in both, running statistics included. A step of
training is the mean square of the result, `backward` and SGD with momentum. The figures are the
fastest of interleaved rounds, with one thread and with all cores; ratios are to dynajit compiled.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dynajit as dj
from benchmarks.programs import SEED, fill
from dynajit.core.process import optional
from dynajit.measuring.timing import row

Program = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Network:
    """A network and the size of its images.

    Args:
        make: namespace -> module.
        shape: of an image.
        batches: numbers of images.
    """

    make: Callable[[Any], Any]
    shape: tuple[int, int, int]
    batches: tuple[int, ...] = (1, 8)


# ---------------------------------------------------------------------------------------------
# parts


def normed(m: Any, channels: int, result: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution without bias and its batch normalisation."""
    conv = m.nn.Conv2d(
        channels, result, size, stride=stride, padding=size // 2, groups=groups, bias=False
    )
    return m.nn.Sequential(conv, m.nn.BatchNorm2d(result))


def residual(m: Any, branch: Any, shortcut: Any, last: Any) -> Any:
    """last(branch(x) + shortcut(x))."""

    class Residual(m.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.branch, self.shortcut, self.last = branch, shortcut, last

        def forward(self, x: Any) -> Any:
            return self.last(self.branch(x) + self.shortcut(x))

    return Residual()


def gated(m: Any, channels: int, hidden: int) -> Any:
    """Channels scaled by what two 1x1 convolutions make of their means (squeeze and excitation)."""
    gates = m.nn.Sequential(
        m.nn.AdaptiveAvgPool2d(1),
        m.nn.Conv2d(channels, hidden, 1),
        m.nn.SiLU(),
        m.nn.Conv2d(hidden, channels, 1),
        m.nn.Sigmoid(),
    )

    class Gated(m.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.gates = gates

        def forward(self, x: Any) -> Any:
            return x * self.gates(x)

    return Gated()


# ---------------------------------------------------------------------------------------------
# networks


def resnet(m: Any, counts: Sequence[int], is_deep: bool) -> Any:
    """A residual network for 1000 classes.

    Args:
        counts: blocks of each of the four stages.
        is_deep: blocks are 1x1, 3x3, 1x1 with four times the channels at their ends.

    Source: K. He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385.
    """
    relu = m.nn.ReLU
    layers = [normed(m, 3, 64, 7, 2), relu(), m.nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        result = 4 * width if is_deep else width
        for number in range(count):
            stride = 2 if stage and not number else 1
            if is_deep:
                parts = [normed(m, channels, width, 1), relu(), normed(m, width, width, 3, stride)]
                parts += [relu(), normed(m, width, result, 1)]
            else:
                parts = [normed(m, channels, width, 3, stride), relu(), normed(m, width, width, 3)]
            is_same = stride == 1 and channels == result
            shortcut = m.nn.Identity() if is_same else normed(m, channels, result, 1, stride)
            layers.append(residual(m, m.nn.Sequential(*parts), shortcut, relu()))
            channels = result
    head = [m.nn.AdaptiveAvgPool2d(1), m.nn.Flatten(), m.nn.Linear(channels, 1000)]
    return m.nn.Sequential(*layers, *head)


def unet(m: Any, width: int = 32) -> Any:
    """Three levels down and up, joined at each level.

    Source: O. Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image
    Segmentation", arXiv:1505.04597; with batch normalisation.
    """

    def two(channels: int, result: int) -> Any:
        first, second = normed(m, channels, result, 3), normed(m, result, result, 3)
        return m.nn.Sequential(first, m.nn.ReLU(), second, m.nn.ReLU())

    class UNet(m.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = [width << level for level in range(4)]
            pairs = zip([3, *widths[:-1]], widths, strict=True)
            self.down = m.nn.ModuleList(two(channels, result) for channels, result in pairs)
            self.widen = m.nn.ModuleList(
                m.nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[:-1]
            )
            self.up = m.nn.ModuleList(two(2 * w, w) for w in widths[:-1])
            self.pool, self.head = m.nn.MaxPool2d(2), m.nn.Conv2d(width, 2, 1)

        def forward(self, x: Any) -> Any:
            seen = []
            for level, down in enumerate(self.down):
                x = down(self.pool(x) if level else x)
                seen.append(x)
            for level in (2, 1, 0):
                x = self.up[level](m.cat([seen[level], self.widen[level](x)], 1))
            return self.head(x)

    return UNet()


def vgg(m: Any) -> Any:
    """Two stages of two 3x3 convolutions with biases, and pools."""
    layers: list[Any] = []
    for channels, result in ((3, 64), (64, 64), (64, 128), (128, 128)):
        layers += [m.nn.Conv2d(channels, result, 3, padding=1), m.nn.ReLU()]
        layers += [m.nn.MaxPool2d(2)] if channels == result else []
    return m.nn.Sequential(*layers)


def convnext(m: Any, width: int = 96, count: int = 3) -> Any:
    """A stem of patches and blocks of a 7x7 depthwise convolution, a norm and two linear layers.

    Source: Z. Liu et al., "A ConvNet for the 2020s", arXiv:2201.03545.
    """

    class Block(m.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.mix = m.nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = m.nn.LayerNorm(width)
            self.up, self.down = m.nn.Linear(width, 4 * width), m.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.mix(x).permute(0, 2, 3, 1))
            return x + self.down(m.nn.functional.gelu(self.up(y))).permute(0, 3, 1, 2)

    return m.nn.Sequential(m.nn.Conv2d(3, width, 4, stride=4), *(Block() for _ in range(count)))


def efficientnet(m: Any) -> Any:
    """A stem and inverted residual blocks with gates.

    Source: M. Tan, Q. Le, "EfficientNet", arXiv:1905.11946.
    """
    silu = m.nn.SiLU
    layers = [normed(m, 3, 32, 3, 2), silu()]
    channels = 32
    for result, size, stride, count in ((24, 3, 2, 2), (40, 5, 2, 2), (80, 3, 2, 3)):
        for number in range(count):
            wide, step = 6 * channels, stride if not number else 1
            parts = [normed(m, channels, wide, 1), silu(), normed(m, wide, wide, size, step, wide)]
            parts += [silu(), gated(m, wide, channels // 4), normed(m, wide, result, 1)]
            block = m.nn.Sequential(*parts)
            is_same = step == 1 and channels == result
            layers.append(
                residual(m, block, m.nn.Identity(), m.nn.Identity()) if is_same else block
            )
            channels = result
    return m.nn.Sequential(*layers)


def srgan(m: Any, width: int = 64, count: int = 16) -> Any:
    """The generator: residual blocks between convolutions of 9x9, and twice the double size.

    Source: C. Ledig et al., "Photo-Realistic Single Image Super-Resolution Using a Generative
    Adversarial Network", arXiv:1609.04802.
    """

    def block() -> Any:
        first, second = normed(m, width, width, 3), normed(m, width, width, 3)
        parts = m.nn.Sequential(first, m.nn.PReLU(), second)
        return residual(m, parts, m.nn.Identity(), m.nn.Identity())

    def larger() -> list[Any]:
        wider = m.nn.Conv2d(width, 4 * width, 3, padding=1)
        return [wider, m.nn.PixelShuffle(2), m.nn.PReLU()]

    blocks = m.nn.Sequential(*(block() for _ in range(count)), normed(m, width, width, 3))
    whole = residual(m, blocks, m.nn.Identity(), m.nn.Identity())
    first = [m.nn.Conv2d(3, width, 9, padding=4), m.nn.PReLU()]
    last = m.nn.Conv2d(width, 3, 9, padding=4)
    return m.nn.Sequential(*first, whole, *larger(), *larger(), last)


NETWORKS = {
    "ResNet-18": Network(lambda m: resnet(m, (2, 2, 2, 2), False), (3, 224, 224)),
    "ResNet-50": Network(lambda m: resnet(m, (3, 4, 6, 3), True), (3, 224, 224)),
    "U-Net": Network(unet, (3, 128, 128)),
    "VGG": Network(vgg, (3, 112, 112)),
    "ConvNeXt": Network(convnext, (3, 224, 224)),
    "EfficientNet": Network(efficientnet, (3, 224, 224)),
    "SRGAN": Network(srgan, (3, 32, 32), (1,)),
}


def made(m: Any, network: Network) -> Any:
    """The network in evaluation, with its numbers."""
    model = fill(m, network.make(m))
    random = np.random.default_rng(SEED)
    with m.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                low = 0.5 if name.endswith("var") else -0.1
                numbers = random.uniform(low, low + 0.2, tuple(buffer.shape)).astype(np.float32)
                buffer.copy_(m.from_numpy(numbers))
    return model.eval()


def evaluations(network: Network, batch: int, torch: Any) -> Iterator[tuple[str, Program]]:
    """Name -> a call without gradients; of PyTorch's too, unless `torch` is None."""
    image = _image(network, batch)
    x = dj.from_numpy(image)
    model = made(dj, network)
    compiled = dj.compile(model)
    yield "compiled", dj.no_grad()(lambda: compiled(x))
    yield "eager", dj.no_grad()(lambda: model(x))
    if torch is None:
        return
    other, y = made(torch, network), torch.from_numpy(image)
    yield "torch", torch.no_grad()(lambda: other(y))
    faster = torch.compile(other)
    yield "torch.compile", torch.no_grad()(lambda: faster(y))


def steps(network: Network, batch: int, torch: Any) -> Iterator[tuple[str, Program]]:
    """Name -> a step of training; of PyTorch's too, unless `torch` is None.

    Ours is compiled whole, PyTorch's is its network compiled and its optimiser as it is.
    """
    image = _image(network, batch)
    x = dj.from_numpy(image)
    yield "compiled", partial(dj.compile(_step(dj, made(dj, network).train())), x)
    yield "eager", partial(_step(dj, made(dj, network).train()), x)
    if torch is None:
        return
    y = torch.from_numpy(image)
    yield "torch", partial(_step(torch, made(torch, network).train()), y)
    yield "torch.compile", partial(_step(torch, torch.compile(made(torch, network).train())), y)


def _image(network: Network, batch: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(SEED)
    return random.standard_normal((batch, *network.shape), dtype=np.float32)


def _step(m: Any, model: Any) -> Callable[[Any], Any]:
    optimizer = m.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def fastest(candidates: Mapping[str, Program], rounds: int) -> dict[str, float]:
    """The least seconds of a call of each candidate; they take turns, and each meets the caches
    in a call that does not count."""
    least = dict.fromkeys(candidates, math.inf)
    for _ in range(rounds):
        for name, candidate in candidates.items():
            candidate()
            start = time.perf_counter()
            candidate()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def main(compare: Sequence[str] = (), rounds: int = 15) -> None:
    """Print the table; ratios against dynajit compiled."""
    torch = None
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
    before = dj.get_num_threads()
    for name, network in NETWORKS.items():
        for batch in network.batches:
            for threads in dict.fromkeys((1, os.cpu_count() or 1)):
                dj.set_num_threads(threads)
                if torch is not None:
                    torch.set_num_threads(threads)
                for kind, programs in (("evaluation", evaluations), ("training", steps)):
                    title = f"{name}, {kind}, batch {batch}, {threads} threads"
                    if torch is not None:
                        torch._dynamo.reset()  # else it compiles for sizes that vary, and gives up
                    found = dict(programs(network, batch, torch))
                    print(row(title, fastest(found, rounds), "compiled"), flush=True)
    dj.set_num_threads(before)
