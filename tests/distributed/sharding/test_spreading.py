"""Sharding over meshes of two dims, and with tensor parallelism, computes what one process does."""

import functools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit import nn
from dynajit.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from dynajit.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from dynajit.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh, parallel
from dynajit.distributed.tensor.placement_types import _StridedShard
from tests.distributed.tensor.both import LENGTH, WORDS, model_of, plan_of, whole
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

SIZE = 4
STEPS = 3


def words(step: int) -> Any:
    return dj.from_numpy(np.random.default_rng(step).integers(0, WORDS, (SIZE, LENGTH)))


def trained(model: Any, rank: int, parts: int) -> tuple[list[float], dict[str, Any]]:
    """Norms of gradients, and parameters after some steps of AdamW; part `rank` of each batch."""
    optimizer = dj.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    norms = []
    for step in range(STEPS):
        optimizer.zero_grad()
        own = words(step).chunk(parts)[rank]
        scores = model(own)
        nn.functional.cross_entropy(scores.flatten(0, 1), own.flatten()).backward()
        norms.append(float(whole(nn.utils.clip_grad_norm_(model.parameters(), 0.5))))
        optimizer.step()
    values = {
        name.replace("_fsdp_wrapped_module.", ""): whole(p).detach().numpy()
        for name, p in model.named_parameters()
    }
    return norms, values


def alone() -> Any:
    return trained(model_of(dj), 0, 1)


def sharded_over(shape: tuple[int, ...], reshards: bool | int) -> Any:
    """By `fully_shard`, the attention and the MLP by themselves."""
    mesh = init_device_mesh("cpu", shape)
    model = model_of(dj)
    for part in (model.attention, model.mlp):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshards)
    fully_shard(model, mesh=mesh)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    expected = (*(Replicate(),) * (len(shape) - 1), Shard(0))
    assert {expected} == {p.placements for p in model.parameters()}
    return trained(model, dist.get_rank(), SIZE)


def wrapped(is_mesh: bool, strategy: ShardingStrategy) -> Any:
    """By `FullyShardedDataParallel`."""
    model = model_of(dj)
    mesh = init_device_mesh("cpu", (2, 2))
    given: dict[str, Any] = {"device_mesh": mesh}
    if not is_mesh:
        given = {"process_group": (mesh.get_group(1), mesh.get_group(0))}
    model.mlp = FullyShardedDataParallel(model.mlp, sharding_strategy=strategy, **given)
    model = FullyShardedDataParallel(model, sharding_strategy=strategy, **given)
    return trained(model, dist.get_rank(), SIZE)


def with_tensor_parallelism(kind: str) -> Any:
    """Batches over one dim of the mesh, columns and rows over the other."""
    tensor = dj.distributed.tensor
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = model_of(dj)
    plan = plan_of(kind, tensor, parallel)
    if kind == "sequence":
        plan["output"] = parallel.ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Replicate()
        )
    parallel.parallelize_module(model, mesh["tp"], plan)
    for part in (model.attention, model.mlp):
        fully_shard(part, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    placed = model.attention.wq.weight.placements, model.attention.wo.weight.placements
    assert ((_StridedShard(0, split_factor=2), Shard(0)), (Shard(0), Shard(1))) == placed
    rank = mesh["dp"].get_local_rank()
    return trained(model, rank, 2)


def states() -> list[bool]:
    """State dicts of a model with tensor parallelism that is sharded: whole, loaded, from meta."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

    def spread(model: Any) -> Any:
        plan = {"0": parallel.ColwiseParallel(), "1": parallel.RowwiseParallel()}
        return fully_shard(parallel.parallelize_module(model, mesh["tp"], plan), mesh=mesh["dp"])

    def plain(seed: int) -> Any:
        dj.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 5))

    def equal(model: Any, state: dict[str, Any]) -> bool:
        found = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        return all(bool((found[name] == x).all()) for name, x in state.items())

    first, second = plain(0).state_dict(), plain(1).state_dict()
    model = spread(plain(0))
    results = [equal(model, first)]
    model.load_state_dict(second)
    results.append(equal(model, second))
    parts = spread(plain(0)).state_dict()
    model.load_state_dict(parts)
    results.append(equal(model, first))
    with dj.device("meta"):
        empty = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 5))
    spread(empty).to_empty(device="cpu")
    dj.manual_seed(1)
    for layer in empty:
        layer.reset_parameters()
    return [*results, equal(empty, second)]


def kept() -> tuple[Any, ...]:
    """What a unit keeps between forward and backward, and who is asked for the rest."""
    model: Any = fully_shard(nn.Linear(4, 8), reshard_after_forward=2)
    outer = fully_shard(nn.Sequential(model, nn.Linear(8, 2)))
    unit = model.weight.unit
    outer(dj.ones(1, 4))
    between = unit._kept.numel(), unit.full is None, unit.members.smaller.size()
    outer(dj.ones(1, 4)).sum().backward()
    return (*between, unit._kept is None, tuple(model.weight.grad.shape))


def refusals() -> list[str]:
    calls = [
        lambda: fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1, 2, 2))),
        lambda: fully_shard(nn.Linear(2, 2), reshard_after_forward=3),
        lambda: fully_shard(Scalar()),
        lambda: fully_shard(
            parallel.parallelize_module(
                nn.Linear(2, 2), init_device_mesh("cpu", (SIZE,)), parallel.ColwiseParallel()
            )
        ),
        lambda: FullyShardedDataParallel(
            nn.Linear(2, 2), sharding_strategy=ShardingStrategy.HYBRID_SHARD,
            device_mesh=init_device_mesh("cpu", (SIZE,)),
        ),
        lambda: FullyShardedDataParallel(
            nn.Linear(2, 2), device_mesh=init_device_mesh("cpu", (2, 2))
        ),
    ]  # fmt: skip
    found = []
    for call in calls:
        with pytest.raises(ValueError) as caught:
            call()
        found.append(str(caught.value))
    return found


class Scalar(nn.Module):
    """Has a parameter without dims."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(dj.tensor(1.0))


RUNS = {
    "shard": functools.partial(sharded_over, (4,), True),
    "smaller groups": functools.partial(sharded_over, (4,), 2),
    "hybrid": functools.partial(sharded_over, (2, 2), True),
    "hybrid, smaller groups": functools.partial(sharded_over, (1, 4), 2),
    "HYBRID_SHARD": functools.partial(wrapped, True, ShardingStrategy.HYBRID_SHARD),
    "_HYBRID_SHARD_ZERO2": functools.partial(wrapped, False, ShardingStrategy._HYBRID_SHARD_ZERO2),
    "tensor": functools.partial(with_tensor_parallelism, "tensor"),
    "sequence": functools.partial(with_tensor_parallelism, "sequence"),
}


@functools.cache
def results() -> dict[str, list[Any]]:
    """By rank, of all functions."""
    found = on_ranks([alone, *RUNS.values(), kept, states, refusals], SIZE)
    for by_rank in found:
        assert not any(isinstance(one, Raised) for one in by_rank), by_rank
    return dict(zip(("alone", *RUNS, "kept", "states", "refusals"), found, strict=True))


@pytest.mark.parametrize("kind", RUNS)
def test_training_is_that_of_one_process(kind: str) -> None:
    norms, values = results()["alone"][0]
    for found_norms, found in results()[kind]:
        np.testing.assert_allclose(found_norms, norms, rtol=1e-9)
        assert list(values) == list(found)
        for name, value in values.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


def test_neighbours_keep_parameters_between_forward_and_backward() -> None:
    """40 elements, half of them in each of two processes."""
    for found in results()["kept"]:
        assert (20, True, 2, True, (8, 4)) == found


def test_states_of_spread_models_are_those_of_plain_ones() -> None:
    for found in results()["states"]:
        assert [True] * 4 == found


def test_what_does_not_fit_is_refused() -> None:
    expected = ("1D or 2D DeviceMesh", "should be a factor", "scalar parameters",
                "same parent mesh", "Expected a mesh of two dims", "for HYBRID_SHARD")  # fmt: skip
    for found in results()["refusals"]:
        for text, message in zip(expected, found, strict=True):
            assert text in message
