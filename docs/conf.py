"""Sphinx configuration: Markdown pages, and a reference from the docstrings."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

from dynajit.compat import version as versions  # noqa: E402
from dynajit.report.breaks_page import breaks_page  # noqa: E402

(HERE / "graph_breaks.md").write_text(breaks_page(), encoding="utf-8")

project = "dynajit"
author = "The dynajit developers"
copyright = "2026, the dynajit developers"
release = versions.dynajit
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "reference",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "extensions"]
html_theme = "furo"
html_title = f"dynajit {release}"
myst_heading_anchors = 3
toc_object_entries = False
# Attributes that a docstring lists may be properties with docstrings of their own, too.
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
suppress_warnings = ["ref.python"]
