"""The reference lists every public name: each once with its description, elsewhere as a link."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dynajit
from dynajit.compat.names import ELSEWHERE
from tests.support.public_modules import PUBLIC_MODULES

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The extension of the documentation, which needs no Sphinx to write its pages."""
    path = ROOT / "docs" / "extensions" / "reference.py"
    spec = importlib.util.spec_from_file_location("docs_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts(reference: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    (folder / "dynajit.gone.rst").write_text("a module that is no longer there")
    reference.write(folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


def public_paths() -> set[str]:
    """Every name of every public module, by the paths that programs use."""
    paths = {f"dynajit.{home}": f"dynajit.{path}" for path, home in ELSEWHERE.items()}
    return {
        f"{paths.get(module, module)}.{name}"
        for module in PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
    }


def described(texts: dict[str, str]) -> list[str]:
    """The paths behind directives that describe what stands there."""
    full = re.compile(r"^\.\. auto(?:class|function|exception):: (\S+)$", re.MULTILINE)
    short = re.compile(r"^\.\. py:data:: (\S+)$", re.MULTILINE)
    return [path for text in texts.values() for path in full.findall(text)] + [
        f"{file.removesuffix('.rst')}.{name}"
        for file, text in texts.items()
        for name in short.findall(text)
    ]


def listed(texts: dict[str, str]) -> set[str]:
    """The paths in lists: described elsewhere, or modules."""
    found = re.compile(r"^- (?:``|:doc:`)([\w.]+)`", re.MULTILINE)
    return {path for text in texts.values() for path in found.findall(text)}


def test_every_public_name_is_in_the_reference(texts: dict[str, str]) -> None:
    assert set() == public_paths() - set(described(texts)) - listed(texts)


def test_nothing_else_is_in_the_reference(texts: dict[str, str]) -> None:
    assert {"dynajit.Tensor"} == (set(described(texts)) - public_paths()) | {"dynajit.Tensor"}


def test_nothing_is_described_twice(texts: dict[str, str]) -> None:
    found = described(texts)

    assert sorted(set(found)) == sorted(found)


def test_a_link_leads_to_a_description(texts: dict[str, str]) -> None:
    targets = {
        target for text in texts.values() for target in re.findall(r":py:obj:`([\w.]+)`", text)
    }

    assert set() == targets - set(described(texts))


def test_every_public_name_of_a_tensor_is_on_its_page(texts: dict[str, str]) -> None:
    found = re.findall(
        r"^\.\. auto(?:method|attribute):: dynajit\.Tensor\.(\w+)$",
        texts["dynajit.Tensor.rst"],
        re.MULTILINE,
    )

    assert sorted(name for name in dir(dynajit.Tensor) if name[0] != "_") == found


def test_pages_of_modules_that_are_gone_go(texts: dict[str, str]) -> None:
    assert "dynajit.gone.rst" not in texts


def test_docstrings_show_what_they_say(reference: ModuleType) -> None:
    """Sphinx would read stars, bars and underscores as markup, and single backticks as a role."""
    lines = ["a * b, *args of `x | y`; see `f_`, and g_"]
    reference.quote_docstring(None, "function", "f", None, None, lines)

    assert [r"a \* b, \*args of \ ``x | y``\ ; see \ ``f_``\ , and g\_"] == lines
