"""Whole training steps with `DistributedDataParallel` inside: one graph with its sums, eager's
numbers, the same parameters in every process."""

import functools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from tests.support.ranks import Raised, on_ranks

nn, functional = dj.nn, dj.nn.functional


class Reader(nn.Module):
    """Convolution, batch norm, LSTM and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.lstm = nn.LSTM(36, 16, batch_first=True)
        self.head, self.dropout = nn.Linear(16, 5), nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        h = functional.relu(self.norm(self.convolution(x)))
        states, _ = self.lstm(h.flatten(2))
        return self.head(self.dropout(states[:, -1]))


def perceptron() -> Any:
    layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 5))


class Spare(nn.Module):
    """Some of it takes no part in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.spare = nn.Linear(64, 5), nn.Linear(64, 5)

    def forward(self, x: Any) -> Any:
        return self.head(x.flatten(1))


def synchronised() -> Any:
    """Statistics of all processes: collectives in forward and in backward."""
    layers = (nn.SyncBatchNorm(64), nn.Tanh(), nn.Linear(64, 16), nn.SyncBatchNorm(16))
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), *layers, nn.Linear(16, 5))


MODELS = {
    "perceptron": perceptron, "reader": Reader, "spare": Spare, "synchronised": synchronised,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "small buckets": {"bucket_cap_mb": 0.01},
    "static": {"static_graph": True},
    "no buffers": {"broadcast_buffers": False, "bucket_cap_mb": 0.005},
    "views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01},
    "unused": {"find_unused_parameters": True, "bucket_cap_mb": 0.01},
    "sums": {"bucket_cap_mb": 0.01},
    "16 bits": {"bucket_cap_mb": 0.01},
    "factors": {"bucket_cap_mb": 0.01},
    "module alone": {"bucket_cap_mb": 0.01},
}
#: What one step of Adam moves a parameter by.
RATE = 1e-2
#: A gradient that lies half way between two of bfloat16 is sent as either of them, by its last bit,
#: which products of matrices give in an order of their own: losses and parameters agree to a
#: step's share in that.
BFLOAT16_STEP = 2.0**-8
#: Python decides by what other processes say, or draws from a generator of its own.
BREAKS = [("spare", "unused"), ("perceptron", "factors")]


def add_hook(parallel: Any, options: str) -> None:
    """The communication hook of some options."""
    if options == "factors":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif options in ("sums", "16 bits"):
        is_sum = options == "sums"
        hook = default_hooks.allreduce_hook if is_sum else default_hooks.bf16_compress_hook
        parallel.register_comm_hook(None, hook)


def trained(model: str, options: str, compiled: bool) -> Any:
    """Losses, parameters and buffers after some steps; reasons of breaks."""
    dj.manual_seed(dist.get_rank())
    module = MODELS[model]().double()
    is_alone = compiled and options == "module alone"
    called = dj.compile(module, fullgraph=True) if is_alone else module
    parallel = nn.parallel.DistributedDataParallel(called, **OPTIONS[options])
    add_hook(parallel, options)
    optimizer = dj.optim.AdamW(module.parameters(), RATE)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(parallel(x), y)
        loss.backward()
        if options != "16 bits":  # what was sent stays as it is
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    whole = (model, options) not in BREAKS
    call = dj.compile(step, fullgraph=whole) if compiled and not is_alone else step
    dj.manual_seed(dist.get_rank() + 10)
    batches = [(dj.randn(4, 1, 8, 8, dtype=dj.float64), dj.randint(0, 5, (4,))) for _ in range(5)]
    losses = [call(x, y).item() for x, y in batches]
    losses.append(step(*batches[0]).item())  # a plain step behind compiled ones
    losses.append(call(*batches[1]).item())
    if options == "views":
        last = list(module.parameters())[-2:]
        assert len({p.grad.untyped_storage().data_ptr() for p in last}) == 1
    assert model != "spare" or module.spare.weight.grad is None
    if options == "16 bits":
        gradients = [p.grad for p in module.parameters()]
        assert all(dj.equal(g, g.bfloat16().double()) for g in gradients)
    state = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    return losses, state


CASES = [
    *((model, options) for model in ("perceptron", "reader") for options in [*OPTIONS][:4]),
    *(("perceptron", options) for options in [*OPTIONS][4:-1]),
    ("spare", "unused"),
    ("synchronised", "default"),
    ("synchronised", "module alone"),
]


@pytest.fixture(scope="module")
def on_two() -> list[Any]:
    calls = [
        functools.partial(trained, *case, compiled) for case in CASES for compiled in (False, True)
    ]
    return on_ranks(calls, 2)


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: "-".join(CASES[place]))
def test_a_compiled_step_trains_as_the_plain_one(place: int, on_two: list[Any]) -> None:
    plain, compiled = on_two[2 * place], on_two[2 * place + 1]
    for eager, found in zip(plain, compiled, strict=True):
        assert not isinstance(eager, Raised), eager
        assert not isinstance(found, Raised), found
        is_short = CASES[place][1] == "16 bits"
        rounding = RATE * BFLOAT16_STEP if is_short else 0.0
        np.testing.assert_allclose(found[0], eager[0], rtol=1e-9 + rounding)
        for name, value in eager[1].items():
            np.testing.assert_allclose(
                found[1][name], value, rtol=1e-6, atol=1e-9 + rounding, err_msg=name
            )
    first, second = (found[1] for found in compiled)
    for name, value in first.items():
        if "running" not in name:
            np.testing.assert_array_equal(second[name], value, err_msg=name)
