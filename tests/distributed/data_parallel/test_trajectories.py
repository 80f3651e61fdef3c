"""Parallel training is training on the joined batch, and PyTorch's: eager and compiled."""

import functools
import importlib.util
import tempfile
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.nn.parallel import DistributedDataParallel
from tests.distributed.data_parallel import programs, pytorch_processes
from tests.support.ranks import on_ranks

pytestmark = pytest.mark.one_python

SIZES = (2, 4)
WAYS = ("eager", "module compiled", "inner compiled")
FEW = {("mlp", "module compiled"), *((name, "eager") for name in programs.MODELS)}
"""What four processes show: compilers take most of the time."""


CASES = [
    *((name, False) for name in programs.PROGRAMS),
    *((name, True) for name in programs.WHOLE),
]


def synchronised(module: Any) -> Any:
    return dj.nn.SyncBatchNorm.convert_sync_batchnorm(module)


def parallel(name: str, way: str, **options: Any) -> dict[str, Any]:
    """A model trained on all ranks."""
    options = {"bucket_cap_mb": 0.001, **options}

    def wrapped(module: Any) -> Any:
        inner = dj.compile(module) if way == "inner compiled" else module
        return DistributedDataParallel(inner, **options)

    compiled = dj.compile if way == "module compiled" else lambda module: module
    found = programs.trained(
        name, dj, wrapped, dist.get_rank(), dist.get_world_size(), synchronised, compiled
    )
    return {key.removeprefix("_orig_mod."): value for key, value in found.items()}


def whole_steps() -> dict[str, Any]:
    """A compiled function that does a whole step, the parallel module in it."""
    module = DistributedDataParallel(programs.filled(dj, programs.mlp(dj)), bucket_cap_mb=0.001)
    optimizer = dj.optim.AdamW(module.parameters(), lr=0.01)

    @dj.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    rank, size = dist.get_rank(), dist.get_world_size()
    for number in range(programs.STEPS):
        step(programs.inputs(dj, "mlp", number, rank, size))
    return programs.state(module)


def of_program(name: str, is_whole: bool = False) -> dict[str, Any]:
    """A program that PyTorch runs, too; its steps compiled as a whole, or plain."""
    program = programs.PROGRAMS[name]
    named = {"whole": dj.compile} if is_whole else {}
    return program(dj, DistributedDataParallel, dist.get_rank(), dist.get_world_size(), **named)


@functools.cache
def trajectories(size: int) -> dict[Any, list[Any]]:
    """(model, way) -> results by rank."""
    asked: dict[Any, Any] = {
        (name, way): functools.partial(parallel, name, way)
        for name in programs.MODELS
        for way in WAYS
        if size == 2 or (name, way) in FEW
    }
    asked["whole"] = whole_steps
    return dict(zip(asked, on_ranks(list(asked.values()), size), strict=True))


@functools.cache
def beside_pytorch() -> dict[tuple[str, bool], tuple[list[Any], list[Any]]]:
    """Program, and whether its steps are compiled -> dynajit's results by rank, and PyTorch's; both
    jobs run at the same time."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    with tempfile.TemporaryDirectory() as folder:
        processes = pytorch_processes.start(2, folder)
        ours = on_ranks([functools.partial(of_program, *case) for case in CASES], 2)
        theirs = pytorch_processes.results(processes, folder)
    return {
        (name, is_whole): (mine, [by_rank[name] for by_rank in theirs])
        for (name, is_whole), mine in zip(CASES, ours, strict=True)
    }


@functools.cache
def alone(name: str) -> dict[str, Any]:
    """One process with the joined batch."""
    return programs.trained(name, dj, lambda module: module, 0, 1)


def assert_close(found: Any, expected: dict[str, Any], tolerance: float) -> None:
    assert isinstance(found, dict), found
    assert isinstance(expected, dict), expected
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(
            found[key], value, rtol=tolerance, atol=tolerance * 0.01, err_msg=key
        )


@pytest.mark.parametrize(
    ("name", "way", "size"),
    [(name, way, 2) for name in programs.MODELS for way in WAYS]
    + [(name, way, 4) for name, way in sorted(FEW)],
)
def test_training_in_parallel_is_training_on_the_joined_batch(
    name: str, way: str, size: int
) -> None:
    for of_rank in trajectories(size)[name, way]:
        assert_close(of_rank, alone(name), 1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_a_compiled_step_may_have_a_parallel_module_in_it(size: int) -> None:
    for of_rank in trajectories(size)["whole"]:
        assert_close(of_rank, alone("mlp"), 1e-6)


TOLERANCES = {"half hook": 1e-5, "mixed": 1e-5, "scaled": 0.02}  # of float16, float32, bfloat16


@pytest.mark.parametrize(("name", "is_whole"), CASES)
def test_parallel_programs_do_what_pytorchs_do(name: str, is_whole: bool) -> None:
    mine, theirs = beside_pytorch()[name, is_whole]
    for found, expected in zip(mine, theirs, strict=True):
        assert_close(found, expected, TOLERANCES.get(name, 1e-6))
