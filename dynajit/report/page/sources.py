"""The user's source for a page: the functions in which lines were met, as far as they can be read.

Contract: nothing here raises, whatever a file is called and holds, and nothing is run. A text is
taken for what was compiled unless it cannot be: `Source.note` says so then. Lines are those of
`linecache`, which knows notebooks' cells and files within archives.
"""

import ast
import linecache
import threading
import warnings
from collections.abc import Collection, Iterable, Iterator
from types import CodeType
from typing import Final

from dynajit.core.records import record

AROUND: Final = 2
"""Lines shown before and behind one that belongs to no function."""

MSG_ABSENT: Final = (
    "The text of this file is not available (it was made by exec, frozen, or removed): only line "
    "numbers are known."
)
MSG_CHANGED: Final = (
    "This file is not what was imported: it has been edited since, so the text beside the numbers "
    "may be another one. Import it again and compile anew."
)


@record
class Block:
    """Lines that belong together.

    Args:
        name: of the function; empty for other lines.
        first: number of the first line.
        lines: texts, without line ends.
    """

    name: str
    first: int
    lines: tuple[str, ...]


@record
class Source:
    """What is shown of a file.

    Args:
        file: its name, as in code objects.
        blocks: in the order of their lines.
        note: why the text may be missing or wrong; empty if it is right.
    """

    file: str
    blocks: tuple[Block, ...]
    note: str = ""


def source_of(file: str, lines: Collection[int], codes: Iterable[CodeType] = ()) -> Source:
    """The blocks of a file that hold these lines.

    Args:
        codes: functions of the file that were compiled: the text is compared with them.
    """
    text = _read(file)
    if not text:
        numbers = sorted(lines)
        blocks = tuple(Block("", first, ("",) * (last - first + 1))
                       for first, last in _ranges((n, n) for n in numbers))  # fmt: skip
        return Source(file, blocks, MSG_ABSENT)
    joined = "".join(text)
    tree = _parsed(joined)
    note = ""
    if not file.startswith("<") and not all(_may_be_of(code, joined, file) for code in codes):
        note = MSG_CHANGED
    spans = dict(_spans(tree, lines, len(text)))
    kept = [span for span in spans if not any(_holds(other, span) for other in spans)]
    blocks = tuple(
        Block(
            spans.get((first, last), ""),
            first,
            tuple(line.rstrip("\r\n") for line in text[first - 1 : last]),
        )
        for first, last in _ranges(kept)
    )
    return Source(file, blocks, note)


def _read(file: str) -> list[str]:
    try:
        return linecache.getlines(file)
    except Exception:  # a name that no file can have, or a loader of the program's that fails
        return []


_PARSING: Final = threading.Lock()
"""CPython counts the depth of all trees that are being made in one place: where threads take turns
meanwhile (finalizers may run), `ast.parse` raises a SystemError."""
_ATTEMPTS: Final = 3
"""How often a text is parsed: the program's own threads may parse, too."""


def _parsed(text: str) -> ast.Module | None:
    for _ in range(_ATTEMPTS):
        try:
            with _PARSING, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(text)
        except SystemError:
            continue
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return None


def _spans(
    tree: ast.Module | None, lines: Iterable[int], size: int
) -> Iterator[tuple[tuple[int, int], str]]:
    """((first line, last line), name) of the function around each line, or of a few lines."""
    functions = [] if tree is None else list(_functions(tree, ""))
    for line in lines:
        around = [found for found in functions if found[0] <= line <= found[1]]
        if around:
            first, last, name = max(around, key=lambda found: found[0])
            yield (first, last), name
        elif 1 <= line <= size:
            yield (max(line - AROUND, 1), min(line + AROUND, size)), ""


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, qualified name) of every function below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
            yield first, child.end_lineno or child.lineno, prefix + child.name
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]


def _ranges(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in order, those that overlap joined."""
    open_: tuple[int, int] | None = None
    for first, last in sorted(spans):
        if open_ is not None and first <= open_[1]:
            open_ = open_[0], max(last, open_[1])
            continue
        if open_ is not None:
            yield open_
        open_ = first, last
    if open_ is not None:
        yield open_


# -- edited since it was imported ----------------------------------------------------------------


def _may_be_of(code: CodeType, text: str, file: str) -> bool:
    """False if code is not what a text compiles to.

    What rewrites sources while they are imported, as test runners do, adds to a function: lines,
    names and constants of the text must be there, not the other way round.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    place = code.co_qualname, code.co_firstlineno
    return any(
        _lines(found) <= _lines(code)
        and set(found.co_names) <= set(code.co_names)
        and _constants(found) <= _constants(code)
        for found in _codes(whole)
        if (found.co_qualname, found.co_firstlineno) == place
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _lines(code: CodeType) -> set[int | None]:
    return {line for _, _, line in code.co_lines()}


def _constants(code: CodeType) -> set[str]:
    return {repr(value) for value in code.co_consts if type(value) in (int, float, str, bytes)}
