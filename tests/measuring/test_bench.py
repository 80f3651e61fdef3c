"""`dj.bench`: who takes part, what is counted, how it is shown."""

import math
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError
from dynajit.core.process import config
from dynajit.measuring import bench as benches
from dynajit.measuring.machine import Limits

QUICK: dict[str, Any] = {"budget_s": 0.0, "torch": False}


@pytest.fixture(autouse=True)
def quick_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of no machine, known at once; rounds that take no time."""
    limits = Limits((1e9, 1e9, 1e9), (1e9, 1e9, 1e9), 1e9)
    monkeypatch.setattr(benches, "_limits", lambda threads: limits)
    monkeypatch.setattr(benches, "_ROUND_S", 1e-4)


def softmax(x: Any) -> Any:
    """A global function, so that PyTorch's module can stand in."""
    return dj.nn.functional.softmax(x, dim=-1)


def test_eager_and_compiled_are_timed() -> None:
    """And compared with what the machine can do."""
    found = dj.bench(softmax, dj.randn(8, 16), **QUICK)

    assert ["eager", "compiled"] == list(found.times)
    assert all(time > 0 for time in found.times.values())
    assert found.speedup == found.times["eager"] / found.times["compiled"]
    assert 2 * 8 * 16 * 4 == found.work.bytes
    assert found.least_s == pytest.approx(2 * 8 * 16 * 4 / 1e9)
    assert config.current().thread_count == found.threads
    assert 5 == found.rounds


def test_work_counts_products_and_what_was_not_made_within() -> None:
    """Weights that a function closes over; no intermediate value."""
    weight = dj.randn(16, 4)
    found = dj.bench(lambda x: (x @ weight).relu() + 1, dj.randn(8, 16), **QUICK)

    assert 2 * 8 * 16 * 4 == found.work.flops
    assert 4 * (8 * 16 + 16 * 4 + 8 * 4) == found.work.bytes


def test_pytorch_runs_the_same_function() -> None:
    """Its modules stand in the place of dynajit's, in globals and closures."""
    pytest.importorskip("torch")
    import_of_test = dj

    def through_a_cell(x: Any) -> Any:
        return import_of_test.relu(softmax(x))

    for function in (softmax, through_a_cell):
        found = dj.bench(function, dj.randn(8, 16), budget_s=0.0)

        assert ["eager", "compiled", "torch"] == list(found.times), found.missing
        assert {} == found.missing


def test_what_pytorch_cannot_run_is_said() -> None:
    """With what to do."""
    pytest.importorskip("torch")
    layer = dj.nn.Linear(4, 4)
    found = dj.bench(lambda x: layer(x), dj.randn(2, 4), budget_s=0.0)

    assert "it uses layer, which is dynajit's.  Pass torch=, one for it" == found.missing["torch"]
    assert "Pass torch=" in str(found)


def test_a_function_of_pytorchs_is_taken() -> None:
    """With arguments as its tensors; one that computes something else has no time."""
    torch = pytest.importorskip("torch")
    good = dj.bench(softmax, dj.randn(3, 4), torch=lambda x: torch.softmax(x, -1), budget_s=0.0)
    wrong = dj.bench(softmax, dj.randn(3, 4), torch=torch.exp, budget_s=0.0)
    other = dj.bench(softmax, dj.randn(3, 4), torch=torch.sum, budget_s=0.0)

    assert "torch" in good.times, good.missing
    assert "its results differ: result 0 by" in wrong.missing["torch"]
    assert "has shape () instead of (3, 4)" in other.missing["torch"]


def test_a_compiled_function_is_timed_as_it_is() -> None:
    """Eager is its original."""
    compiled = dj.compile(softmax, fullgraph=True)
    found = dj.bench(compiled, dj.randn(8, 16), **QUICK)

    assert "softmax" == found.name
    assert compiled.report().calls > 5


def test_a_module_is_timed() -> None:
    """Also one with gradients, and options of `compile` are passed on."""
    found = dj.bench(
        dj.nn.Linear(4, 4), dj.randn(2, 4), compile_options={"fullgraph": True}, **QUICK
    )

    assert "Linear" == found.name
    assert {"eager", "compiled"} == set(found.times)


def test_what_cannot_be_called_is_refused() -> None:
    """At once."""
    with pytest.raises(ArgumentError, match=r"bench\(3\): expected a function or module"):
        dj.bench(3)  # type: ignore[arg-type]


def test_a_compiled_function_that_fails_has_no_time() -> None:
    """The reason is its error's first line."""
    found = dj.bench(
        lambda x: x + hash(object()), dj.ones(3), compile_options={"fullgraph": True}, **QUICK
    )

    assert ["eager"] == list(found.times)
    assert "compiled" in found.missing
    assert math.isnan(found.speedup)


def test_it_is_shown_in_a_line_and_in_a_table(tmp_path: Path) -> None:
    """And as a picture."""
    found = benches.Bench("f", {"eager": 2e-3, "compiled": 1e-3}, least_s=5e-4, rounds=5)

    assert "<bench f: eager 2 ms, compiled 1 ms; 50.0% of the roofline>" == repr(found)
    assert "2.00x" in str(found) and "50.0% is reached" in str(found)
    assert tmp_path / "f.svg" == found.plot(tmp_path / "f.svg")
    assert "compiled" in (tmp_path / "f.svg").read_text()
    busy = benches.Bench("f", {"eager": 2e-3}, least_s=5e-3)
    assert "which was busy" in str(busy)
