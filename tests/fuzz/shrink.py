"""Makes a program that shows a difference as small as it gets by dropping statements.

`shrink(own, seed, found, ...)` works on the part of a program behind its head. A statement is
dropped, or a compound one replaced by its body, as long as the same kind of difference stays.
Called by `run.py --shrink`.
"""

import ast
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.differential import compare_source
from tests.fuzz.preamble import HEADER

#: Seconds that one attempt may take: a loop may have lost what ends it.
LIMIT_S = 20


def kind(found: str) -> str:
    """What stays equal while a program gets smaller: the text without places and numbers."""
    if "Traceback" in found:
        return found.strip().split("\n")[-1].split(":")[0]
    return re.sub(r"\[.*?\]|[\d.]+", "", found)[:30]


def attempt(source: str, seed: int, backend: str, forced: bool) -> str | None:
    """The difference that a program shows, or None; errors of the compiler are differences."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        return compare_source(source, seed, backend, forced)
    except TimeoutError:
        return None
    except Exception as error:
        return f"Traceback\n{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements, outermost first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(node, name, None)
            if isinstance(held, list) and held:
                yield held


def replacements(block: list[Any], at: int) -> Iterator[list[Any]]:
    """Smaller forms of a block without, or with a smaller form of, one statement."""
    statement = block[at]
    yield block[:at] + block[at + 1 :]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list) and isinstance(statement, ast.stmt):
            yield block[:at] + inner + block[at + 1 :]


def text_of(tree: ast.Module) -> str | None:
    """The program's text, or None if it is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            return None
        if getattr(node, "body", None) == []:
            if isinstance(node, ast.Module):
                return None
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        compile(text, "<shrunk>", "exec")
    except (SyntaxError, ValueError):
        return None
    return text


def passes(own: str, shows: Callable[[str], bool]) -> str:
    """One round over all statements."""
    number = 0
    while True:
        tree = ast.parse(own)
        places = [(block, at) for block in blocks(tree) for at in range(len(block))]
        if number >= len(places):
            return own
        block, at = places[number]
        before = list(block)
        smaller = None
        for replaced in replacements(before, at):
            block[:] = replaced
            text = text_of(ast.parse(ast.unparse(tree)) if replaced else tree)
            if text is not None and len(text) < len(own) and shows(text):
                smaller = text
                break
            tree = ast.parse(own)
            block, at = [(b, i) for b in blocks(tree) for i in range(len(b))][number]
        if smaller is None:
            number += 1
        else:
            own = smaller


def shrink(own: str, seed: int, found: str, backend: str, forced: bool) -> str:
    """The smallest program that dropping statements leads to.

    Args:
        own: the part of the program that is its own.
        found: the difference that it shows.
    """
    wanted = kind(found)

    def shows(text: str) -> bool:
        seen = attempt(HEADER + "\n\n" + text, seed, backend, forced)
        return seen is not None and kind(seen) == wanted

    own = ast.unparse(ast.parse(own))
    while True:
        smaller = passes(own, shows)
        if smaller == own:
            return own
        own = smaller
