"""A place in the user's source: what graph nodes, guards, breaks and errors point at.

Frozen data. Capture makes them from bytecode positions; everything else only prints them.
"""

import linecache

from dynajit.core.records import record


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
