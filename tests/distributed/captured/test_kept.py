"""Graphs with collectives are kept on disk: a second start of a program makes nothing anew."""

import functools
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.codegen.compilers import toolchain
from dynajit.ir import pipeline
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python


def collected(x: Any, group: Any) -> Any:
    """Rows with operations, roots, names, sizes, and of messages."""
    y, z = (x * 3).exp(), x.reshape(2, 2) + 1
    dist.all_reduce(y, dist.ReduceOp.MAX, group)
    dist.broadcast(z, src=1)
    parts = [dj.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, y)
    arrived = dj.empty_like(x)
    works = dist.batch_isend_irecv(
        [dist.P2POp(f, t, 1 - dist.get_rank()) for f, t in ((dist.isend, y), (dist.irecv, arrived))]
    )
    for work in works:
        work.wait()
    return y.sum() + z, parts[1].sin(), arrived * 2


def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def started() -> Any:
    """Results, and how many graphs passes ran over, and how often a compiler ran."""
    counts = {"passes": 0, "compilers": 0}
    pipeline.optimize = functools.partial(_counting, counts, "passes", pipeline.optimize)
    toolchain.building = functools.partial(_counting, counts, "compilers", toolchain.building)
    group = dist.new_group([0, 1])
    x = (dj.arange(4.0) + dist.get_rank()) / 5
    found = [*dj.compile(collected, fullgraph=True)(x, group)]
    dj.manual_seed(0)
    model = dj.nn.Sequential(dj.nn.Linear(6, 8), dj.nn.BatchNorm1d(8), dj.nn.Linear(8, 2))
    parallel = dj.nn.parallel.DistributedDataParallel(model)
    optimizer = dj.optim.AdamW(model.parameters(), 1e-2)
    call = dj.compile(step, fullgraph=True)
    dj.manual_seed(dist.get_rank())
    found += [call(parallel, optimizer, dj.randn(5, 6), dj.randn(5, 2)) for _ in range(3)]
    merged = dj.compile(several, fullgraph=True, options={"merge_collectives": True})
    found += merged(x)
    return [value.detach().tolist() for value in found], counts


def several(x: Any) -> Any:
    found = [x + 1, x * 2]
    for y in found:
        dist.all_reduce(y)
    return found


def _counting(counts: dict[str, int], name: str, function: Any, *args: Any, **named: Any) -> Any:
    counts[name] += 1
    return function(*args, **named)


def test_a_second_start_on_two_processes_compiles_nothing(tmp_path: Path) -> None:
    """With the same results; graphs are told apart by the names of groups, not by the objects."""
    starts = [on_ranks([started], 2, DYNAJIT_CACHE_DIR=str(tmp_path))[0] for _ in range(2)]

    for first, second in zip(*starts, strict=True):
        assert not isinstance(first, Raised), first
        assert not isinstance(second, Raised), second
        assert first[0] == second[0]
        assert first[1]["passes"] > 0
        assert {"passes": 0, "compilers": 0} == second[1]
