"""What processes measure: bytes that they send, and seconds.

Contract: `python -m benchmarks.scaling.ranks NAME PATH` runs in every process of a job; process 0
writes what it found to PATH as JSON. Bytes are those of the loopback device: all that all processes
of a network namespace of their own send over TCP, headers included.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dynajit as dj
import dynajit.distributed as dist
from benchmarks.scaling.links import Counting, SlowLink
from benchmarks.sharding import BATCH, LENGTH, NAMES, Model
from dynajit import nn
from dynajit.core.process import optional
from dynajit.distributed.fsdp import fully_shard
from dynajit.distributed.optim import ZeroRedundancyOptimizer
from dynajit.nn.parallel import DistributedDataParallel

SIZES_BYTES = (1 << 10, 1 << 16, 1 << 20, 1 << 24)
WIDTH, ROWS = 256, 1024
"""Of the activations of the tensor-parallel block."""

LINKS_BYTES_PER_S = (20e6, 100e6)
"""Of links that are slowed down, to see what goes on meanwhile."""

DEEP, DEEP_WIDTH, DEEP_ROWS = 8, 512, 1024
"""Of the perceptron that trains over them: layers, each a bucket, and samples."""

Step = Callable[[], object]


def collectives(size_bytes: int) -> dict[str, Step]:
    """Calls by name, of tensors of so many bytes."""
    size = dist.get_world_size()
    whole, other = dj.zeros(size_bytes // 4), dj.zeros(size_bytes // 4)
    part = dj.zeros(size_bytes // 4 // size)
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
    }


def training(stage: int) -> Step:
    """A step of training a transformer by AdamW in a stage of ZeRO; 0 is data parallelism."""
    dj.manual_seed(0)
    model: Any = Model()
    if stage < 2:
        model = DistributedDataParallel(model)
    else:
        for module in (model.embedding, *model.blocks, model.head):
            fully_shard(module, reshard_after_forward=stage == 3)
        fully_shard(model, reshard_after_forward=stage == 3)
    optimizer: Any = (
        ZeroRedundancyOptimizer(model.parameters(), dj.optim.AdamW, lr=1e-3)
        if stage == 1
        else dj.optim.AdamW(model.parameters(), lr=1e-3)
    )
    x = dj.randint(0, NAMES, (BATCH, LENGTH))

    def step() -> None:
        optimizer.zero_grad()
        result = model(x)
        nn.functional.cross_entropy(result.reshape(-1, NAMES), x.reshape(-1)).backward()
        optimizer.step()

    return step


class _Spread(dj.autograd.Function):
    """The same input for all parts: gradients of the parts are joined."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class _Joined(dj.autograd.Function):
    """The sum of what the parts give."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def tensor_parallel() -> Step:
    """Forward and backward of two linear layers, cut by columns, then by rows."""
    size = dist.get_world_size()
    first, second = nn.Linear(WIDTH, 4 * WIDTH // size), nn.Linear(4 * WIDTH // size, WIDTH)
    x = dj.randn(ROWS, WIDTH, requires_grad=True)

    def step() -> None:
        hidden = nn.functional.gelu(first(_Spread.apply(x)))
        _Joined.apply(second(hidden)).sum().backward()

    return step


def _loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise RuntimeError("there is no loopback device")


def _sent(step: Step, rounds: int = 4, repeats: int = 4) -> float:
    """Bytes that a process sends in a step, on average; the least of some rounds, since segments
    may be sent again. The first steps compare what is called, and are not counted."""
    step()
    step()
    samples = []
    for _ in range(rounds):
        dist.barrier()
        before = _loopback_bytes()
        dist.barrier()
        for _ in range(repeats):
            step()
        dist.barrier()
        samples.append((_loopback_bytes() - before) / repeats / dist.get_world_size())
    return min(samples)


def _calls(step: Step) -> int:
    """How many collectives a step starts."""
    group: Any = dist.group.WORLD
    group.channel = Counting(group.channel)
    step()
    counted: Counting = group.channel
    group.channel = counted.channel
    return counted.count


def sent() -> dict[str, float]:
    """Bytes by what was done; of collectives for each byte of the message."""
    found = {
        f"{name} {size >> 10} KB": _sent(call) / size
        for size in (SIZES_BYTES[0], 1 << 22)
        for name, call in collectives(size).items()
    }
    for stage in range(4):
        step = training(stage)
        found[f"stage {stage}"] = _sent(step)
        found[f"calls {stage}"] = _calls(step)
    found["tensor parallel"] = _sent(tensor_parallel())
    return found


def _seconds(step: Step, rounds: int) -> float:
    """Of the slowest process, the best of some rounds of one step: what else runs only adds."""
    step()
    step()
    samples = dj.empty(rounds, dtype=dj.float64)
    for place in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        step()
        samples[place] = time.perf_counter() - start
    dist.all_reduce(samples, dist.ReduceOp.MAX)
    return samples.min().item()


def _one_way(size_bytes: int) -> float:
    """Seconds of a message between the first two processes, half of there and back; mpi4py alone,
    as the model's alpha and beta are the engine's. Large ones do not fit into caches."""
    mpi = optional.load("mpi4py.MPI", needed_for="the benchmark", install="dynajit[mpi]")
    world, array = mpi.COMM_WORLD, np.zeros(size_bytes, np.uint8)
    rank, samples = world.Get_rank(), []
    for _ in range(200 if size_bytes < 1 << 20 else 20):
        start = time.perf_counter()
        if rank == 0:
            world.Send(array, 1)
            world.Recv(array, 1)
        elif rank == 1:
            world.Recv(array, 0)
            world.Send(array, 0)
        samples.append((time.perf_counter() - start) / 2)
    world.Barrier()
    return min(samples)


def overlapped() -> dict[str, float]:
    """Seconds of forward and backward of a perceptron, and of both with gradients that travel over
    slow links, in buckets of a layer."""
    dj.manual_seed(0)
    layers = [nn.Linear(DEEP_WIDTH, DEEP_WIDTH) for _ in range(DEEP)]
    plain = nn.Sequential(*layers)
    x = dj.randn(DEEP_ROWS, DEEP_WIDTH)
    group: Any = dist.group.WORLD
    found = {"forward": _seconds(lambda: plain(x), 20)}
    found["both"] = _seconds(lambda: plain(x).sum().backward(), 20)
    model = DistributedDataParallel(plain, bucket_cap_mb=layers[0].weight.nbytes / (1 << 20))
    channel = group.channel
    for link in LINKS_BYTES_PER_S:
        group.channel = SlowLink(channel, 1 / link)
        found[f"link {link:g}"] = _seconds(lambda: model(x).sum().backward(), 10)
        group.channel = channel
    return found


def _addition() -> float:
    """Seconds to add a byte to another, in float32, where both lie in memory."""
    a, b = np.zeros(1 << 23, np.float32), np.zeros(1 << 23, np.float32)
    samples = []
    for _ in range(50):
        start = time.perf_counter()
        np.add(a, b, out=a)
        samples.append(time.perf_counter() - start)
    return statistics.quantiles(samples)[0] / a.nbytes


def timed() -> dict[str, float]:
    """Seconds by what was done; what the machine can do where there are two processes or more."""
    found = {}
    size = dist.get_world_size()
    if size > 1:
        large = 1 << 25
        found["alpha"] = _one_way(0)
        found["beta"] = (_one_way(large) - found["alpha"]) / large
        found["gamma"] = _addition()
        for size_bytes in SIZES_BYTES:
            call = collectives(size_bytes)["all_reduce"]
            found[f"all_reduce {size_bytes}"] = _seconds(call, 200 if size_bytes < 1 << 20 else 40)
    for stage in range(4):
        found[f"stage {stage}"] = _seconds(training(stage), 10)
    return found


MEASURED: dict[str, Callable[[], dict[str, float]]] = {
    "sent": sent,
    "overlapped": overlapped,
    "timed": timed,
}


def _run(name: str, path: str) -> None:
    dist.init_process_group("gloo")
    found = MEASURED[name]()
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps(found))
    dist.barrier()


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2])
