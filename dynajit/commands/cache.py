"""`python -m dynajit cache list|clear|size`: what is kept on disk of what was compiled.

Contract: only `clear` changes anything, and removes only what the library wrote. The folder is that
of the configuration (`Config.cache_dir`, `DYNAJIT_CACHE_DIR`).
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dynajit.codegen.compilers.cache_contents import FOLDERS, Entry, clear, entries
from dynajit.commands.screen import counted, say, size, table
from dynajit.core.process import config

ABOUT: Final = "list, measure or clear what is kept on disk of compiled functions"

LISTED: Final = 20
"""Files that `list` shows unless all are asked for: a screen."""
_TO_DO: Final = {
    "list": "the newest files",
    "size": "how much there is of what",
    "clear": "remove everything",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, about in _TO_DO.items():
        made = actions.add_parser(action, help=about, description=f"{about}.")
        if action == "list":
            made.add_argument("--all", action="store_true", help="every file")


def run(asked: argparse.Namespace) -> int:
    """Do it; 1 where something could not be removed."""
    folder = config.current().cache_dir
    if asked.action == "clear":
        return _clear(folder)
    found = entries(folder)
    if asked.action == "list":
        _list(found if asked.all else found[:LISTED])
    left = 0 if asked.action == "size" or asked.all else len(found) - LISTED
    if left > 0:
        say(f"... and {counted(left, 'older file')} (--all shows them)")
    _sizes(folder, found, is_short=asked.action == "list")
    return 0


def _clear(folder: Path) -> int:
    cleared = clear(folder)
    say(f"{folder}: {counted(cleared.count, 'file')} removed, {size(cleared.size_bytes)}")
    for text in cleared.refused[:LISTED]:
        say(f"not removed: {text}", sys.stderr)
    if len(cleared.refused) > LISTED:
        say(f"not removed: {len(cleared.refused) - LISTED} more", sys.stderr)
    return 1 if cleared.refused else 0


def _list(found: Sequence[Entry]) -> None:
    rows = [(_age(entry.modified_s), size(entry.size_bytes), entry.folder, entry.path.name)
            for entry in found]  # fmt: skip
    if rows:
        say(table([("last used", "size", "kind", "file"), *rows]))


def _age(modified_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(modified_s))


def _sizes(folder: Path, found: Sequence[Entry], is_short: bool) -> None:
    total = sum(entry.size_bytes for entry in found)
    if not is_short:
        rows = []
        for kind, about in FOLDERS.items():
            own = [entry.size_bytes for entry in found if entry.folder == kind]
            rows.append((kind, counted(len(own), "file"), size(sum(own)), about))
        say(table(rows))
    limit = size(config.current().cache_size_bytes)
    held = f"{counted(len(found), 'file')}, {size(total)}"
    say(f"{folder}: {held}; kernels are trimmed above {limit}")
