"""The table as a picture: how many times faster than each contestant dynajit is, row by row."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import MEASURED
from dynajit.core.process import optional

_ROW_INCHES: Final = 0.3


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG: one bar per row and contestant, on a logarithmic axis; right of 1 is faster.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    matplotlib = optional.load("matplotlib", needed_for="--plot", install="matplotlib")
    matplotlib.use("Agg")
    pyplot = optional.load("matplotlib.pyplot", needed_for="--plot", install="matplotlib")
    shown = [row for row in rows if row["seconds"].get(MEASURED)]
    names = sorted({name for row in shown for name in row["seconds"]} - {MEASURED})
    if not shown or not names:
        raise SystemExit("--plot: there is nothing to compare dynajit with")
    figure, axes = pyplot.subplots(figsize=(10, 2 + _ROW_INCHES * len(shown)), dpi=120)
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        places = [(y, row) for y, row in enumerate(shown) if name in row["seconds"]]
        axes.barh(
            [y + (number - (len(names) - 1) / 2) * height for y, _ in places],
            [row["seconds"][name] / row["seconds"][MEASURED] - 1 for _, row in places],
            height=height, left=1, label=name,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("time of the other / time of dynajit (right of 1: dynajit is faster)")
    axes.legend(fontsize=8)
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)


def _label(row: Mapping[str, Any]) -> str:
    threads = row.get("threads")
    return f"{row['name']} ({threads} thr.)" if threads else str(row["name"])
