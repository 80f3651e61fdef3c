"""`python -m dynajit explain SCRIPT`: run a script, and explain every function it compiled.

Contract: the script prints what it prints; the explanations follow on stdout, or are written as
pages. The exit status is the script's.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dynajit.commands import script
from dynajit.commands.screen import counted, say
from dynajit.core.errors import InvalidValueError
from dynajit.core.quoting import as_file_name, on_a_line
from dynajit.driver.watching import Watched, watching
from dynajit.report.explanation import Explanation, explanation_of

ABOUT: Final = "run a script, and explain every function that it compiled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script, and where a page goes."""
    script.add_arguments(parser)
    parser.add_argument(
        "--html", metavar="FILE", type=_page, help="write a page for people to click through"
    )


def _page(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path}: expected a file in a folder that exists")
    return path


def run(asked: argparse.Namespace) -> int:
    """Run the script, print what was compiled."""
    with watching() as found:
        status = script.run(asked.script, script.arguments_of(asked))
    explained = [(watched, explanation_of(watched.name, watched.compilations))
                 for watched in found if watched.compilations]  # fmt: skip
    if not explained:
        say(_nothing(found), sys.stderr)
    elif asked.html is not None:
        _write_pages([explanation for _, explanation in explained], asked.html)
    else:
        for watched, explanation in explained:
            _print(watched, explanation)
    idle = [watched for watched in found if not watched.compilations]
    if explained and idle:
        say(f"\nnever called: {_names(idle)}")
    return status


def _names(found: Sequence[Watched]) -> str:
    return ", ".join(sorted({on_a_line(watched.name) or "a decorator" for watched in found}))


def _nothing(found: Sequence[Watched]) -> str:
    if not found:
        return "dynajit explain: the script compiled nothing.  Decorate a function: @dj.compile."
    return f"dynajit explain: what the script compiles was never called: {_names(found)}."


def _print(watched: Watched, explanation: Explanation) -> None:
    say(f"\n=== {on_a_line(explanation.name)} ===")
    say(str(explanation))
    if watched.left_out:
        say(f"... and {counted(watched.left_out, 'more compilation')} of this function.")


def _write_pages(explanations: Sequence[Explanation], path: Path) -> None:
    """One page: at `path`; several: beside it, each with its function's name."""
    for number, explanation in enumerate(explanations):
        page = path if len(explanations) == 1 else _numbered(path, number, explanation.name)
        write_page(explanation, page)
        say(f"{on_a_line(explanation.name)}: {page}")


def _numbered(path: Path, number: int, name: str) -> Path:
    plain = as_file_name(name, "function")
    return path.with_name(f"{path.stem}_{number + 1}_{plain}{path.suffix or '.html'}")


def write_page(explanation: Explanation, path: Path) -> None:
    """Write an explanation as a page.

    Raises:
        InvalidValueError: the file cannot be written.
    """
    try:
        explanation.to_html(path)
    except OSError as error:
        raise InvalidValueError(f"--html {path}: {error.strerror or error}.") from None
