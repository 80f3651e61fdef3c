"""Small models whose whole training step is one function: forward, backward, clipping, updates.

`TRAININGS[name](make)` makes a `Training` from the current state of the generator, with one of
`OPTIMIZERS`; each call of its `step` with the numbers of a batch trains once and returns losses.
`state()` is everything that outlives a step. The data are made. Compared by `comparing.py`.

Parameters whose gradient is zero but for rounding (a bias in front of batch norm, of keys, of a
critic that is only compared with itself) are left out: Adam makes any rounding a full step.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn


@dataclass
class Training:
    """One model in training (mutable).

    Args:
        step: trains with one batch, returns a loss or several.
        batch: makes the arguments of call number `i`.
        parts: all modules, optimizers, schedulers and scalers, by name.
    """

    step: Callable[..., Any]
    batch: Callable[[int], tuple[Any, ...]]
    parts: dict[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """The state dicts of all parts, the gradients of modules, the modes of those."""
        found: dict[str, Any] = {}
        for name, part in self.parts.items():
            found[name] = part.state_dict()
            if isinstance(part, nn.Module):
                found[f"{name}.grad"] = {n: p.grad for n, p in part.named_parameters()}
                found[f"{name}.buffers"] = dict(part.named_buffers())
        return found


Make = Callable[[Any], dj.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda parameters: dj.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3),
    "AdamW": lambda parameters: dj.optim.AdamW(parameters, lr=3e-3, weight_decay=1e-2),
}


def scheduler(optimizer: Any) -> Any:
    return dj.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)


def noise(i: int, *shape: int) -> Any:
    """Numbers of call `i` that do not touch the default generator."""
    generator = dj.Generator().manual_seed(1000 + i)
    return dj.randn(*shape, generator=generator, dtype=dj.get_default_dtype())


def classes(i: int, count: int, *shape: int) -> Any:
    generator = dj.Generator().manual_seed(2000 + i)
    return dj.randint(0, count, shape, generator=generator)


def mlp(make: Make) -> Training:
    model = nn.Sequential(
        nn.Linear(10, 24),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(24, 24),
        nn.GELU(),
        nn.Linear(24, 5),
    )
    optimizer = make(model.parameters())
    schedule = scheduler(optimizer)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return Training(step, lambda i: (noise(i, 16, 10), classes(i, 5, 16)), parts)


def convnet(make: Make) -> Training:
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    optimizer = make(model.parameters())
    schedule = dj.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return Training(step, lambda i: (noise(i, 8, 1, 10, 10), classes(i, 4, 8)), parts)


class Reader(nn.Module):
    """An LSTM and a head on its last output."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 12, num_layers=2, batch_first=True)
        self.head = nn.Linear(12, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


def lstm(make: Make) -> Training:
    model = Reader()
    optimizer = make(model.parameters())
    schedule = scheduler(optimizer)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(-1), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return Training(step, lambda i: (noise(i, 6, 7, 5), noise(i, 6)), parts)


class Block(nn.Module):
    """Causal attention with dropout, and two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (p.view(*shape).transpose(1, 2) for p in self.qkv(self.norm_1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm_2(x)))))


class Gpt(nn.Module):
    """Predicts the next token; the head's weight is the embedding's."""

    def __init__(self, words: int = 17, width: int = 16, length: int = 9) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Any) -> Any:
        places = dj.arange(tokens.shape[1])
        x = self.drop(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(make: Make) -> Training:
    model = Gpt()
    optimizer = make(model.parameters())
    warm = dj.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 4, 1.0))

    def step(tokens: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm.step()
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer}
    return Training(step, lambda i: (classes(i, 17, 4, 9),), parts)


class Vae(nn.Module):
    """Encoder, a drawn code, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh())
        self.mean, self.spread = nn.Linear(16, 3), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 12))

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        hidden = self.encoder(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + dj.randn_like(mean) * (0.5 * spread).exp()
        return self.decoder(code), mean, spread


def vae(make: Make) -> Training:
    model = Vae()
    optimizer = make(model.parameters())
    schedule = dj.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        made, mean, spread = model(x)
        fit = F.binary_cross_entropy_with_logits(made, x, reduction="sum")
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        loss = (fit + divergence) / x.shape[0]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        return fit.detach(), divergence.detach()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return Training(step, lambda i: (noise(i, 8, 12).sigmoid(),), parts)


def players(bias: bool) -> tuple[nn.Module, nn.Module]:
    maker = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
    critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1, bias=bias))
    return maker, critic


def gan(make: Make) -> Training:
    maker, critic = players(bias=True)
    of_maker, of_critic = make(maker.parameters()), make(critic.parameters())

    def step(real: Any) -> Any:
        ones, zeros = dj.ones(real.shape[0], 1), dj.zeros(real.shape[0], 1)
        made = maker(dj.randn(real.shape[0], 3))
        of_critic.zero_grad()
        told = F.binary_cross_entropy_with_logits(critic(real), ones)
        told = told + F.binary_cross_entropy_with_logits(critic(made.detach()), zeros)
        told.backward()
        of_critic.step()
        of_maker.zero_grad()
        fooled = F.binary_cross_entropy_with_logits(critic(made), ones)
        fooled.backward()
        nn.utils.clip_grad_norm_(maker.parameters(), 1.0)
        of_maker.step()
        return told.detach(), fooled.detach()

    parts = {"maker": maker, "critic": critic, "of_maker": of_maker, "of_critic": of_critic}
    return Training(step, lambda i: (noise(i, 8, 4) * 0.5 + 1,), parts)


def wgan_gp(make: Make) -> Training:
    """The critic is pulled to slopes of length 1."""
    maker, critic = players(bias=False)
    of_maker, of_critic = make(maker.parameters()), make(critic.parameters())

    def penalty(real: Any, made: Any) -> Any:
        share = dj.rand(real.shape[0], 1)
        between = (share * real + (1 - share) * made).requires_grad_(True)
        (slope,) = dj.autograd.grad(critic(between).sum(), between, create_graph=True)
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    def step(real: Any) -> Any:
        with dj.no_grad():
            made = maker(dj.randn(real.shape[0], 3))
        of_critic.zero_grad()
        loss = critic(made).mean() - critic(real).mean() + 10 * penalty(real, made)
        loss.backward()
        of_critic.step()
        of_maker.zero_grad()
        gain = -critic(maker(dj.randn(real.shape[0], 3))).mean()
        gain.backward()
        of_maker.step()
        return loss.detach(), gain.detach()

    parts = {"maker": maker, "critic": critic, "of_maker": of_maker, "of_critic": of_critic}
    return Training(step, lambda i: (noise(i, 8, 4) * 0.5 + 1,), parts)


def physics(make: Make) -> Training:
    """u'' = -u with u(0) = 0, u'(0) = 1: second derivatives within the loss."""
    model = nn.Sequential(
        nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1)
    )
    optimizer = make(model.parameters())
    schedule = scheduler(optimizer)

    def slope(u: Any, t: Any) -> Any:
        return dj.autograd.grad(u, t, dj.ones_like(u), create_graph=True)[0]

    def step(t: Any, start: Any) -> Any:
        optimizer.zero_grad()
        u = model(t.requires_grad_(True))
        first = slope(u, t)
        rest = ((slope(first, t) + u) ** 2).mean()
        u_0 = model(start.requires_grad_(True))
        loss = rest + (u_0**2).mean() + ((slope(u_0, start) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return Training(step, lambda i: (noise(i, 10, 1).sigmoid() * math.pi, dj.zeros(1, 1)), parts)


def mixed_precision(make: Make) -> Training:
    """Autocast, a scaler, an average of the weights."""
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.LayerNorm(24), nn.Linear(24, 5))
    optimizer = make(model.parameters())
    scaler = dj.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    schedule = scheduler(optimizer)
    average = dj.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=dj.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with dj.autocast("cpu", dj.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        average.update_parameters(model)
        return loss.detach()

    parts = {"model": model, "optimizer": optimizer, "scaler": scaler, "average": average}
    return Training(step, lambda i: (noise(i, 16, 10), classes(i, 5, 16)), parts)


def micro_batches(make: Make) -> Training:
    """Gradients of several backward passes are added up."""
    model = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 5))
    optimizer = make(model.parameters())

    def step(x: Any, y: Any) -> Any:
        total = dj.zeros(())
        for part, wanted in zip(x.chunk(4), y.chunk(4), strict=True):
            loss = F.cross_entropy(model(part), wanted) / 4
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return total

    parts = {"model": model, "optimizer": optimizer}
    return Training(step, lambda i: (noise(i, 16, 10), classes(i, 5, 16)), parts)


TRAININGS: dict[str, Callable[[Make], Training]] = {
    function.__name__: function
    for function in (
        mlp, convnet, lstm, gpt, vae, gan, wgan_gp, physics, mixed_precision, micro_batches,
    )
}  # fmt: skip


def batches(training: Training, count: int) -> Iterator[tuple[Any, ...]]:
    """The arguments of the first calls."""
    return (training.batch(i) for i in range(count))
