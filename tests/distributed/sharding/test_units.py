"""Whole trainings: what every stage of sharding computes has the bits of data parallelism."""

import functools
from typing import Any

import numpy as np
import pytest

from tests.distributed.sharding.models import (
    MODELS,
    adamw,
    compiled_runs,
    made,
    plain_run,
    stage_runs,
    train,
)
from tests.support.ranks import Raised, on_ranks


def runs() -> dict[str, Any]:
    """Of every model, plainly and in all stages; blocks that are compiled."""
    found = {name: (plain_run(name), stage_runs(name)) for name in MODELS}
    return {**found, "compiled": compiled_runs()}


@functools.cache
def results(size: int) -> list[Any]:
    """By rank."""
    (by_rank,) = on_ranks([runs], size)
    assert not any(isinstance(found, Raised) for found in by_rank), by_rank
    return by_rank


def assert_same_bits(expected: Any, found: Any, what: str) -> None:
    """Losses and parameters are equal."""
    assert expected[0] == found[0], what
    for a, b in zip(expected[1], found[1], strict=True):
        np.testing.assert_array_equal(a, b, err_msg=what)


@pytest.mark.parametrize("size", [2, 4])
def test_every_stage_has_the_bits_of_data_parallelism(size: int) -> None:
    """Losses of each rank, and all parameters, after three steps of AdamW."""
    for by_model in results(size):
        for name in MODELS:
            plain, stages = by_model[name]
            assert 6 == len(stages)
            for stage, found in stages.items():
                assert_same_bits(plain, found, f"{name}, {stage}")


@pytest.mark.parametrize("size", [2, 4])
def test_processes_compute_what_one_computes_on_all_samples(size: int) -> None:
    """In float64, to 1e-6 and better."""
    for name in MODELS:
        model = made(name)
        losses, parameters = train(name, model, adamw(model), is_whole_batch=True)
        by_rank = [by_model[name][1]["FULL_SHARD"] for by_model in results(size)]
        means = np.mean([found[0] for found in by_rank], axis=0)
        np.testing.assert_allclose(means, losses, rtol=1e-6)
        for a, b in zip(by_rank[0][1], parameters, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [2, 4])
def test_compiled_functions_see_whole_parameters_in_one_version(size: int) -> None:
    """Within sharded modules, with the bits of data parallelism of the same functions."""
    for by_model in results(size):
        found = by_model["compiled"]
        for stage in (2, 3):
            assert_same_bits(found["plain"], found[f"stage {stage}"], f"stage {stage}")
            assert [1, 1] == found[f"versions {stage}"]
