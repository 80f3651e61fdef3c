"""A headless browser that opens pages of reports.

`python -m tests.support.pages FOLDER` writes the pictures of the documentation: the page of a
training step of `tests.support.transformer`, light and dark. Needs `make browser`.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from tests.support.transformer import example, training_loss

#: Names of Chromium; `.ci/browser` has the same.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
COLOURS = 200
"""Of a picture in the documentation: enough for a page, and a third of the bytes."""


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright.

    Raises:
        pytest.skip.Exception: one of them is not installed.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs `make browser`")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is found: needs `make browser`")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if is_root else []
        )
        try:
            yield made
        finally:
            made.close()


def main(folder: Path) -> None:
    """Write `explanation_light.png` and `explanation_dark.png`."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, browser() as chromium:
        with dj.config.override(cache_dir=Path(place)):
            found = dj.explain(training_loss)(*example())
        page = Path(place) / "page.html"
        found.to_html(page)
        for scheme in ("light", "dark"):
            view = chromium.new_page(viewport={"width": 1380, "height": 900}, color_scheme=scheme)
            view.goto(page.as_uri())
            view.locator(".src", has_text="mixed = F.scaled_dot").click()
            view.click("#tab-graph")
            picture = Image.open(io.BytesIO(view.screenshot()))
            target = folder / f"explanation_{scheme}.png"
            picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
