"""Sums of events and their table."""

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError
from dynajit.core.process.recording import Kind
from dynajit.profiler.events import BETWEEN, EventList, FunctionEvent, Interval


def events() -> EventList:
    """`outer` of 100 us with `inner` of 30 us in it, and 20 us of nothing."""
    outer = FunctionEvent(0, "outer", Kind.NAMED, 1, Interval(0.0, 100.0), 2048)
    inner = FunctionEvent(1, "inner", Kind.ROW, 1, Interval(10.0, 40.0), 1024, ((2, 3),))
    inner.cpu_parent = outer
    outer.cpu_children.append(inner)
    return EventList([outer, inner], between_us=20.0, has_memory=True)


def test_self_times_are_without_what_lies_within() -> None:
    """Memory as well."""
    outer, inner = events()

    assert (100.0, 70.0) == (outer.cpu_time_total, outer.self_cpu_time_total)
    assert (30.0, 30.0) == (inner.cpu_time_total, inner.self_cpu_time_total)
    assert (2048, 1024) == (outer.cpu_memory_usage, outer.self_cpu_memory_usage)


def test_averages_and_the_time_between_add_up() -> None:
    """To 120 us."""
    found = {row.key: row.self_cpu_time_total for row in events().key_averages()}

    assert {"outer": 70.0, "inner": 30.0, BETWEEN: 20.0} == found
    assert 120.0 == events().self_cpu_time_total == events().key_averages().self_cpu_time_total
    assert 100.0 == events().total_average().self_cpu_time_total


def test_a_table_sorts_and_ends() -> None:
    """By a column, at a limit, and says how many lines are left."""
    text = events().key_averages().table(sort_by="self_cpu_time_total", row_limit=2, header="mine")
    lines = text.splitlines()

    assert "mine" == lines[0]
    assert ["outer", "inner"] == [line.split()[0] for line in lines[4:6]]
    assert "58.33%" in lines[4] and "70.000us" in lines[4] and "2.00 KB" in lines[4]
    assert "... and 1 more" in text
    assert text.endswith("Self CPU time total: 120.000us")
    assert len({len(line) for line in lines[1:4]}) <= 2


def test_a_table_shows_the_top_level_alone_if_asked() -> None:
    """What lies in other events is left out."""
    assert "inner" not in events().table(top_level_events_only=True)


def test_a_column_that_does_not_exist_is_refused() -> None:
    """With those that do."""
    with pytest.raises(ArgumentError, match=r"sort_by='time'.*Expected one of cpu_time, "):
        events().table(sort_by="time")


def test_long_names_are_cut() -> None:
    """At the width that was asked for."""
    found = EventList([FunctionEvent(0, "n" * 90, Kind.ROW, 1, Interval(0, 1))])

    assert "n" * 17 + "..." in found.table(max_name_column_width=20)
    assert "n" * 18 not in found.table(max_name_column_width=20)


def test_lists_have_short_forms() -> None:
    """A notebook shows a line; `print` the table."""
    assert "<2 events, 120.000us; .table() shows them>" == repr(events())
    assert str(events()) == events().table()
    assert "<FunctionEvent outer: 100.000 us, self 70.000 us>" == repr(events()[0])


def test_pytorch_has_the_same_names() -> None:
    """Attributes that programs read of averages and events."""
    torch = pytest.importorskip("torch")
    with torch.profiler.profile() as theirs:
        torch.ones(3).exp()
    with dj.profiler.profile() as ours:
        dj.ones(3).exp()

    for name in (
        "key", "count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
        "self_cpu_memory_usage", "device_time", "device_time_total", "input_shapes", "stack",
        "is_user_annotation",
    ):  # fmt: skip
        for one in (theirs, ours):
            assert hasattr(one.key_averages()[0], name), name
            assert hasattr(one.events()[0], name) or name == "device_time", name
