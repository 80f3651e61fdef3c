"""Modules that are spread over processes train as those of one process do, and as PyTorch's."""

import copy
import functools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.distributed.tensor import Replicate, Shard, init_device_mesh
from dynajit.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from tests.distributed.tensor.both import by_dynajit, whole
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("alone", "tensor", "sequence")


def assert_same(expected: Any, found: Any) -> None:
    assert not isinstance(found, Raised), found
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-9)
    np.testing.assert_allclose(found["norms"], expected["norms"], rtol=1e-9)
    assert list(expected["parameters"]) == list(found["parameters"])
    for name, value in expected["parameters"].items():
        np.testing.assert_allclose(found["parameters"][name], value, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", (2, 4))
def test_training_is_that_of_one_process(size: int) -> None:
    alone, *others = on_ranks([functools.partial(by_dynajit, kind) for kind in KINDS], size)
    for results in others:
        for found in results:
            assert_same(alone[0], found)


@pytest.mark.slow
def test_training_is_pytorchs(tmp_path: Path) -> None:
    """Losses, norms, parameters, and where gradients lie."""
    pytest.importorskip("torch")
    size = 2
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.tensor.both", str(rank), str(size),
             str(tmp_path)],
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    ours = on_ranks([functools.partial(by_dynajit, kind) for kind in KINDS[1:]], size)
    said = [process.communicate(timeout=100)[1] for process in started]
    assert [0] * size == [process.returncode for process in started], said
    for rank in range(size):
        expected = pickle.loads((tmp_path / f"results{rank}").read_bytes())
        for kind, results in zip(KINDS[1:], ours, strict=True):
            assert_same(expected[kind], results[rank])
            for name, placed in results[rank]["gradients"].items():
                # What every process has whole is cut where the parameter is split.
                assert expected[kind]["gradients"][name] in (placed, "(Replicate(),)")


def clipped() -> list[bool]:
    """Norms of gradients, of which some are plain, are those of wholes."""
    mesh = init_device_mesh("cpu", (2,))
    found = []
    for order in (2.0, 1.0, float("inf")):
        dj.manual_seed(0)
        plain = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3)).double()
        spread = copy.deepcopy(plain)
        styles = {
            "0": ColwiseParallel(output_layouts=Replicate()),
            "2": RowwiseParallel(input_layouts=Replicate()),
        }
        parallelize_module(spread, mesh, styles)
        norms = []
        for model in (plain, spread):
            model(dj.arange(20).reshape(4, 5).double()).square().sum().backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1, order).item())
        grads = [[whole(p.grad) for p in model.parameters()] for model in (plain, spread)]
        near = all(bool((a - b).abs().max() < 1e-12) for a, b in zip(*grads, strict=True))
        found.append(near and abs(norms[0] / norms[1] - 1) < 1e-12)
    return found


def refusals() -> list[str]:
    mesh = init_device_mesh("cpu", (2,))
    calls = [
        lambda: parallelize_module(nn.ReLU(), mesh, ColwiseParallel()),
        lambda: parallelize_module(nn.ReLU(), mesh, RowwiseParallel()),
        lambda: parallelize_module(nn.Linear(2, 2), mesh, [ColwiseParallel()]),  # type: ignore[arg-type]
        lambda: parallelize_module(
            nn.Linear(2, 2), init_device_mesh("cpu", (1, 2)), ColwiseParallel()
        ),
        lambda: PrepareModuleInput(input_layouts=Shard(0)),
        lambda: PrepareModuleOutput(
            output_layouts=(Shard(0),), desired_output_layouts=(Shard(0), Replicate())
        ),
        lambda: parallelize_module(nn.LayerNorm(2), mesh, SequenceParallel())([1.0]),
    ]
    found = []
    for call in calls:
        with pytest.raises(Exception) as caught:
            call()
        found.append(" ".join(kind.__name__ for kind in caught.type.__mro__))
    return found


def boundaries() -> list[Any]:
    """Placements of what goes through modules whose inputs and outputs are placed."""
    mesh = init_device_mesh("cpu", (2,))

    class Seen(nn.Module):
        """Keeps what it got."""

        def forward(self, x: Any, *, y: Any) -> Any:
            self.got = x, y
            return x + 1, y

    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(),
        input_kwarg_layouts={"y": Replicate()}, desired_input_kwarg_layouts={"y": Shard(1)},
        output_layouts=(Replicate(), None), desired_output_layouts=(Shard(0), Shard(0)),
    )  # fmt: skip
    module = Seen()
    parallelize_module(module, mesh, {"": style})
    first, second = module(dj.ones(2, 2), y=dj.ones(2, 2))
    x, y = module.got
    return [x.placements, y.placements, type(first) is dj.Tensor, second is y]


@functools.cache
def small_results() -> dict[str, list[Any]]:
    """By rank, of one job."""
    functions = (clipped, refusals, boundaries)
    found = on_ranks(functions, 2)
    for by_rank in found:
        assert not any(isinstance(one, Raised) for one in by_rank), by_rank
    return {f.__name__: results for f, results in zip(functions, found, strict=True)}


def test_norms_of_spread_gradients_are_those_of_wholes() -> None:
    for found in small_results()["clipped"]:
        assert [True] * 3 == found


def test_boundaries_of_modules_place_what_goes_through() -> None:
    for found in small_results()["boundaries"]:
        assert [(Replicate(),), (Shard(1),), True, True] == found


def test_what_styles_do_not_fit_is_refused() -> None:
    found, _ = small_results()["refusals"]
    expected = ["NotImplementedError", "NotImplementedError", "TypeError", "ValueError",
                "AssertionError", "AssertionError", "ValueError"]  # fmt: skip
    for kind, kinds in zip(expected, found, strict=True):
        assert kind in kinds.split()


def test_a_name_that_no_module_has_is_told() -> None:
    def plan() -> None:
        parallelize_module(nn.Sequential(nn.ReLU()), Mesh(), {"1": SequenceParallel()})  # type: ignore[arg-type]

    class Mesh:
        """Of one dim."""

        ndim = 1

    with pytest.warns(UserWarning, match="no submodule matching token '1'"):
        plan()
