"""The GPU table's programs build, agree and are timed at small sizes, whatever the times are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_cases
from benchmarks.gpu_cases import SMALL, Case, Sizes
from dynajit.codegen.device import tuning as device_tuning
from dynajit.core.process import config

pytestmark = [pytest.mark.one_python, pytest.mark.usefixtures("driver", "strict_programs")]
CASES = gpu_cases.cases(SMALL)
OURS = ("dynajit", "dynajit-graphs", "dynajit-tuned")


@pytest.fixture(autouse=True)
def tf32_as_before() -> Iterator[None]:
    """The table allows TF32 to all contestants; other tests do not."""
    before = config.default().allow_tf32
    yield
    config.configure(allow_tf32=before)


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch, is_stand_in: bool) -> None:
    """The emulator is slow, and what it measures means nothing."""
    if is_stand_in:
        monkeypatch.setattr(device_tuning, "REPEATS", 1)
        monkeypatch.setattr(device_tuning, "MOST_VARIANTS", 2)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_contestants_agree(case: Case) -> None:
    found = gpu.contest(case, OURS, until=float("inf"))

    assert set(OURS) == found.runs.keys(), found.missing


def test_every_row_has_a_name_of_its_own() -> None:
    names = [case.name for case in gpu_cases.cases(Sizes())]

    assert len(set(names)) == len(names) == len(CASES)


def test_the_table_is_printed_and_written(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "gpu.json"
    gpu.main(["--small", "--cases", "sum|one kernel", "--compare", "dynajit", "--json", str(file)])
    table = json.loads(file.read_text())
    text = capsys.readouterr().out

    assert 2 == len(table["rows"])
    assert all(row["ms"]["dynajit"] > 0 for row in table["rows"])
    assert "of a copy" in text
    assert "first call" in text


def test_cases_are_left_out_when_the_time_is_over(capsys: Any) -> None:
    gpu.main(["--small", "--cases", "sum", "--compare", "dynajit", "--budget", "-1"])

    assert "the time for all cases is over" in capsys.readouterr().out
