"""Bars as files."""

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dynajit.measuring import drawing


def test_svg_is_well_formed_whatever_the_names_are() -> None:
    """Longest bar first in width; hostile labels are text."""
    text = drawing.svg({"</text><script>": 2.0, "b": 1.0, "none": 0.0}, title="<t>", unit="us")
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"

    assert "</text><script>" in [node.text for node in root.iter(f"{space}text")]
    assert [] == list(root.iter(f"{space}script"))
    widths = [float(node.get("width", "0")) for node in root.iter(f"{space}rect")][1:]
    assert widths[0] == 2 * widths[1] and 1.0 == widths[2]


def test_without_matplotlib_it_is_svg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the name that was asked for, and said so."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    made = drawing.bars(tmp_path / "a.png", {"x": 1.0}, title="t", unit="u")

    assert tmp_path / "a.svg" == made
    assert made.read_text().startswith("<svg ")


def test_with_matplotlib_it_is_png(tmp_path: Path) -> None:
    """A real one."""
    pytest.importorskip("matplotlib")
    made = drawing.bars(tmp_path / "a.png", {"x": 1.0, "y": 2.0}, title="t", unit="u")

    assert b"\x89PNG" == made.read_bytes()[:4]
