"""Modules that captured code is the first to import."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.entry import cache
from dynajit.core.errors import GraphBreakError

factor = 1


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes the source of a module `fresh_module`, which nobody has imported."""

    def write(text: str) -> None:
        (tmp_path / "fresh_module.py").write_text(textwrap.dedent(text))

    monkeypatch.syspath_prepend(str(tmp_path))
    write("count = 3\nprint('imported')\n")
    yield write
    sys.modules.pop("fresh_module", None)
    sys.modules.pop("fresh_package", None)
    sys.modules.pop("fresh_package.part", None)


def multiplied(x: Any) -> Any:
    y = x + 1
    import fresh_module

    return y * fresh_module.count


def test_the_first_import_breaks_no_graph(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = dj.compile(multiplied, fullgraph=True)
    assert [6.0, 6.0] == compiled(dj.ones(2)).tolist()
    assert [6.0, 6.0] == compiled(dj.ones(2)).tolist()
    assert "imported\n" == capsys.readouterr().out
    assert 1 == cache.cache_of(compiled).compile_count


def test_a_part_of_a_package_is_imported(module: Any, tmp_path: Path) -> None:
    package = tmp_path / "fresh_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("count = 5\n")

    def f(x: Any) -> Any:
        from fresh_package import part

        return x * part.count

    assert [5.0, 5.0] == dj.compile(f, fullgraph=True)(dj.ones(2)).tolist()


def test_what_the_module_changes_is_seen(module: Any) -> None:
    """Of what was read before the import, too: plain Python's first result is 14."""
    module("import __main__\n__main__.fresh_table['factor'] = 7\n")
    table = {"factor": 2}
    sys.modules["__main__"].fresh_table = table  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        y = x * table["factor"]
        import fresh_module  # noqa: F401

        return y * table["factor"]

    try:
        compiled = dj.compile(f)
        first, second = compiled(dj.ones(1)).tolist(), compiled(dj.ones(1)).tolist()
    finally:
        del sys.modules["__main__"].fresh_table  # type: ignore[attr-defined]
    assert 7 == table["factor"]
    assert [49.0] == first == second


def test_what_is_written_before_stays_before(
    module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def f(x: Any) -> Any:
        print("before")
        import fresh_module

        return x * fresh_module.count

    assert [3.0] == dj.compile(f)(dj.ones(1)).tolist()
    assert "before\nimported\n" == capsys.readouterr().out


def test_variables_that_were_set_before_are_seen(module: Any) -> None:
    module(f"import sys\nfound = sys.modules[{__name__!r}].factor\n")

    def f(x: Any) -> Any:
        global factor
        factor = 4
        import fresh_module

        return x * fresh_module.found

    assert [4.0] == dj.compile(f)(dj.ones(1)).tolist()


def test_a_module_that_is_missing_is_an_error_of_the_program(module: Any) -> None:
    def f(x: Any) -> Any:
        try:
            import fresh_module_that_is_missing as found
        except ImportError:
            found = None
        return x + (0 if found is None else 1)

    def whole(x: Any) -> Any:
        import fresh_module_that_is_missing

        return x + fresh_module_that_is_missing.count

    assert [1.0] == dj.compile(f)(dj.ones(1)).tolist()
    with pytest.raises(ModuleNotFoundError, match="fresh_module_that_is_missing"):
        dj.compile(whole)(dj.ones(1))
    with pytest.raises(GraphBreakError, match="imported for the first time"):
        dj.compile(whole, fullgraph=True)(dj.ones(1))
