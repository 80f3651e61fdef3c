"""An explanation in a terminal: a screen for a large model, everything for a small one."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.report import screen
from dynajit.report.screen import MOST_LINES
from tests.support import transformer


@pytest.fixture(scope="module")
def explained(kernel_folder: Path) -> Any:
    """Six layers, forward."""
    model, tokens = transformer.example()
    with dj.config.override(cache_dir=kernel_folder, strict=True), dj.no_grad():
        return dj.explain(transformer.training_loss)(model, tokens)


def test_six_layers_fit_a_screen(explained: Any) -> None:
    text = str(explained)
    lines = text.splitlines()

    assert 60 == MOST_LINES >= len(lines)
    assert all(len(line) <= 170 for line in lines)
    for part in (
        "graphs:", "6 equal layers of", "25 linear",
        "breaks:", "if loss.item() > 100", "Hint:",
        "guards:", "guards of 6 equal layers", "model.layers[0..5]", "what the library itself",
        "kernels:", "matmul", "compile stages:", ".full()",
    ):  # fmt: skip
        assert part in text


def test_full_has_everything(explained: Any) -> None:
    text = explained.full()

    for guard in explained.guards:
        assert guard in text
    for kernel in explained.kernels:
        assert kernel.name in text
    for graph in explained.graphs:
        assert str(graph).splitlines()[-1] in text


def test_what_fits_is_printed_whole() -> None:
    found = dj.explain(lambda x: x + 1, backend="numpy")(dj.ones(2))

    assert found.full() == str(found)


def test_a_thousand_entries_fit_a_screen_too(explained: Any) -> None:
    """Of every section, and letters that command a terminal are written out."""
    many = tuple(f"helper{n}: \x1b[2J it {'runs ' * 99}" for n in range(1000))
    (found,) = explained.breaks
    long = type(explained)(
        "name\x1b[2J", explained.graphs * 50, (found,) * 1000, many, explained.kernels,
        dict.fromkeys(map(str, range(12)), 1.0), explained.records * 50, many, (found,) * 10,
        explained.versions,
    )  # fmt: skip

    assert len(str(long).splitlines()) <= MOST_LINES
    assert "\x1b" not in str(long) + repr(long) + long._repr_html_()


def test_short_forms_are_short(explained: Any) -> None:
    """What a notebook, and lists of these things, show; markup in names is text."""
    assert 100 > len(repr(explained))
    assert 20_000 > len(explained._repr_html_())
    assert explained._repr_html_().startswith("<details>")
    graph, kernel = explained.graphs[0], explained.kernels[0]
    assert "<Graph training_loss: 78 inputs, 212 operations, 1 outputs>" == repr(graph)
    assert 21_000 > len(graph._repr_html_())
    assert f"<Kernel {kernel.name}: {kernel.source.count(chr(10))} lines>" == repr(kernel)


def test_kernels_have_the_time_that_they_took_in_the_call() -> None:
    """Each in the full text; by kind in the short one, the longest first."""

    def three(x: Any) -> Any:
        return (x @ x).exp().sum(), x.cumsum(0)

    found = dj.explain(three)(dj.ones(200, 200))
    (record,) = found.records
    ((_, program),) = record.programs
    names = [f"{program.name}/{kernel.name}" for kernel in program.kernels]

    assert set(names) == set(found.kernel_us) and min(found.kernel_us.values()) > 0
    for name, kernel in zip(names, program.kernels, strict=True):
        assert f" lines) {found.kernel_us[name]:.1f} us" in found.full()
        assert kernel.name in found.full()

    told = dataclasses.replace(found, kernel_us=dict(zip(names, (3.25, 40.5, 1200.0), strict=True)))
    (line,) = screen._kernels(told)
    assert line.endswith(": 1 scan 1200.0 us, 1 row 40.5 us, 1 matmul 3.2 us")
