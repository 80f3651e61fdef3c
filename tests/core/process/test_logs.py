"""What the compiler says: channels on stderr, and loggers."""

import logging

import pytest

import dynajit as dj
from dynajit.core.process import config, logs


def test_every_channel_is_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    """`dynajit.breaks` and others; a compiled function tells them what the channels tell."""
    caplog.set_level(logging.DEBUG, logger="dynajit")

    @dj.compile
    def f(x: dj.Tensor) -> dj.Tensor:
        y = x * 2
        dj.graph_break()
        return y + 1

    f(dj.ones(3))
    f(dj.ones(3, dtype=dj.float64))

    said = {record.name for record in caplog.records}
    assert {f"dynajit.{name}" for name in config.CHANNELS} == said
    levels = {record.name: record.levelno for record in caplog.records}
    assert logging.INFO == levels["dynajit.breaks"] and logging.DEBUG == levels["dynajit.kernels"]


def test_a_level_chooses_what_is_short(caplog: pytest.LogCaptureFixture) -> None:
    """INFO: no kernels, graphs and guards."""
    caplog.set_level(logging.INFO, logger="dynajit")
    dj.compile(lambda x: x + 1)(dj.ones(3))

    said = {record.name for record in caplog.records}
    assert "dynajit.perf" in said
    assert said.isdisjoint({"dynajit.guards", "dynajit.graph", "dynajit.kernels"})


def test_nothing_is_said_unless_somebody_listens(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by default, nor where only warnings are shown."""
    dj.compile(lambda x: x + 2)(dj.ones(3))

    assert ("", "") == capsys.readouterr()
    assert [] == [record for record in caplog.records if record.name.startswith("dynajit")]
    assert not any(map(logs.is_on, config.CHANNELS))


def test_channels_are_printed_once_whatever_loggers_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`DYNAJIT_LOG`, by its aliases as well; the text has its channel in front of each line."""
    with config.override(log=frozenset({"graph_breaks"})):
        assert logs.is_printed("breaks") and not logs.is_printed("guards")
        logs.write("breaks", "one\ntwo")
        logs.write("guards", "three")

    assert "dynajit breaks: one\ndynajit breaks: two\n" == capsys.readouterr().err


def test_text_is_no_format(caplog: pytest.LogCaptureFixture) -> None:
    """Percent signs of the program stay."""
    caplog.set_level(logging.INFO, logger="dynajit")
    logs.write("breaks", "100%s")

    assert ["100%s"] == [record.getMessage() for record in caplog.records]
