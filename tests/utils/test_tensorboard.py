"""SummaryWriter writes what TensorBoard reads, or says what it needs."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils._device import _device_constructors
from dynajit.utils.tensorboard import SummaryWriter


def events_of(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    return accumulator.EventAccumulator(str(folder)).Reload()


def test_without_the_package_a_writer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how to install it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(NotImplementedError, match="pip install 'tensorboard'"):
        SummaryWriter(tmp_path)


def test_events_can_be_read(tmp_path: Path) -> None:
    """Curves, several curves, spreads, texts and pictures."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    values = dj.linspace(-2, 2, 100)
    with SummaryWriter(tmp_path) as writer:
        assert str(tmp_path) == writer.get_logdir()
        for step in range(3):
            writer.add_scalar("loss", dj.tensor(1.0 / (step + 1)), step)
        writer.add_scalars("both", {"a": 1, "b": np.float64(2.5)}, 4)
        writer.add_histogram("spread", values.bfloat16(), 1)
        writer.add_histogram("edges", values, 1, bins=10, max_bins=5)
        writer.add_text("note", "hello", 0)
        writer.flush()
        with pytest.raises(RuntimeError, match="0D"):
            writer.add_scalar("loss", dj.ones(2))
        with pytest.raises(RuntimeError, match="no element"):
            writer.add_histogram("spread", dj.ones(0))
    events = events_of(tmp_path)
    expected = [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3))]
    assert expected == [(event.step, event.value) for event in events.Scalars("loss")]
    for name in ("spread", "edges"):
        spread = events.Histograms(name)[0].histogram_value
        assert (100, 100) == (spread.num, sum(spread.bucket))
        assert len(spread.bucket) == len(spread.bucket_limit)
    assert b"hello" == events.Tensors("note/text_summary")[0].tensor_proto.string_val[0]
    assert [2.5] == [event.value for event in events_of(tmp_path / "both_b").Scalars("both")]


def test_pictures_can_be_read(tmp_path: Path) -> None:
    """In each order of dims."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    pytest.importorskip("PIL", reason="Pillow is not installed")
    picture = dj.rand(3, 4, 5)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("a", picture)
        writer.add_image("b", (picture * 255).byte().permute(1, 2, 0), dataformats="HWC")
        writer.add_image("c", picture[0], dataformats="HW")
        with pytest.raises(RuntimeError, match="dataformats"):
            writer.add_image("d", picture[0])
    for name in "abc":
        (image,) = events_of(tmp_path).Images(name)
        assert (5, 4) == (image.width, image.height)


def test_constructors_take_a_device() -> None:
    """Each of the listed functions."""
    names = {function.__name__ for function in _device_constructors()}
    assert {"tensor", "zeros", "arange", "randn", "hann_window"} <= names
    for function in _device_constructors():
        assert callable(function)
