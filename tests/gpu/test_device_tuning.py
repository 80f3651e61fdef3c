"""Kernels chosen by measuring: whatever is chosen computes the same, and is found again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen.cuda.units.steps import Choice
from dynajit.codegen.device import tuning as device_tuning
from dynajit.codegen.device.pipeline import Launching
from dynajit.core.process import config
from dynajit.ops import TABLE as ops
from tests.support.gpu.device_graphs import array, check_program, compiled, graph_of, host, type_of

rng = np.random.default_rng(0)
TUNES = Launching(tunes=True)


@pytest.fixture(autouse=True)
def own_cache(driver: Any, tmp_path: Path) -> Iterator[Path]:
    """A cache folder for each test."""
    with config.override(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch, is_stand_in: bool) -> None:
    """The emulator is slow, and what it measures means nothing."""
    if is_stand_in:
        monkeypatch.setattr(device_tuning, "REPEATS", 1)
        monkeypatch.setattr(device_tuning, "MOST_VARIANTS", 3)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def work(x: Any, weight: Any) -> Any:
    return ops.sum(ops.softmax(ops.matmul(ops.exp(x), weight), dim=1), dim=(0,), keepdim=False)


def test_a_tuned_program_computes_the_same() -> None:
    x, weight = normal(24, 40), normal(40, 300)
    graph = graph_of(work, type_of(x), type_of(weight))
    program = compiled(graph, TUNES)
    check_program(program, graph, [x, weight])

    assert program.stages["tuning"] > 0


def test_what_was_measured_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(24, 40), normal(40, 300)
    graph = graph_of(work, type_of(x), type_of(weight))
    first = compiled(graph, TUNES)
    first_result = first(array(x), array(weight))[0]
    monkeypatch.setattr(device_tuning, "measured", None)
    again = compiled(graph, TUNES)

    np.testing.assert_array_equal(host(first_result), host(again(array(x), array(weight))[0]))
    assert first.algorithms() == again.algorithms()
    assert any(any(algorithm) for algorithm in again.algorithms())


def test_measuring_leaves_written_arguments_alone() -> None:
    x, y = normal(8, 33), normal(8, 33)
    graph = graph_of(lambda x, y: ops.add(ops.mul(x, 0.5), y), type_of(x), type_of(y))
    program = pipeline.start_compile(graph, written={0: 0}, launching=TUNES)()
    given = array(x)
    (result,) = program(given, array(y))

    assert result is given
    np.testing.assert_allclose(x * 0.5 + y, host(given), rtol=1e-6)


def test_the_usual_numbers_come_first_and_then_single_changes() -> None:
    found = device_tuning._variants(
        [Choice("a:threads", (1, 2, 4), 2), Choice("a:packs", (1, 2), 1), Choice("b:x", (7,), 7)]
    )

    assert {"a:threads": 2, "a:packs": 1, "b:x": 7} == found[0]
    assert all(variant["b:x"] == 7 for variant in found)
    for variant in found[1:3]:
        assert 1 == sum(variant[name] != found[0][name] for name in variant)


def test_damaged_winners_are_measured_again(own_cache: Path) -> None:
    x, weight = normal(24, 40), normal(40, 300)
    graph = graph_of(work, type_of(x), type_of(weight))
    compiled(graph, TUNES)(array(x), array(weight))
    for file in (own_cache / "graphs").glob("*.json"):
        file.write_bytes(b"{}")
    program = compiled(graph, TUNES)
    check_program(program, graph, [x, weight])
