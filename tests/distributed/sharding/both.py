"""One program for PyTorch and for dynajit: a sharded model is trained on two processes.

Contract: `python -m tests.distributed.sharding.both RANK FOLDER` runs it with PyTorch over Gloo,
and writes what `trained` gives into the folder.
"""

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dynajit as dj

SIZE = 2


def trained(torch: Any, fully_shard: Any, rank: int) -> dict[str, Any]:
    """Losses, norms and parameters of a model after four steps of AdamW in float64, with
    clipping; every second step adds up the gradients of two batches."""
    nn = torch.nn
    random = np.random.default_rng(0)

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        """Linear layers, two of which are added to what came in."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 7)
            self.norm = nn.LayerNorm(7)
            self.second = nn.Sequential(nn.Linear(7, 11), nn.GELU(), nn.Linear(11, 7))
            self.last = nn.Linear(7, 3, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.first(x))
            return self.last(x + self.second(x))

    model: Any = Net().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.tensor(random.standard_normal(tuple(parameter.shape)) / 3))
    fully_shard(model.second, reshard_after_forward=True)
    fully_shard(model.first, reshard_after_forward=False)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    losses, norms = [], []
    for step in range(4):
        optimizer.zero_grad()
        batches = 1 + step % 2
        for place in range(batches):
            x = torch.tensor(np.random.default_rng((step, place, rank)).standard_normal((6, 5)))
            model.set_requires_gradient_sync(place == batches - 1)
            loss = model(x).square().mean()
            loss.backward()
            losses.append(loss.item())
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()
    whole = {name: p.full_tensor().detach().numpy() for name, p in model.named_parameters()}
    return {"losses": losses, "norms": norms, "parameters": whole}


def by_dynajit() -> dict[str, Any]:
    """On this rank."""
    return trained(dj, dj.distributed.fsdp.fully_shard, dj.distributed.get_rank())


def _by_pytorch(rank: int, folder: Path) -> None:
    torch = importlib.import_module("torch")
    fsdp = importlib.import_module("torch.distributed.fsdp")
    store = f"file://{folder / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=SIZE)
    mesh = torch.distributed.init_device_mesh("cpu", (SIZE,))

    def shard(module: Any, **options: Any) -> None:
        fsdp.fully_shard(module, mesh=mesh, **options)

    found = trained(torch, shard, rank)
    (folder / f"results{rank}").write_bytes(pickle.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    _by_pytorch(int(sys.argv[1]), Path(sys.argv[2]))
