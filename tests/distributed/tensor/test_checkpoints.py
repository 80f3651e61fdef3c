"""State dicts with DTensors: on disk, and read by another number of processes."""

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
import dynajit.distributed.checkpoint as dcp
from dynajit import nn
from dynajit.distributed.tensor import (
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from dynajit.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from dynajit.distributed.tensor.placement_types import _StridedShard
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

WHOLE = np.arange(35.0).reshape(5, 7)
SAVED = {
    "rows": [Replicate(), Shard(0)],
    "columns": [Shard(1), Replicate()],
    "blocks": [Shard(0), Shard(1)],
    "rows of rows": [Shard(0), Shard(0)],
    "strided": [_StridedShard(0, split_factor=2), Shard(0)],
    "whole": [Replicate(), Replicate()],
}


def model_on(mesh: Any) -> Any:
    dj.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 3))
    plan = {
        "0": ColwiseParallel(use_local_output=False),
        "2": RowwiseParallel(output_layouts=Replicate()),
    }
    return parallelize_module(model, mesh, plan)


def stepped(model: Any) -> Any:
    """An optimizer that made a step."""
    optimizer = dj.optim.AdamW(model.parameters(), lr=0.1)
    model(dj.ones(2, 6)).square().sum().backward()
    optimizer.step()
    return optimizer


def state_of(model: Any, optimizer: Any) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}


def wholes(model: Any, optimizer: Any) -> list[Any]:
    moments = [entry["exp_avg"] for entry in optimizer.state.values()]
    return [x.full_tensor().detach().numpy() for x in (*model.parameters(), *moments)]


def save(folder: Path) -> list[Any]:
    """On four processes: tensors on a grid; a model and its optimizer on a line."""
    grid = init_device_mesh("cpu", (2, 2))
    whole = dj.from_numpy(WHOLE)
    dcp.save({n: distribute_tensor(whole, grid, p) for n, p in SAVED.items()},
             checkpoint_id=folder / "tensors")  # fmt: skip
    model = model_on(init_device_mesh("cpu", (4,)))
    optimizer = stepped(model)
    dcp.save(state_of(model, optimizer), checkpoint_id=folder / "model")
    part_of_sum = distribute_tensor(whole, grid).redistribute(placements=[Partial(), Replicate()])
    with pytest.raises(dcp.CheckpointException, match="Redistribute it to Shard"):
        dcp.save({"sum": part_of_sum}, checkpoint_id=folder / "refused")
    return wholes(model, optimizer)


def load(folder: Path) -> tuple[list[bool], list[Any], list[Any]]:
    """On any number: into tensors split otherwise, and whole ones; the model and its optimizer."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    zeros = dj.zeros(5, 7, dtype=dj.float64)
    right = []
    for placements in ([Shard(0)], [Shard(1)], [Replicate()]):
        state = {name: distribute_tensor(zeros, mesh, placements) for name in SAVED}
        dcp.load(state, checkpoint_id=folder / "tensors")
        right += [bool((x.full_tensor() == dj.from_numpy(WHOLE)).all()) for x in state.values()]
    plain = {name: zeros.clone() for name in SAVED}
    dcp.load(plain, checkpoint_id=folder / "tensors")
    right += [bool((x == dj.from_numpy(WHOLE)).all()) for x in plain.values()]

    model = model_on(mesh)
    optimizer = stepped(model)
    with dj.no_grad():
        for x in (*model.parameters(), *(entry["exp_avg"] for entry in optimizer.state.values())):
            x.zero_()
    dcp.load(state_of(model, optimizer), checkpoint_id=folder / "model")
    first = wholes(model, optimizer)

    again = model_on(mesh)
    other = dj.optim.AdamW(again.parameters(), lr=0.1)
    again.load_state_dict(model.state_dict())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return right, first, wholes(again, other)


def test_any_number_of_processes_reads_what_others_wrote(tmp_path: Path) -> None:
    ((saved, *_),) = on_ranks([functools.partial(save, tmp_path)], 4)
    assert not isinstance(saved, Raised), saved
    for size in (1, 2):
        for found in on_ranks([functools.partial(load, tmp_path)], size)[0]:
            assert not isinstance(found, Raised), found
            right, *models = found
            assert all(right) and len(right) == 4 * len(SAVED)
            for values in models:
                for expected, value in zip(saved, values, strict=True):
                    np.testing.assert_array_equal(expected, value)
