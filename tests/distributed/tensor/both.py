"""One program for PyTorch and for dynajit: a block of a language model, spread over processes.

Contract: `python -m tests.distributed.tensor.both RANK SIZE FOLDER` runs it with PyTorch over Gloo,
and writes what `trained` gives into the folder.
"""

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dynajit as dj

DIM, HEADS, WORDS, LENGTH = 16, 4, 24, 8


def model_of(torch: Any) -> Any:
    """A block with attention and a gated MLP between a table of words and their scores."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        """Attention of several heads, in operations that PyTorch has rules for on a CPU."""

        def __init__(self) -> None:
            super().__init__()
            self.wq, self.wk, self.wv, self.wo = (
                nn.Linear(DIM, DIM, bias=bias) for bias in (False, True, False, True)
            )

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                layer(x).view(batch, length, HEADS, -1).transpose(1, 2)
                for layer in (self.wq, self.wk, self.wv)
            )
            out = (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
            return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))

    class FeedForward(nn.Module):  # type: ignore[misc, name-defined]
        """A gated MLP."""

        def __init__(self) -> None:
            super().__init__()
            self.w1, self.w3 = (nn.Linear(DIM, 2 * DIM, bias=False) for _ in range(2))
            self.w2 = nn.Linear(2 * DIM, DIM)

        def forward(self, x: Any) -> Any:
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        """See `model_of`."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, DIM)
            self.first_norm = nn.RMSNorm(DIM)
            self.attention = Attention()
            self.second_norm = nn.LayerNorm(DIM)
            self.mlp = FeedForward()
            self.output = nn.Linear(DIM, WORDS, bias=False)

        def forward(self, words: Any) -> Any:
            x = self.words(words)
            x = x + self.attention(self.first_norm(x))
            return self.output(x + self.mlp(self.second_norm(x)))

    model: Any = Model().double()
    random = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in model.parameters():
            values = random.standard_normal(tuple(parameter.shape)) / 3
            parameter.copy_(torch.tensor(values))
    return model


def plan_of(kind: str, tensor: Any, parallel: Any) -> dict[str, Any]:
    """Styles by names of modules: "tensor", or "sequence" parallelism."""
    Shard, Replicate = tensor.Shard, tensor.Replicate
    columns, rows = parallel.ColwiseParallel, parallel.RowwiseParallel
    if kind == "tensor":
        return {
            "words": rows(input_layouts=Replicate()),
            "attention.w[qkv]": columns(use_local_output=False),
            "attention.wo": rows(),
            "mlp.w[13]": columns(),
            "mlp.w2": rows(),
            "output": columns(output_layouts=Replicate()),
        }
    inputs = parallel.PrepareModuleInput(
        input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
    )
    return {
        "words": rows(input_layouts=Replicate(), output_layouts=Shard(1)),
        "first_norm": parallel.SequenceParallel(),
        "attention": inputs,
        "attention.w[qkv]": columns(use_local_output=False),
        "attention.wo": rows(output_layouts=Shard(1)),
        "second_norm": parallel.SequenceParallel(),
        "mlp": inputs,
        "mlp.w[13]": columns(),
        "mlp.w2": rows(output_layouts=Shard(1)),
        "output": columns(input_layouts=Shard(1), use_local_output=False),
    }


def trained(torch: Any, kind: str, size: int) -> dict[str, Any]:
    """Losses, norms, placements and parameters of three steps of AdamW.

    Args:
        kind: "alone", "tensor" or "sequence".
    """
    model = model_of(torch)
    if kind != "alone":
        tensor = importlib.import_module(f"{torch.__name__}.distributed.tensor")
        parallel = importlib.import_module(f"{torch.__name__}.distributed.tensor.parallel")
        mesh = torch.distributed.init_device_mesh("cpu", (size,))
        parallel.parallelize_module(model, mesh, plan_of(kind, tensor, parallel))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    losses, norms, placed = [], [], {}
    for step in range(3):
        optimizer.zero_grad()
        words = torch.tensor(np.random.default_rng(step).integers(0, WORDS, (2, LENGTH)))
        scores = model(words)
        if kind == "sequence":
            with parallel.loss_parallel():
                loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())
                loss.backward()
        else:
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())
            loss.backward()
        losses.append(whole(loss).item())
        placed = {n: str(getattr(p.grad, "placements", "")) for n, p in model.named_parameters()}
        squares = [whole(p.grad).square().sum().item() for p in model.parameters()]
        norms.append(sum(squares) ** 0.5)
        optimizer.step()
    values = {name: whole(p).detach().numpy() for name, p in model.named_parameters()}
    return {"losses": losses, "norms": norms, "gradients": placed, "parameters": values}


def whole(x: Any) -> Any:
    """What all processes have together."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def by_dynajit(kind: str) -> dict[str, Any]:
    """On this rank."""
    return trained(dj, kind, dj.distributed.get_world_size())


def _by_pytorch(rank: int, size: int, folder: Path) -> None:
    torch = importlib.import_module("torch")
    store = f"file://{folder / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    found = {kind: trained(torch, kind, size) for kind in ("tensor", "sequence")}
    (folder / f"results{rank}").write_bytes(pickle.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    _by_pytorch(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
