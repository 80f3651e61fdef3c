"""Bars as a picture: PNG by matplotlib where it is installed, else SVG, which needs nothing.

Contract: what is written is a complete file. Names reach the SVG through `core/quoting.py`.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dynajit.core.process import optional
from dynajit.core.quoting import in_html

_ROW: Final = 30
_LABELS: Final = 90
_WIDTH: Final = 560


def bars(path: Path, values: Mapping[str, float], *, title: str, unit: str) -> Path:
    """Draw a bar per value.

    Args:
        path: of the file; `.svg` asks for SVG.
        values: by label, from 0.
        title, unit: in words.

    Returns:
        The file: `path`, or where matplotlib is missing the same with the suffix `.svg`.

    Raises:
        OSError: it cannot be written.
    """
    if path.suffix != ".svg" and importlib.util.find_spec("matplotlib") is not None:
        _draw(path, values, title, unit)
        return path
    made = path.with_suffix(".svg")
    made.write_text(svg(values, title=title, unit=unit), encoding="utf-8")
    return made


def svg(values: Mapping[str, float], *, title: str, unit: str) -> str:
    """The picture as text."""
    height = _ROW * (len(values) + 2)
    longest = max(values.values(), default=0.0) or 1.0
    room = _WIDTH - _LABELS - 90
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-weight="bold">{in_html(title)}</text>',
    ]
    for number, (label, value) in enumerate(values.items(), 1):
        y, width = _ROW * number + 4, max(room * value / longest, 1.0)
        lines += [
            f'<text x="{_LABELS - 8}" y="{y + 15}" text-anchor="end">{in_html(label)}</text>',
            f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="20" fill="#4472c4"/>',
            f'<text x="{_LABELS + width + 6:.1f}" y="{y + 15}">{value:.3g}</text>',
        ]
    lines.append(f'<text x="{_LABELS}" y="{height - 10}" fill="#555">{in_html(unit)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _draw(path: Path, values: Mapping[str, float], title: str, unit: str) -> None:
    figures = optional.load("matplotlib.figure", needed_for="the picture", install="matplotlib")
    figure = figures.Figure(figsize=(6, 1 + 0.4 * len(values)), dpi=120)
    axes = figure.subplots()
    drawn = axes.barh(list(values), list(values.values()))
    axes.bar_label(drawn, fmt="%.3g", padding=3)
    axes.invert_yaxis()
    axes.set_title(title)
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    figure.savefig(path, bbox_inches="tight")
