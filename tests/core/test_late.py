"""Modules that stand in for others until they are used."""

import sys
import threading
from pathlib import Path

import pytest

from dynajit.core.late import Late, load


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module on the path that notes in `sys` how often it ran."""
    name = "dynajit_late_example"
    (tmp_path / f"{name}.py").write_text(
        "import sys, time\nsys.late_runs += 1\ntime.sleep(0.05)\nvalue = [3]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "late_runs", 0, raising=False)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_nothing_is_loaded_before_a_name_is_asked_for(counted: str) -> None:
    """Then once; names are the module's own objects."""
    late = Late(counted)
    assert (0, f"Late({counted!r})") == (sys.late_runs, repr(late))

    assert [3] == late.value
    assert late.value is load(late).value
    assert 1 == sys.late_runs


def test_a_missing_name_is_an_attribute_error(counted: str) -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = Late(counted).nothing


def test_a_missing_module_is_an_import_error() -> None:
    """When it is used, and again when it is used again."""
    late = Late("dynajit.no_such_module")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            load(late)


def test_threads_get_one_module(counted: str) -> None:
    """Whoever comes first runs it, the others wait."""
    late = Late(counted)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(late.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 8 == len(found)
    assert all(value is found[0] for value in found)
    assert 1 == sys.late_runs
