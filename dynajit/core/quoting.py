"""Names and paths of the program's own, for texts that something else reads.

A function may be called anything, and so may its file, its class and its attributes: a name with
`*/` would end a comment of C, and what follows would be compiled; one with a newline would be a
statement of Python; one with an escape sequence would command a terminal; one with `../` would lie
in another folder. Contract: each language has one function here, and a name reaches a text of that
language through it only. The text means the same whatever the name is, can be written as UTF-8, and
the name stays readable.
"""

import keyword
import re
import zlib
from collections.abc import Container
from typing import Final

LONGEST: Final = 200
"""Letters of a name in a comment: more is read by nobody."""
LONGEST_FILE: Final = 100
"""Bytes of a name of a file: most systems take 255, and something may be appended."""
LONGEST_HTML: Final = 20_000
"""Letters of a text in a notebook: more takes too long to show, and to read."""

_NOT_IN_C: Final = re.compile(r"[^A-Za-z0-9 _.,:;<>()\[\]{}+\-=@$!&|^~#%'\"]")
"""All but what means nothing within a comment: no star, slash, backslash, question mark
(trigraphs), control character or letter outside of ASCII."""
_NOT_IN_FILE: Final = re.compile(r"[^A-Za-z0-9_.]+")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
# `html.escape`, whose module takes as long to import as this one and all it needs.
_IN_HTML: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)


def in_c_comment(name: str) -> str:
    """For the inside of a comment of C or CUDA, of either kind."""
    return _NOT_IN_C.sub("_", _shortened(name))


def on_a_line(name: str) -> str:
    """For a comment of Python, and wherever a text is one line: what cannot be seen is escaped."""
    return name if name.isprintable() else "".join(map(_visible, name))


def on_a_terminal(text: str) -> str:
    """For people to read: as `on_a_line`, but lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _visible(c) for c in text)


def as_python_name(name: str, taken: Container[str] = ()) -> str:
    """An identifier of Python.

    Args:
        name: any text.
        taken: identifiers that mean something else; an underscore is appended to them.
    """
    plain = (name if name.isidentifier() else _NOT_IN_NAME.sub("_", name))[:LONGEST] or "_"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if keyword.iskeyword(plain) or plain in taken else plain


def as_file_name(name: str, default: str) -> str:
    """A part of a path below its folder, on every system; long ones end in a checksum.

    Args:
        name: any text.
        default: where nothing is left of it.
    """
    plain = _NOT_IN_FILE.sub("_", name).strip("._") or default
    if len(plain) <= LONGEST_FILE:
        return plain
    checksum = f"{zlib.crc32(as_bytes(name)):08x}"
    return f"{plain[: LONGEST_FILE - len(checksum) - 1]}_{checksum}"


def in_html(text: str) -> str:
    """For the text and the quoted attributes of a page."""
    return on_a_line(text).translate(_IN_HTML)


def folded_html(headline: str, text: str) -> str:
    """A line that unfolds into a text, for notebooks; a long text is cut."""
    shown = text if len(text) <= LONGEST_HTML else f"{text[:LONGEST_HTML]}\n..."
    lines = "\n".join(map(in_html, shown.split("\n")))
    return (
        f"<details><summary><code>{in_html(headline)}</code></summary>"
        f'<pre style="overflow-x:auto;line-height:1.35">{lines}</pre></details>'
    )


def as_bytes(name: str) -> bytes:
    """For checksums: different names have different bytes, also those that no encoding has."""
    return name.encode("utf-8", "surrogatepass")


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}..."


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
