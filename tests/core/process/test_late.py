"""Modules that stand in for others until they are used."""

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from dynajit.core.process import late
from dynajit.core.process.late import Late, load


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
    stand_in = Late(counted)
    assert (0, f"Late({counted!r})") == (sys.late_runs, repr(stand_in))

    assert [3] == stand_in.value
    assert stand_in.value is load(stand_in).value
    assert 1 == sys.late_runs


def test_a_missing_name_is_an_attribute_error(counted: str) -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = Late(counted).nothing


def test_a_missing_module_is_an_import_error() -> None:
    """When it is used, and again when it is used again."""
    missing = Late("dynajit.no_such_module")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            load(missing)


def test_threads_get_one_module(counted: str) -> None:
    """Whoever comes first runs it, the others wait."""
    stand_in = Late(counted)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(stand_in.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 8 == len(found)
    assert all(value is found[0] for value in found)
    assert 1 == sys.late_runs


@pytest.fixture
def package(counted: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that publishes `counted` as a module, its `value`, and a family of names."""
    made = ModuleType("dynajit_late_package")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.delitem(late._published, made.__name__, raising=False)
    made.__getattr__ = late.publish(  # type: ignore[method-assign]
        made.__name__, (), {"value": counted, "absent": counted}, {"_many_": counted}
    )
    return made


def test_a_name_published_late_is_brought_once(package: ModuleType, counted: str) -> None:
    """Then it is the package's own."""
    assert (0, False) == (sys.late_runs, "value" in vars(package))

    assert [3] == package.value
    assert vars(package)["value"] is sys.modules[counted].value
    assert "absent" in late.names_of(package.__name__)


@pytest.mark.parametrize("name", ["unknown", "absent", "_many_names"])
def test_what_is_not_published_is_an_attribute_error(package: ModuleType, name: str) -> None:
    """Also a name of a family, or of a module, that the module lacks."""
    with pytest.raises(AttributeError, match=name):
        getattr(package, name)


def test_every_name_that_dynajit_publishes_late_is_there() -> None:
    """In each package that does."""
    packages = [name for name in late._published if name.split(".")[0] == "dynajit"]
    assert {"dynajit", "dynajit.utils", "dynajit.autograd"} <= set(packages)

    for package in packages:
        for name in late._published[package].names:
            assert late.brought(package, name) is getattr(sys.modules[package], name)
