"""The page of an explanation or of a report: one file that needs nothing else.

Contract: whatever is in names, sources and kernels is data, never markup or script: it stands in
JSON in which no character ends the element, and the script makes text of it. The browser is told to
load nothing and to run no other script than the page's (a content security policy).

What the data means is said in `data.py`.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.errors import ArgumentRuntimeError
from dynajit.core.quoting import in_html
from dynajit.report.page import data

if TYPE_CHECKING:
    from dynajit.report.explanation import Explanation
    from dynajit.report.history import Report

#: In JSON, characters that mean something to HTML, or end a line of JavaScript.
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'\u2028\u2029"}


def of_explanation(found: "Explanation") -> str:
    """The page of an explanation."""
    return _page(data.of_explanation(found))


def of_report(found: "Report") -> str:
    """The page of a report."""
    return _page(data.of_report(found))


def write(path: str | os.PathLike[str], page: str) -> None:
    """Write a page.

    Raises:
        ArgumentRuntimeError: the file cannot be written.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise ArgumentRuntimeError(
            f"to_html({os.fspath(path)!r}): the file cannot be written "
            f"({error.strerror or error}).  Name a file in a folder that exists and that you may "
            "write to."
        ) from error


def _page(content: Mapping[str, Any]) -> str:
    style, script = _text("page.css"), _text("page.js")
    parts = {
        "title": in_html(f"{content['title']} - dynajit"),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_hash(script)}'",
        "style": style,
        "data": json.dumps(content, separators=(",", ":")).translate(_ESCAPES),
        "script": script,
    }
    pieces = _text("page.html").split("@@")  # every other one is a name
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
