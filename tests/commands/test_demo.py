"""`demo`: a screen, whatever is missing; its figures; what it says where compiled is slower."""

import sys
from argparse import Namespace
from dataclasses import replace

import pytest

from dynajit.commands import command_line, demo
from dynajit.core.process import config


def times(eager, compiled, threads=2):
    return demo.StepTimes((eager,) * demo.RUNS, (compiled,) * demo.RUNS, threads)


def test_without_its_data_it_is_a_sentence(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)

    assert 1 == command_line.main(["demo"])
    assert "pip install 'dynajit[demo]'" in capsys.readouterr().err


def test_the_ratio_is_the_median_of_the_runs() -> None:
    measured = demo.StepTimes((1.0, 2.0, 9.0, 2.0, 2.0), (1.0, 1.0, 1.0, 1.0, 4.0), 2)
    assert 2.0 == measured.ratio


@pytest.mark.parametrize(
    ("load", "said"), [(0.5, "set DYNAJIT_NUM_THREADS=1"), (1e6, "other programs use the cores")]
)
def test_where_a_team_is_slower_than_one_thread_it_says_why(load, said, monkeypatch) -> None:
    monkeypatch.setattr(demo, "_load", lambda: load)
    found = demo.why_slower(times(1.0, 2.0), times(1.0, 0.5, threads=1))

    assert "A team of 2 threads costs such short kernels more" in found and said in found
    assert "larger layers" in demo.why_slower(times(1.0, 2.0), times(1.0, 3.0, threads=1))


def test_the_bar_of_progress_fits_a_narrow_terminal(monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "width", lambda: 30)
    report = demo._line("compiled")
    for epoch in (1, 2):
        report(epoch, 2, 0.5)

    lines = capsys.readouterr().out.strip("\n").split("\r")
    assert 3 == len(lines) and max(map(len, lines)) < 30


def test_steps_in_one_thread_leave_the_number_as_it_was(monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(demo, "step_times", lambda *_: seen.append(config.current().num_threads))
    before = config.default().num_threads
    config.configure(num_threads=3)
    try:
        demo.step_times_alone(demo.TASKS[0], None)
        assert ([1], 3) == (seen, config.default().num_threads)
    finally:
        config.configure(num_threads=before)


@pytest.fixture
def short(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(demo, "TASKS", (replace(demo.TASKS[0], epochs=1, accuracy=0.5),))
    monkeypatch.setattr(demo, "RUN_S", 0.005)


def test_it_ends_with_a_screen_and_reports_on_request(short, capsys, tmp_path) -> None:
    assert 0 == command_line.main(["demo", str(tmp_path / "losses.png")])
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 24
    assert "step           eager" in out and "1 graph, 0 breaks" in out

    command_line.main(["demo", str(tmp_path / "losses.png"), "--full"])
    assert "=== explain: MLP ===" in capsys.readouterr().out


def test_a_plot_that_cannot_be_written_is_said(short, capsys, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    assert 0 == demo.run(Namespace(png=tmp_path / "no_folder" / "x.png", full=False))
    assert "no loss curves: " in capsys.readouterr().out


def test_without_a_plotting_library_the_demo_goes_on(short, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert 0 == demo.run(Namespace(png=tmp_path / "x.png", full=False))
    assert "no loss curves: the plot needs" in capsys.readouterr().out
    assert not (tmp_path / "x.png").exists()
