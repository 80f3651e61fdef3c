"""The cases of the CPU table build and agree at small sizes; nothing here looks at a time."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    cpu,
    fresh_processes,
    fresh_programs,
    latency,
    libraries,
    mapped,
    measuring,
    plotting,
    pointwise,
    programs,
    reductions,
    training,
)
from benchmarks.case import Case
from benchmarks.libraries import LIBRARIES, named
from dynajit.core.errors import UnsupportedError
from dynajit.measuring import machine
from dynajit.measuring.machine import Work

SMALL = [
    *latency.cases(latency.Sizes(arguments=5, layers=4, width=4)),
    *pointwise.cases(pointwise.Sizes((10, 100, 1000), 100, 100, 12)),
    *reductions.cases(reductions.Sizes((8, 16), (8, 12))),
    *training.cases(
        training.Sizes(
            small_batch=4, small_widths=(6, 5, 3), wide_batch=4, wide_widths=(6, 6, 6, 6),
            lstm_batch=2, lstm_steps=3, lstm_inputs=4, lstm_hidden=5, block_batch=2,
            block_length=3, block_width=8, block_heads=2, channels=(2, 3), image_batch=2,
            image_size=8, adam_parameters=2, adam_side=5,
        )
    ),
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("strict_programs")


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_contestants_agree(case: Case) -> None:
    """Compiled dynajit, NumPy and C where they have a form, against eager dynajit."""
    contestants = named(["dynajit", "numpy", "libmvec"])
    expected = {each.name for each in contestants if case.why_not(each) is None}
    made = measuring.build(case, contestants)

    assert expected == made.runs.keys(), made.missing


@pytest.mark.parametrize("name", mapped.CASES)
def test_mapped_functions_give_what_programs_of_batches_give(name: str) -> None:
    assert mapped.agreed(name, **({"outputs": 5} if name == "Jacobian" else {"samples": 5}))


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_results_are_pytorchs(case: Case) -> None:
    """PyTorch eager, and with a fused optimiser, gives what dynajit gives."""
    pytest.importorskip("torch")
    made = measuring.build(case, named(["torch-eager", "torch-eager-fused"]))

    assert {"torch-eager", "torch-eager-fused"} == made.runs.keys(), made.missing


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_results_are_jaxs(case: Case) -> None:
    """JAX where it is installed."""
    pytest.importorskip("jax")
    made = measuring.build(case, named(["jax"]))

    assert {"jax"} == made.runs.keys(), made.missing


def test_every_case_has_the_sizes_of_the_table() -> None:
    """Names are made from the default sizes."""
    names = {case.name for case in measuring.all_cases()}

    assert len(names) == len(measuring.all_cases()) == len(SMALL)
    assert {
        "x + 1, 8 elements",
        "MLP inference, 100 Linear of 16",
        "12-op GELU-like chain, 1e7",
        "12 arithmetic ops, 1e7",
        "broadcast (3162,1)x(1,3162)",
        "softmax 4096x1024",
        "sum first 8192x4096",
        "MLP 64x784 training step, Adam",
        "MLP 1024^2 x 3, batch 256, training step",
        "transformer block d 256, heads 4, seq 128, batch 8",
        "convnet 16/32, 1x28x28, batch 32, training step",
        "Adam over 1e7 parameters",
    } <= names


def _case(results: dict[str, Any], **options: Any) -> Case:
    """A case whose libraries return `results`, by name."""
    return Case(
        "made", "test", lambda: (), {"torch": lambda library, _: lambda: results[library.name]},
        **options,
    )  # fmt: skip


def test_a_contestant_that_differs_is_not_timed() -> None:
    """It is named with the difference."""
    made = measuring.build(
        _case({"dynajit-eager": np.ones(3), "dynajit": np.array([1, 1, 1.1])}), named(["dynajit"])
    )

    assert {} == made.runs
    assert {"dynajit": "result 0 differs by 1.0e-01, allowed 1e-04"} == made.missing


def test_a_contestant_that_raises_is_named() -> None:
    """The table goes on without it."""

    def build(library: Any, _: Any) -> Any:
        if library.name == "dynajit":
            raise ValueError("no such thing")
        return lambda: np.ones(2)

    made = measuring.build(Case("made", "test", lambda: (), {"torch": build}), named(["dynajit"]))

    assert ["dynajit"] == list(made.missing)
    assert "ValueError" in made.missing["dynajit"]
    assert "no such thing" in made.missing["dynajit"]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (np.array([1.0, math.nan]), "result 0 differs by nan, allowed 1e-04"),
        (np.ones(3), "result 0 has shape (3,), expected (2,)"),
        (np.array([1.0, 2.00001]), None),
    ],
)
def test_differences_are_told(found: Any, reason: str | None) -> None:
    """NaN is a difference."""
    assert reason == measuring.why_not_equal([np.array([1.0, 2.0])], [found], 1e-4)


def test_integers_are_compared_exactly() -> None:
    """As argmax gives them."""
    one, other = np.array([1, 2, 3]), np.array([1, 2, 4])

    assert "1 of 3 integers of result 0 differ" == measuring.why_not_equal([one], [other], 1e9)


def test_a_library_that_is_not_installed_says_so() -> None:
    """As the table prints it."""
    assert "no numpy form of this case" == SMALL[2].why_not(LIBRARIES["numpy"])
    assert LIBRARIES["numpy"].why_not_available() is None
    with pytest.raises(SystemExit, match="unknown: tensorflow"):
        named(["tensorflow"])


def test_the_roofline_takes_the_slower_of_bytes_and_products() -> None:
    """And the rate of the memory that holds the data."""
    limits = machine.Limits(stream=(300.0, 200.0, 100.0), update=(600.0, 400.0, 200.0), flops=50.0)
    large = 1 << 40

    assert 2.0 == limits.seconds(Work(bytes=600))
    assert large / 100 == limits.seconds(Work(bytes=large))
    assert large / 200 == limits.seconds(Work(bytes=large, is_update=True))
    assert 4.0 == limits.seconds(Work(bytes=600, flops=200))


ROW = {
    "name": "softmax", "group": "reductions", "threads": 1, "missing": {"jax": "not installed"},
    "seconds": {"dynajit": 1e-3, "torch-compile": 4e-3, "numpy": 5e-4}, "least_s": 5e-4,
    "ratio": 1.5, "limit_s": 2e-3, "asked": "never behind eager",
}  # fmt: skip


def test_a_row_is_printed_with_ratios_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Times, how many times dynajit's they are, the roofline, and what was asked."""
    cpu.print_row(ROW)
    text = capsys.readouterr().out

    assert "torch-compile 4 ms (4.00x)" in text
    assert "roofline 50%" in text
    assert "asked <= 2 ms: yes; asked 1.5x: yes; never behind eager" in text
    assert "not available: jax: not installed" in text


def test_processor_time_is_shown_where_it_differs(capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios of the clock and of the processor within 10 % are one number."""
    cpu_s = {"dynajit": 1e-3, "torch-compile": 4.2e-3, "numpy": 1e-3}
    cpu.print_row(ROW | {"cpu_seconds": cpu_s})
    text = capsys.readouterr().out

    assert "torch-compile 4 ms (4.00x)" in text
    assert "numpy 500 us (0.50x, cpu 1.00x)" in text


def test_the_summary_names_rows_that_are_behind() -> None:
    """The geometric mean, and who is faster by more than 10 %."""
    other = ROW | {"name": "exp", "seconds": {"dynajit": 1e-3, "torch-compile": 1e-3}}
    other["cpu_seconds"] = {"dynajit": 1e-3, "torch-compile": 3e-3}

    assert [
        "geometric mean of torch-compile / dynajit: 2.00x (of processor time 3.00x)",
        "more than 10 % behind:",
        "  softmax: numpy is 2.00x faster",
    ] == cpu.summary([ROW, other], ["dynajit", "torch-compile"])


def test_settings_of_libraries_are_told() -> None:
    """A kernel chosen by the environment explains a row."""
    assert {"OPENBLAS_CORETYPE": "Haswell"} == cpu.settings(
        {"OPENBLAS_CORETYPE": "Haswell", "HOME": "/"}
    )


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    """Where matplotlib is installed."""
    pytest.importorskip("matplotlib")
    plotting.plot([ROW], tmp_path / "table.png")

    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_picture_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnsupportedError, match="pip install 'matplotlib'"):
        plotting.plot([ROW], tmp_path / "table.png")


def test_names_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list` measures nothing."""
    cpu.main(["--list", "--cases", "softmax|import"])

    assert [
        "reductions: softmax 4096x1024",
        "reductions: log-softmax + NLL 4096x1024",
        "fresh processes: import",
        "fresh processes: resident memory after import, MB",
    ] == capsys.readouterr().out.splitlines()


def test_a_fresh_process_reports_its_figures(kernel_folder: Path) -> None:
    """As JSON: import, memory, first call, graphs."""
    env = fresh_processes.environment(kernel_folder, dict(os.environ))
    found = fresh_processes.run_child("dynajit", "chain, batch 1 to 20", env)

    assert {
        "import_s", "resident_bytes", "build_s", "first_s", "second_s", "graphs", "peak_bytes",
    } == found.keys()  # fmt: skip
    assert 2 == found["graphs"]


def test_first_results_are_those_of_the_mode_that_compiles_in_the_background(monkeypatch) -> None:
    """The other libraries run as in the rows of compile times, and once for both."""
    seen = []

    def measured(library: str, program: str, env) -> fresh_processes.Found:
        seen.append((library, program))
        return fresh_processes.Found({"first_s": 2.0 + len(seen)}, {"first_s": 0.0})

    monkeypatch.setattr(fresh_processes, "measure_program", measured)
    monkeypatch.setattr(fresh_processes, "_cache_bytecode", lambda libraries, env: None)
    monkeypatch.setattr(libraries.Library, "why_not_available", lambda library: None)
    rows = [row for row in fresh_processes.chosen("chain$") if not row.warm]
    contestants = libraries.named(["dynajit", "jax"])

    compiled, first = fresh_processes.measure(rows, contestants, {})

    assert [name for name, _ in seen] == ["dynajit", "jax", "dynajit-async"]
    assert compiled["seconds"] == {"dynajit": 3.0, "jax": 4.0}
    assert first["seconds"] == {"dynajit": 5.0, "jax": 4.0}


def test_fresh_processes_that_take_short_are_measured_in_turns(monkeypatch) -> None:
    """The figure is the median, unless a process fails."""
    times = {
        "dynajit": iter([0.3, 0.1, 0.9, 0.2, 0.25]),
        "jax": iter([1.1, 1.2, 9.0]),
        "numba": iter([0.1]),
        "torch-compile": iter([8.0]),
    }
    seen = []

    def measured(library: str, program: str, env) -> fresh_processes.Found:
        seen.append(library)
        taken = next(times[library], None)
        if taken is None:
            raise RuntimeError("it fell over")
        return fresh_processes.Found({"first_s": taken, "graphs": None}, {"first_s": 0.0})

    monkeypatch.setattr(fresh_processes, "measure_program", measured)
    found = fresh_processes._measure_in_turns([(name, "chain") for name in times], {})

    assert seen[:6] == ["dynajit", "jax", "numba", "torch-compile", "dynajit", "jax"]
    assert found.pop(("numba", "chain")) == "it fell over"
    assert {name: run.cold for (name, _), run in found.items()} == {
        "dynajit": {"first_s": 0.25, "graphs": None},
        "jax": {"first_s": pytest.approx(1.15), "graphs": None},
        "torch-compile": {"first_s": 8.0, "graphs": None},
    }


def test_a_fresh_process_that_fails_says_why() -> None:
    """The last line of what it said."""
    with pytest.raises(RuntimeError, match="KeyError"):
        fresh_processes.run_child("dynajit", "nothing", dict(os.environ))


def test_every_program_of_fresh_processes_exists() -> None:
    """Each row names a program."""
    named_programs = {row.program for row in fresh_processes.ROWS} - {fresh_processes.IMPORT}

    assert named_programs == set(fresh_programs.PROGRAMS)


def test_jax_gets_the_numbers_of_the_others() -> None:
    """Parameters are filled in the order of `parameters()`, by one rule."""
    pytest.importorskip("jax")
    jax_models = pytest.importorskip("benchmarks.jax_models")
    dj = LIBRARIES["dynajit"].namespace
    model = programs.fill(dj, programs.mlp(dj, (4, 3, 2)))
    expected = [parameter.detach().numpy() for parameter in model.parameters()]
    found = jax_models.mlp_parameters((4, 3, 2))

    assert [e.tolist() for e in expected] == [f.tolist() for f in found]
