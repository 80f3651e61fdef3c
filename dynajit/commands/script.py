"""Runs a user's script as `python script.py ARGUMENTS` would, in this process.

Contract: `run(path, arguments)` gives the exit status that the script would have had; its
exceptions are printed with the script's own frames. `sys.argv`, `sys.path` and
`sys.modules["__main__"]` are the script's while it runs, and as before afterwards.
"""

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script, and what it is called with."""
    parser.add_argument(
        "script", type=_script, help="a Python file, or a folder with a __main__.py"
    )
    parser.add_argument(
        "arguments", nargs="*", help="the script's; those that begin with a dash follow `--`"
    )


def arguments_of(asked: argparse.Namespace) -> list[str]:
    """What the script is called with."""
    return [*asked.arguments, *asked.behind]


def run(path: str, arguments: Sequence[str]) -> int:
    """Run a script to its end.

    Args:
        path: of the file.
        arguments: its own.

    Returns:
        Its exit status: 1 after an exception.
    """
    with _as_script(path, arguments):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            return _status(end.code)
        except Exception as error:
            trace = _own_frames(error.__traceback__, path)
            traceback.print_exception(type(error), error, trace)
            return 1
    return 0


def _script(path: str) -> str:
    if not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"{path}: there is no such file")
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise argparse.ArgumentTypeError(f"{path}: a folder without a __main__.py")
    if not os.access(path, os.R_OK):
        raise argparse.ArgumentTypeError(f"{path}: it cannot be read")
    return path


@contextmanager
def _as_script(path: str, arguments: Sequence[str]) -> Iterator[None]:
    argv, places, module = sys.argv, sys.path, sys.modules["__main__"]
    sys.argv = [path, *arguments]
    sys.path = [str(Path(path).resolve().parent), *places]
    try:
        yield
    finally:
        sys.argv, sys.path, sys.modules["__main__"] = argv, places, module


def _status(code: Any) -> int:
    """Of `sys.exit(code)`: a text is printed, and means 1."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _own_frames(trace: TracebackType | None, path: str) -> TracebackType | None:
    """A traceback from the script's first frame on."""
    there = trace
    while there is not None and there.tb_frame.f_code.co_filename != path:
        there = there.tb_next
    return trace if there is None else there
