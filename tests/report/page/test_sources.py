"""The source on a page: whole functions, and a word where it is missing or another one."""

import ast
import linecache
from pathlib import Path
from typing import Any

import pytest

from dynajit.report.page.sources import MSG_ABSENT, MSG_CHANGED, source_of

TEXT = """\
import math

LIMIT = 3

class Model:
    @staticmethod
    def outer(x):
        def inner(y):
            return y + 1

        return inner(x)

    async def other(self):
        return 2

print(LIMIT)
"""


def written(folder: Path, text: str = TEXT) -> str:
    """A file with a text."""
    file = folder / "model.py"
    file.write_text(text)
    return str(file)


def code_of(file: str, name: str, text: str = TEXT) -> Any:
    """The code of a function as importing the file gives it."""
    scope: dict[str, Any] = {"print": lambda *args: None}
    exec(compile(text, file, "exec"), scope)
    return scope["Model"].__dict__[name].__func__.__code__


def test_a_line_brings_its_function_with_decorators(tmp_path: Path) -> None:
    (block,) = source_of(written(tmp_path), [11]).blocks

    assert ("Model.outer", 6) == (block.name, block.first)
    assert tuple(TEXT.splitlines()[5:11]) == block.lines


def test_a_function_within_is_shown_with_the_one_around_it_where_both_are_met(
    tmp_path: Path,
) -> None:
    (inner,) = source_of(written(tmp_path), [9]).blocks
    (outer,) = source_of(written(tmp_path), [9, 11]).blocks

    assert ("Model.outer.inner", 8) == (inner.name, inner.first)
    assert ("Model.outer", 6) == (outer.name, outer.first)


def test_lines_outside_of_functions_have_their_neighbours(tmp_path: Path) -> None:
    (block,) = source_of(written(tmp_path), [3]).blocks

    assert ("", 1, tuple(TEXT.splitlines()[:5])) == (block.name, block.first, block.lines)


def test_what_was_compiled_is_recognised(tmp_path: Path) -> None:
    file = written(tmp_path)

    assert "" == source_of(file, [11], [code_of(file, "outer")]).note


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("inner(x)", "other(x)"),
        TEXT.replace("LIMIT = 3", "LIMIT = 3\n"),
        TEXT.replace("y + 1", "y +"),
        TEXT.replace("def outer", "def outside"),
    ],
)
def test_a_file_that_was_edited_since_is_told(tmp_path: Path, changed: str) -> None:
    """Another name, a line more, a mistake in the middle of work, no such function any more."""
    file = written(tmp_path)
    code = code_of(file, "outer")
    written(tmp_path, changed)
    linecache.checkcache(file)

    assert MSG_CHANGED == source_of(file, [11], [code]).note


@pytest.mark.parametrize("name", ["<string>", "/nowhere/model.py", "\0", "\ud800.py", ""])
def test_a_source_that_is_not_there_leaves_the_numbers(name: str) -> None:
    found = source_of(name, [9, 4])

    assert MSG_ABSENT == found.note
    assert [4, 9] == [block.first for block in found.blocks]
    assert {("",)} == {block.lines for block in found.blocks}


def test_a_cell_of_a_notebook_is_read_where_it_is_kept() -> None:
    """In `linecache`, under a name that no file has; the text may be what only IPython knows."""
    name = "<ipython-input-7>"
    lines = ["%timeit 3\n", "def f(x):\n", "    return x\n"]
    linecache.cache[name] = (30, None, lines, name)
    try:
        found = source_of(name, [3], [test_a_cell_of_a_notebook_is_read_where_it_is_kept.__code__])
    finally:
        del linecache.cache[name]

    assert "" == found.note
    assert ("%timeit 3", "def f(x):", "    return x") == found.blocks[0].lines


def test_lines_that_the_file_does_not_have_are_left_out(tmp_path: Path) -> None:
    assert () == source_of(written(tmp_path), [4000, 0]).blocks


def test_a_text_is_parsed_again_where_python_lost_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython counts trees of all threads in one place: another one's may come in between."""
    parse, failures = (
        ast.parse,
        iter([SystemError("depth mismatch"), SystemError("depth mismatch")]),
    )

    def interrupted(text: str) -> ast.Module:
        for failure in failures:
            raise failure
        return parse(text)

    path = tmp_path / "model.py"
    path.write_text(TEXT)
    expected = source_of(str(path), {9}, [])
    monkeypatch.setattr(ast, "parse", interrupted)

    assert expected == source_of(str(path), {9}, [])
    assert next(failures, None) is None
