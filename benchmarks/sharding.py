"""`python -m benchmarks sharding`: what one of four processes holds in each stage of sharding.

A transformer is trained with AdamW in float32 by 4 processes. Bytes of a process (the largest of
the four): parameters between forward and backward, gradients after backward, states of the
optimizer after a step; and the most that is allocated at once in a step beyond what was there
before the model (`tracemalloc`, activations included).
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynajit as dj
import dynajit.distributed as dist
from dynajit import nn
from dynajit.distributed.fsdp import fully_shard
from dynajit.distributed.optim import ZeroRedundancyOptimizer
from dynajit.distributed.tensor import DTensor

PROCESSES = 4
WIDTH, BLOCKS, NAMES, LENGTH, BATCH = 128, 6, 512, 16, 2


class Block(nn.Module):
    """Attention and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        normal = self.norm(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.wide(x)))


class Model(nn.Module):
    """An embedding, blocks, and a last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NAMES, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.head = nn.Linear(WIDTH, NAMES)

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _sharded(is_third: bool) -> Callable[[], tuple[Any, Any]]:
    def made() -> tuple[Any, Any]:
        model = Model()
        for module in (model.embedding, *model.blocks, model.head):
            fully_shard(module, reshard_after_forward=is_third)
        fully_shard(model, reshard_after_forward=is_third)
        return model, dj.optim.AdamW(model.parameters(), lr=1e-3)

    return made


def _plain() -> tuple[Any, Any]:
    model = Model()
    return model, dj.optim.AdamW(model.parameters(), lr=1e-3)


def _first() -> tuple[Any, Any]:
    model = Model()
    return model, ZeroRedundancyOptimizer(model.parameters(), dj.optim.AdamW, lr=1e-3)


STAGES = (_plain, _first, _sharded(False), _sharded(True))


def _bytes(tensors: Any) -> int:
    parts = (x.to_local() if isinstance(x, DTensor) else x for x in tensors)
    return sum(x.numel() * x.element_size() for x in parts if isinstance(x, dj.Tensor))


def _units(model: Any) -> list[Any]:
    return list({p.unit: None for p in model.parameters() if hasattr(p, "unit")})


def _measured(stage: int) -> dict[str, int]:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    dj.manual_seed(0)
    model, optimizer = STAGES[stage]()
    x = dj.randint(0, NAMES, (BATCH, LENGTH))
    found = {}
    for _ in range(2):
        optimizer.zero_grad()
        tracemalloc.reset_peak()
        result = model(x)
        loss = nn.functional.cross_entropy(result.reshape(-1, NAMES), x.reshape(-1))
        gathered = [unit.full for unit in _units(model)]
        found["parameters"] = _bytes(model.parameters()) + _bytes(gathered)
        del gathered
        loss.backward()
        if stage < 2:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        found["gradients"] = _bytes(p.grad for p in model.parameters())
        optimizer.step()
        own = getattr(optimizer, "optim", optimizer)
        found["optimizer"] = _bytes(v for e in own.state.values() for v in e.values())
        found["peak of a step"] = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return found


def _run(path: str) -> None:
    dist.init_process_group("gloo")
    found = []
    for stage in range(len(STAGES)):
        all_found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(all_found, _measured(stage))
        found.append({key: max(one[key] for one in all_found) for key in all_found[0]})
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps(found))
    dist.barrier()


def measured(processes: int = PROCESSES) -> list[dict[str, int]]:
    """By stage, bytes of a process, the largest of so many.

    Raises:
        RuntimeError: MPI is not installed, or a process failed.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    starter = str(beside) if beside.exists() else shutil.which("mpiexec")
    if starter is None or importlib.util.find_spec("mpi4py") is None:
        raise RuntimeError("mpi4py or mpiexec is not installed: pip install mpi4py mpich")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "found"))
        command = [starter, "-n", str(processes), sys.executable, "-m", "benchmarks.sharding", path]
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(ended.stdout + ended.stderr)
        return json.loads(Path(path).read_text())  # type: ignore[no-any-return]


def main(compare: list[str]) -> None:
    """Print the table, in Markdown."""
    del compare
    found = measured()
    names = ("parameters", "gradients", "optimizer")
    print("| stage | " + " | ".join(names) + " | together | of stage 0 | peak of a step |")
    print("|---|---|---|---|---|---|---|")
    whole = sum(found[0][name] for name in names)
    for stage, row in enumerate(found):
        total = sum(row[name] for name in names)
        cells = [f"{row[name] / 1e6:.2f}" for name in names]
        cells += [f"{total / 1e6:.2f}", f"{100 * total / whole:.1f} %"]
        cells.append(f"{row['peak of a step'] / 1e6:.2f}")
        print(f"| {stage} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    _run(sys.argv[1])
