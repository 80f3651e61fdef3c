"""Sphinx configuration: Markdown pages, and a reference from the docstrings."""

from pathlib import Path

from dynajit.report.breaks_page import breaks_page

Path(__file__).with_name("graph_breaks.md").write_text(breaks_page(), encoding="utf-8")

project = "dynajit"
author = "The dynajit developers"
copyright = "2026, the dynajit developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "eager tensors and a compiler for ordinary Python"}
myst_heading_anchors = 2
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]
