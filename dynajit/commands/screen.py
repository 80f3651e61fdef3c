"""Text for people: lines that fit their terminal, and whatever encoding it has.

Contract: on a terminal nothing is wider than it; elsewhere (a file, a pipe) lines are as long as
they are. Characters that the stream cannot write are replaced.
"""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

NARROWEST: Final = 20
"""Columns: a terminal that says it has fewer is taken for one of so many."""


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal behind a stream, stdout by default; None where there is none."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text; on a terminal, lines that are too long are wrapped, below their indentation."""
    stream = sys.stdout if stream is None else stream
    columns = width(stream)
    lines = text.split("\n") if columns is None else _wrapped(text, columns)
    encoding = stream.encoding or "utf-8"
    for line in lines:
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _wrapped(text: str, columns: int) -> list[str]:
    lines = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()) + 2, columns // 2)
        lines += textwrap.wrap(line, columns, subsequent_indent=indent) or [""]
    return lines


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns, two blanks between; the last column is left as long as it is."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join(
            [*(cell.ljust(size) for cell, size in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    )


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """`1 graph`, `2 graphs`."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def size(size_bytes: int) -> str:
    """Bytes in a unit that fits: `1.4 MB`."""
    value = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def seconds(value_s: float) -> str:
    """A time in a unit that fits: `12.3 us`."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value_s >= factor:
            return f"{value_s / factor:.3g} {unit}"
    return f"{value_s / 1e-9:.3g} ns"
