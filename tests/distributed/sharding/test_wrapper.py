"""`FullyShardedDataParallel`: names, state dicts, optimizer states, norms; and stage 1."""

import functools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit import nn
from dynajit.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from dynajit.distributed.fsdp.wrap import enable_wrap, size_based_auto_wrap_policy, wrap
from dynajit.distributed.optim import ZeroRedundancyOptimizer
from tests.distributed.sharding.models import (
    adamw,
    averaged,
    batch,
    loss_of,
    made,
    own_part,
    train,
    whole_parameters,
    wrapped,
)
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python


def full_state_dicts() -> dict[str, Any]:
    """Of a trained model: names and values, those of a plain one, and what is loaded again."""
    plain, model = made("gpt"), wrapped("gpt", ShardingStrategy.FULL_SHARD)
    train("gpt", plain, adamw(plain), reduce=averaged)
    train("gpt", model, adamw(model))
    saved = model.state_dict()
    other = wrapped("gpt", ShardingStrategy.SHARD_GRAD_OP)
    keys = other.load_state_dict(saved)
    with FullyShardedDataParallel.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True)
    ):
        of_first = len(model.state_dict())
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        parts = model.state_dict()
        model.load_state_dict(parts)
        wholes = {name: part.full_tensor().numpy() for name, part in parts.items()}
    return {
        "plain": {name: x.numpy() for name, x in plain.state_dict().items()},
        "saved": {name: x.numpy() for name, x in saved.items()},
        "parts": wholes,
        "sizes": sum(part.numel() for part in parts.values()),
        "keys": (list(keys.missing_keys), list(keys.unexpected_keys)),
        "loaded": whole_parameters(other),
        "of the first": of_first,
    }


def optimizer_states() -> tuple[Any, ...]:
    """Momenta of a plain model and of a sharded one, by name; what is loaded into another."""
    plain, model = made("mlp"), wrapped("mlp", ShardingStrategy.FULL_SHARD)
    plainly, sharded = adamw(plain), adamw(model)
    train("mlp", plain, plainly, reduce=averaged)
    train("mlp", model, sharded)
    found = FullyShardedDataParallel.optim_state_dict(model, sharded)
    other = dj.optim.AdamW(model.parameters(), lr=0.5)
    other.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(model, other, found))
    is_same = all(
        other.state[p][key].equal(value)
        for p, entry in sharded.state.items()
        for key, value in entry.items()
    )
    expected = {
        name: {key: value.numpy() for key, value in plainly.state[p].items()}
        for name, p in plain.named_parameters()
    }
    state = {
        name: {key: value.numpy() for key, value in entry.items()}
        for name, entry in found["state"].items()
    }
    return expected, state, is_same, other.param_groups[0]["lr"]


def clipped() -> tuple[Any, ...]:
    """Norms of all gradients and gradients after clipping: plainly, by the method and by
    `nn.utils`, and the largest magnitude."""
    plain = made("mlp")
    loss_of(plain, *map(own_part, batch("mlp", 0))).backward()
    averaged(plain)
    largest = nn.utils.get_total_norm([p.grad for p in plain.parameters()], float("inf")).item()
    expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.1).item()
    norms, gradients = [], []
    for is_method in (True, False):
        model = wrapped("mlp", ShardingStrategy.FULL_SHARD)
        loss_of(model, *map(own_part, batch("mlp", 0))).backward()
        found = nn.utils.clip_grad_norm_(model.parameters(), 1e9, float("inf")).item()
        if is_method:
            norms.append(model.clip_grad_norm_(0.1).item())
        else:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
        units = {p.unit: None for p in model.parameters()}
        for unit in units:
            gradients.append(unit.joined([leaf.grad for leaf in unit.leaves]))
    first = [x.numpy() for unit in gradients[: len(gradients) // 2] for x in unit]
    return expected, norms, [p.grad.numpy() for p in plain.parameters()], first, largest, found


def written_whole() -> tuple[Any, ...]:
    """Values that were written where parameters are whole, with and without being kept."""
    model = wrapped("mlp", ShardingStrategy.FULL_SHARD)
    for is_kept in (True, False):
        with (
            FullyShardedDataParallel.summon_full_params(model, writeback=is_kept),
            dj.no_grad(),
        ):
            for parameter in model.parameters():
                parameter.fill_(2.0 if is_kept else 3.0)
    with FullyShardedDataParallel.summon_full_params(model):
        shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    plain = {name: tuple(p.shape) for name, p in made("mlp").named_parameters()}
    return shapes == plain, {float(x.min()) for x in whole_parameters(model)}


def policies() -> tuple[Any, ...]:
    """How many modules are wrapped, by size and by hand; what is refused; dtypes."""
    by_size = FullyShardedDataParallel(
        made("mlp"),
        auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=100),
        sync_module_states=True,
    )
    with enable_wrap(wrapper_cls=FullyShardedDataParallel):
        by_hand = wrap(nn.Linear(2, 2))
    with dj.device("meta"):
        empty = nn.Linear(3, 3)
    started = FullyShardedDataParallel(empty)(dj.ones(1, 3))
    try:
        FullyShardedDataParallel(
            nn.Linear(2, 2), dist.group.WORLD, sharding_strategy=ShardingStrategy.HYBRID_SHARD
        )
    except ValueError as error:
        refused = str(error)
    precise = FullyShardedDataParallel(
        nn.Linear(2, 2), mixed_precision=MixedPrecision(param_dtype=dj.bfloat16)
    )
    result = precise(dj.ones(1, 2))
    return (
        len(FullyShardedDataParallel.fsdp_modules(by_size)),
        isinstance(by_hand, FullyShardedDataParallel),
        bool(started.isfinite().all()),
        refused,
        result.dtype.name,
    )


def first_stage(is_bucket: bool) -> dict[str, Any]:
    """State of all, own numbers of states, learning rates, and what is loaded again."""
    plain, model = made("mlp"), made("mlp")
    plainly = adamw(plain)
    sharded: Any = ZeroRedundancyOptimizer(
        model.parameters(), dj.optim.AdamW, parameters_as_bucket_view=is_bucket, lr=1e-2
    )
    schedules = [dj.optim.lr_scheduler.StepLR(one, 1, 0.5) for one in (plainly, sharded)]
    for step in range(3):
        for one, optimizer in ((plain, plainly), (model, sharded)):
            optimizer.zero_grad()
            loss_of(one, *map(own_part, batch("mlp", step))).backward()
            averaged(one)
            optimizer.step()
        for schedule in schedules:
            schedule.step()
    try:
        sharded.state_dict()
        early = ""
    except RuntimeError as error:
        early = str(error)
    sharded.consolidate_state_dict(to=1)
    state = sharded.state_dict()["state"] if dist.get_rank() == 1 else {}
    other: Any = ZeroRedundancyOptimizer(model.parameters(), dj.optim.AdamW, lr=1.0)
    other.load_state_dict(plainly.state_dict())
    extra = nn.Linear(2, 2)
    sharded.add_param_group({"params": list(extra.parameters()), "lr": 0.25})
    return {
        "parameters": (whole_parameters(plain), whole_parameters(model)),
        "early": early,
        "state": {n: {k: v.numpy() for k, v in entry.items()} for n, entry in state.items()},
        "expected": {
            n: {k: v.numpy() for k, v in entry.items()}
            for n, entry in plainly.state_dict()["state"].items()
        },
        "own": sum(x.numel() for e in other.optim.state.values() for x in e.values() if x.ndim),
        "all": sum(x.numel() for e in plainly.state.values() for x in e.values() if x.ndim),
        "rates": (other.param_groups[0]["lr"], plainly.param_groups[0]["lr"]),
        "groups": [group["lr"] for group in sharded.optim.param_groups],
    }


FUNCTIONS = {
    "state dicts": full_state_dicts,
    "optimizer": optimizer_states,
    "clipped": clipped,
    "written": written_whole,
    "policies": policies,
    "first stage": functools.partial(first_stage, False),
    "first stage, buckets": functools.partial(first_stage, True),
}


@functools.cache
def results() -> dict[str, list[Any]]:
    """Of all functions, by rank, in one job."""
    found = on_ranks(list(FUNCTIONS.values()), 2)
    for by_rank in found:
        assert not any(isinstance(one, Raised) for one in by_rank), by_rank
    return dict(zip(FUNCTIONS, found, strict=True))


def assert_same(expected: dict[Any, Any], found: dict[Any, Any]) -> None:
    """Names in order, and values."""
    assert list(expected) == list(found)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same(value, found[name])
        else:
            np.testing.assert_array_equal(value, found[name], err_msg=str(name))


def test_state_dicts_are_those_of_the_module_inside() -> None:
    """Whole, of parts, loaded into another module, and in the first process alone."""
    by_rank = results()["state dicts"]
    for found in by_rank:
        assert_same(found["plain"], found["saved"])
        assert_same(found["plain"], found["parts"])
        assert ([], []) == found["keys"]
        names = [name for name in found["plain"] if name != "head.weight"]
        for name, value in zip(names, found["loaded"], strict=True):
            np.testing.assert_array_equal(found["plain"][name], value)
    assert [len(by_rank[0]["plain"]), 0] == [found["of the first"] for found in by_rank]
    count = sum(x.size for x in by_rank[0]["plain"].values())
    assert count == sum(found["sizes"] for found in by_rank)


def test_states_of_optimizers_are_those_of_plain_ones() -> None:
    """By name, whole; and are loaded as parts."""
    for expected, found, is_same, rate in results()["optimizer"]:
        assert_same(expected, found)
        assert is_same
        assert rate == 1e-2


def test_norms_are_of_all_parts() -> None:
    """By the method and by `nn.utils`; sums are taken in another order than in one process."""
    for expected, norms, gradients, found, largest, found_largest in results()["clipped"]:
        np.testing.assert_allclose(norms, expected, rtol=1e-12)
        assert largest == found_largest
        for a, b in zip(gradients, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_what_is_written_to_whole_parameters_is_kept_if_asked() -> None:
    """By each process, its part."""
    for has_names, found in results()["written"]:
        assert has_names
        assert {2.0} == found


def test_policies_choose_what_is_wrapped() -> None:
    """Hybrid strategies are refused; modules on meta get values; dtypes are those asked for."""
    for count, by_hand, is_finite, refused, dtype in results()["policies"]:
        assert 3 == count
        assert by_hand
        assert is_finite
        assert "HYBRID_SHARD" in refused
        assert "bfloat16" == dtype


@pytest.mark.parametrize("kind", ["first stage", "first stage, buckets"])
def test_every_process_steps_some_parameters(kind: str) -> None:
    """With the bits of one optimizer, the state of all where it was asked for, and schedules."""
    by_rank = results()[kind]
    for found in by_rank:
        for a, b in zip(*found["parameters"], strict=True):
            np.testing.assert_array_equal(a, b)
        assert "has not been consolidated on this rank" in found["early"]
        assert found["rates"][0] == found["rates"][1] == 1e-2 / 8
        assert [1e-2 / 8, 0.25] == found["groups"]
        assert found["own"] < 0.7 * found["all"]
    assert by_rank[0]["all"] == sum(found["own"] for found in by_rank)
    assert {} == by_rank[0]["state"]
    assert_same(by_rank[1]["expected"], by_rank[1]["state"])
