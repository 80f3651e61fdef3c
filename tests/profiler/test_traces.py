"""Chrome's traces, stacks, and where they are written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError
from dynajit.profiler import profile, record_function, schedule, tensorboard_trace_handler


def recorded(**options: Any) -> profile:
    """A profile of two rows in a block with a name that JSON has to escape."""
    x = dj.ones(3)
    with profile(record_shapes=True, **options) as prof, record_function('"quoted"\n<b>'):
        x.exp().sum()
    return prof


def test_a_chrome_trace_has_complete_events_that_nest(tmp_path: Path) -> None:
    """Times in microseconds; every event within that of its parent; threads have names."""
    path = tmp_path / "trace.json"
    recorded().export_chrome_trace(path)
    trace = json.loads(path.read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    block, exp, total = events

    assert ['"quoted"\n<b>', "exp", "sum"] == [event["name"] for event in events]
    assert ["user_annotation", "cpu_op", "cpu_op"] == [event["cat"] for event in events]
    assert block["ts"] <= exp["ts"] <= exp["ts"] + exp["dur"] <= total["ts"]
    assert total["ts"] + total["dur"] <= block["ts"] + block["dur"]
    assert [[3]] == exp["args"]["Input Dims"]
    assert {"process_name", "thread_name"} == {
        event["name"] for event in trace["traceEvents"] if event["ph"] == "M"
    }


def test_a_trace_is_compressed_by_its_name(tmp_path: Path) -> None:
    """`.gz`; metadata is kept."""
    prof = recorded()
    prof.add_metadata("run", "seven")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    trace = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))

    assert "seven" == trace["run"]
    assert ["trace.json.gz"] == [path.name for path in tmp_path.iterdir()]


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Neither a part nor another error."""
    with pytest.raises(OSError, match="absent"):
        recorded().export_chrome_trace(tmp_path / "absent" / "trace.json")

    assert [] == list(tmp_path.iterdir())


def test_stacks_are_lines_with_microseconds(tmp_path: Path) -> None:
    """Outermost frame first, then the event."""
    path = tmp_path / "stacks.txt"
    x = dj.ones(300, 300)
    with profile(with_stack=True) as prof:
        x @ x
    prof.export_stacks(path)
    (line,) = (line for line in path.read_text().splitlines() if ";matmul " in line)

    stack, microseconds = line.rsplit(" ", 1)
    assert int(microseconds) > 0
    assert stack.split(";")[-2].endswith(": test_stacks_are_lines_with_microseconds")


def test_stacks_that_were_not_recorded_are_missed(tmp_path: Path) -> None:
    """The error says how to record them; other metrics are refused."""
    with pytest.raises(ArgumentError, match="with_stack=True"):
        recorded().export_stacks(tmp_path / "stacks.txt")
    with pytest.raises(ArgumentError, match="metric='time'"):
        recorded().export_stacks(tmp_path / "stacks.txt", "time")


def test_the_handler_writes_a_file_per_round(tmp_path: Path) -> None:
    """Into a folder that it makes."""
    folder = tmp_path / "log"
    x = dj.ones(3)
    with profile(
        schedule=schedule(wait=0, warmup=0, active=1),
        on_trace_ready=tensorboard_trace_handler(str(folder), worker_name="me"),
    ) as prof:
        for _ in range(2):
            x.exp()
            prof.step()

    files = sorted(folder.iterdir())
    assert all(path.name.startswith("me.") and path.suffix == ".json" for path in files)
    assert 2 <= len(files)
    assert any("exp" == e["name"] for e in json.loads(files[0].read_text())["traceEvents"])
