"""A place in the user's source: what graph nodes, guards, breaks and errors point at.

Frozen data. Capture makes them from bytecode positions; everything else only prints them.
`is_of_library` tells files of this library from the user's, `is_helper` what both may call.
"""

import functools
import linecache
import os
import sys
from typing import Final

from dynajit.core.records import record

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__))
_ENGINES: Final = ("eager", "capture", "codegen")


def _library_folders() -> tuple[str, ...]:
    """Where this library's sources lie: in a source tree the engines are beside the package."""
    beside = [os.path.join(os.path.dirname(_PACKAGE), name) for name in _ENGINES]
    is_tree = not os.path.isdir(os.path.join(_PACKAGE, _ENGINES[0]))
    return tuple(folder + os.sep for folder in (_PACKAGE, *(beside if is_tree else ())))


LIBRARY_FOLDERS: Final = _library_folders()
"""Folders whose code is this library's, each with a separator at its end."""


@functools.cache
def is_of_library(file: str) -> bool:
    """Whether code of a file, as in `code.co_filename`, is this library's and not the program's."""
    return file.startswith(LIBRARY_FOLDERS)


#: What this library calls on its way, beside Python's own library.
_PACKAGES: Final = ("numpy", "scipy", "cupy")
_STANDARD: Final = os.path.dirname(os.__file__) + os.sep
_PACKAGES_WITHIN: Final = (_STANDARD + "site-packages", _STANDARD + "dist-packages")


@functools.cache
def is_helper(file: str) -> bool:
    """Whether code of a file is of Python's own library, or of a package that this library calls:
    where it was called from decides whose frame it is."""
    if file.startswith("<frozen "):
        return True
    for name in _PACKAGES:
        found = getattr(sys.modules.get(name), "__file__", None)
        if found and file.startswith(os.path.dirname(found) + os.sep):
            return True
    return file.startswith(_STANDARD) and not file.startswith(_PACKAGES_WITHIN)


@record
class Location:
    """`file:line` of user code, with the function's name and, where known, columns.

    Args:
        file: path as in `code.co_filename`.
        line: 1-based line number.
        function: qualified name of the function that holds the line.
        column: 0-based start column in bytes (as in `code.co_positions()`), or None.
        end_column: 0-based end column, or None.
    """

    file: str
    line: int
    function: str = ""
    column: int | None = None
    end_column: int | None = None

    @property
    def text(self) -> str:
        """The source line, stripped; empty when the file cannot be read."""
        return self._written().strip()

    def caret(self) -> str:
        """The source line with a second line of carets under the columns; empty if unknown."""
        source = self._written().rstrip("\n")
        if not source.strip():
            return ""
        indent = len(source) - len(source.lstrip())
        shown = "  " + source.strip()
        if self.column is None:
            return shown
        start = max(self.column - indent, 0)
        end = max((self.end_column or self.column + 1) - indent, start + 1)
        return f"{shown}\n  {' ' * start}{'^' * (min(end, len(source.strip())) - start or 1)}"

    def _written(self) -> str:
        try:
            return linecache.getline(self.file, self.line)
        except ValueError:  # no file can have such a name
            return ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
