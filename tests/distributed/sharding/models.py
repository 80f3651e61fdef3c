"""Small models that are trained on several processes, and how: plainly, by hand, and sharded.

Contract: a model's batch of a rank is a part of one batch; `train` gives losses and parameters.
Values are float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import dynajit as dj
import dynajit.distributed as dist
from dynajit import nn
from dynajit.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from dynajit.distributed.fsdp.wrap import ModuleWrapPolicy
from dynajit.distributed.optim import ZeroRedundancyOptimizer

BATCH = 8
"""Samples of all processes together."""


class Block(nn.Module):
    """Attention of one head and two linear layers, each added to what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        query, key, value = self.mixed(self.norm(x)).chunk(3, -1)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen)
        return x + self.narrow(nn.functional.gelu(self.wide(x)))


class GPT(nn.Module):
    """Two blocks; the weight of the last layer is that of the embedding."""

    def __init__(self, width: int = 8, names: int = 13) -> None:
        super().__init__()
        self.embedding = nn.Embedding(names, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.head = nn.Linear(width, names, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class LSTM(nn.Module):
    """A recurrent layer, and what reads its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(5, 7, num_layers=2, batch_first=True)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.recurrent(x)[0][:, -1])


def mlp() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Linear(17, 9), nn.ReLU(), nn.Linear(9, 3))


def convnet() -> nn.Module:
    """Two convolutions, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(2, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[type, ...]]] = {
    "mlp": (mlp, (nn.Linear,)),
    "convnet": (convnet, (nn.Conv2d,)),
    "lstm": (LSTM, (nn.LSTM,)),
    "gpt": (GPT, (Block, nn.Embedding)),
}
"""Name -> what makes it, and which modules in it are sharded by themselves."""


def made(name: str) -> nn.Module:
    """The model, with the same values in every process."""
    dj.manual_seed(0)
    return MODELS[name][0]().double()


def batch(name: str, step: int) -> tuple[Any, Any]:
    """Inputs and targets of all processes."""
    random = np.random.default_rng(step)
    if name == "gpt":
        names = random.integers(0, 13, (BATCH, 6))
        return dj.tensor(names[:, :-1]), dj.tensor(names[:, 1:])
    shape = {"mlp": (6,), "convnet": (2, 8, 8), "lstm": (4, 5)}[name]
    x = random.standard_normal((BATCH, *shape))
    return dj.tensor(x), dj.tensor(random.integers(0, 3, BATCH))


def loss_of(model: Any, x: Any, y: Any) -> Any:
    """The mean cross entropy."""
    result = model(x)
    return nn.functional.cross_entropy(result.reshape(-1, result.shape[-1]), y.reshape(-1))


def own_part(x: Any) -> Any:
    """This rank's samples."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def averaged(model: Any) -> None:
    """Plain data parallelism, by hand: the mean of every gradient over the processes."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)


def whole_parameters(model: Any) -> list[Any]:
    """As NumPy arrays; every process calls this."""
    return [
        (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().numpy()
        for p in model.parameters()
    ]


def train(
    name: str,
    model: Any,
    optimizer: Any,
    *,
    reduce: Callable[[Any], None] | None = None,
    is_whole_batch: bool = False,
    steps: int = 3,
) -> tuple[list[float], list[Any]]:
    """Losses of this process, and the parameters afterwards."""
    losses = []
    for step in range(steps):
        x, y = batch(name, step)
        if not is_whole_batch:
            x, y = own_part(x), own_part(y)
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        if reduce is not None:
            reduce(model)
        optimizer.step()
        losses.append(loss.item())
    return losses, whole_parameters(model)


def adamw(model: Any) -> Any:
    """An optimizer whose numbers are of one element each."""
    return dj.optim.AdamW(model.parameters(), lr=1e-2)


def sharded_in_place(name: str, reshard_after_forward: bool) -> Any:
    """The model by `fully_shard`."""
    model = made(name)
    for module in list(model.modules()):
        if isinstance(module, MODELS[name][1]):
            fully_shard(module, reshard_after_forward=reshard_after_forward)
    return fully_shard(model, reshard_after_forward=reshard_after_forward)


def wrapped(name: str, strategy: ShardingStrategy) -> Any:
    """The model by `FullyShardedDataParallel`."""
    return FullyShardedDataParallel(
        made(name),
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy(MODELS[name][1]),
        use_orig_params=True,
    )


def plain_run(name: str) -> Any:
    """Data parallelism."""
    model = made(name)
    return train(name, model, adamw(model), reduce=averaged)


def stage_runs(name: str) -> dict[str, Any]:
    """All stages, by both ways to shard."""
    found = {}
    model = made(name)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), dj.optim.AdamW, lr=1e-2)
    found["stage 1"] = train(name, model, optimizer, reduce=averaged)
    for is_third in (False, True):
        model = sharded_in_place(name, is_third)
        found[f"fully_shard {2 + is_third}"] = train(name, model, adamw(model))
    for strategy in (
        ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD,
    ):  # fmt: skip
        model = wrapped(name, strategy)
        found[strategy.name] = train(name, model, adamw(model))
    return found


def compiled_runs() -> dict[str, Any]:
    """Blocks that are compiled within what is sharded, and the versions that they have."""
    found: dict[str, Any] = {}
    model: Any = made("gpt")
    for block in model.blocks:
        block.forward = dj.compile(block.forward)
    found["plain"] = train("gpt", model, adamw(model), reduce=averaged)
    for is_third in (False, True):
        model = made("gpt")
        for block in model.blocks:
            block.forward = dj.compile(block.forward)
            fully_shard(block, reshard_after_forward=is_third)
        fully_shard(model, reshard_after_forward=is_third)
        found[f"stage {2 + is_third}"] = train("gpt", model, adamw(model))
        found[f"versions {2 + is_third}"] = [len(b.forward.guards()) for b in model.blocks]
    return found
