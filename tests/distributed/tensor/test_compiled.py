"""Compiled functions that meet DTensors compute what they compute without: graphs break there."""

import copy
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.errors import GraphBreakError
from dynajit.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from dynajit.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python


def drawn(*shape: int) -> Any:
    dj.manual_seed(sum(shape))
    return dj.randn(*shape, dtype=dj.float64)


def functions() -> dict[str, float]:
    """Differences from the functions as they are, by what they get and make."""
    mesh = init_device_mesh("cpu", (2,))
    x, w = drawn(5, 8), drawn(6, 8)
    spread = distribute_tensor(w, mesh, [Shard(0)])

    def given(x: Any, w: Any) -> Any:
        y = (x.sin() + 1) @ w.T
        return (y.relu() * 2).sum()

    def made(x: Any) -> Any:
        part = DTensor.from_local(x.cos(), mesh, [Shard(0)])
        return (part @ part.T).sum().full_tensor() * 2

    def written(w: Any) -> Any:
        w.add_(1)
        return w * 2

    def asked(w: Any) -> Any:
        return w.to_local().sum() if w.placements == (Shard(0),) else w.full_tensor() * 3

    whole = distribute_tensor(x, mesh, [Replicate()])
    copied = spread.clone()
    found = {
        "given": dj.compile(given)(whole, spread).full_tensor() - given(x, w),
        "given again": dj.compile(given)(whole, spread).full_tensor() - given(x, w),
        "made": dj.compile(made)(x) - made(x),
        "written": dj.compile(written)(copied).full_tensor() - (w + 1) * 2,
        "left": copied.full_tensor() - w - 1,
    }
    asks = dj.compile(asked)
    for placements in ([Shard(0)], [Shard(1)], [Shard(0)]):
        other = spread.redistribute(placements=placements)
        found[f"asked {placements}"] = asks(other) - asked(other)
    return {name: float(error.abs().max()) for name, error in found.items()}


def steps() -> list[float]:
    """Differences of losses and parameters, of whole steps of a spread module."""
    mesh = init_device_mesh("cpu", (2,))
    dj.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).double()
    spread = copy.deepcopy(plain)
    parallelize_module(spread, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizers = [dj.optim.AdamW(m.parameters(), lr=0.1) for m in (plain, spread)]

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = dj.compile(lambda x: step(spread, optimizers[1], x))
    found = []
    for place in range(3):
        x = drawn(3, 8) + place
        found.append(float(compiled(x) - step(plain, optimizers[0], x)))
    for a, b in zip(spread.parameters(), plain.parameters(), strict=True):
        found.append(float((a.full_tensor() - b).abs().max()))
    return found


def refused() -> str:
    mesh = init_device_mesh("cpu", (2,))
    spread = distribute_tensor(drawn(2, 2), mesh, [Shard(0)])
    with pytest.raises(GraphBreakError) as caught:
        dj.compile(lambda x: x * 2, fullgraph=True)(spread)
    return str(caught.value)


def test_compiled_functions_are_right_with_tensors_of_several_processes() -> None:
    for results in on_ranks([functions, steps, refused], 2):
        for found in results:
            assert not isinstance(found, Raised), found
            if isinstance(found, str):
                assert "DTensor" in found
            else:
                errors = found.values() if isinstance(found, dict) else found
                assert all(abs(error) < 1e-9 for error in errors), found
