"""The reference: a page per public module, written when the documentation is built.

Contract: `pages()` lists every name of every module of `tests/support/public_modules.py`, by
`__all__`. A function or class that several modules publish is described once, by the shortest path,
and linked to from the others. `write` puts the pages into `docs/reference`, which git ignores;
autodoc reads signatures and docstrings when Sphinx reads the pages. Docstrings are plain text with
code in single backticks, not reStructuredText: `_as_text` quotes what Sphinx would take for markup.
`tests/test_docs_reference.py` compares the pages with the package.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dynajit.compat.names import ELSEWHERE
from dynajit.distributions.utils import lazy_property
from tests.support.public_modules import PUBLIC_MODULES

#: Where a module lies -> the path by which programs import it.
_PATHS = {f"dynajit.{home}": f"dynajit.{path}" for path, home in ELSEWHERE.items()}

#: Heading -> rooms whose functions stand below it, on pages of many functions.
_FAMILIES = {
    "The compiler": ("dynajit.driver", "dynajit.capture", "dynajit.report"),
    "Creating tensors": ("dynajit.ops.functions.creation", "dynajit.eager.tensor.creation"),
    "Elements": ("dynajit.ops.functions.elements",),
    "Reductions": ("dynajit.ops.functions.reductions",),
    "Shapes": ("dynajit.ops.functions.shapes",),
    "Arrangement": ("dynajit.ops.functions.arrangement",),
    "Matrices": ("dynajit.ops.functions.matrices",),
    "Networks": ("dynajit.ops.functions.networks",),
    "Signals": ("dynajit.ops.functions.signals",),
    "In place": ("dynajit.namespaces.inplace",),
}
_MANY = 200

#: Modules below the package whose names the package publishes as its own.
_OF_THE_PACKAGE = ("dynajit.driver.", "dynajit.namespaces.", "dynajit.compat.")


@dataclass(frozen=True, slots=True)
class Entry:
    """A public name.

    Args:
        path: dotted, by which programs reach it.
        directive: of autodoc, or "module", or "value" for what has no docstring of its own.
        described_at: the path at which the same object is described; `path` itself mostly.
    """

    path: str
    directive: str
    described_at: str

    @property
    def is_own(self) -> bool:
        """The description stands here."""
        return self.path == self.described_at


@dataclass(frozen=True, slots=True)
class Page:
    """A public module.

    Args:
        module: the path by which programs import it.
        about: its docstring.
        entries: its names, sorted.
    """

    module: str
    about: str
    entries: tuple[Entry, ...]


def pages() -> tuple[Page, ...]:
    """Every public module, the package first, then by depth and name."""
    described: dict[int, str] = {}
    found = []
    for path, home in sorted(_by_path().items(), key=lambda item: _order(*item)):
        module = importlib.import_module(home)
        names = sorted(set(module.__all__))
        entries = tuple(_entry(module, path, name, described) for name in names)
        found.append(Page(path, inspect.getdoc(module) or "", entries))
    return tuple(found)


def _by_path() -> dict[str, str]:
    return {_PATHS.get(home, home): home for home in PUBLIC_MODULES}


def _order(path: str, home: str) -> tuple[bool, int, str]:
    return home.startswith(_OF_THE_PACKAGE) and path == home, path.count("."), path


def _entry(module: ModuleType, path: str, name: str, described: dict[int, str]) -> Entry:
    thing = getattr(module, name)
    full = f"{path}.{name}"
    directive = _directive(thing)
    if directive in ("module", "value"):
        return Entry(full, directive, full)
    return Entry(full, directive, described.setdefault(id(thing), full))


def _directive(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return "module"
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    if inspect.isroutine(thing) or type(thing).__name__ == "LibraryFunction":
        return "autofunction"
    return "value"


def write(folder: Path) -> None:
    """One `.rst` file per module, one for `Tensor`; files whose text is the same stay untouched."""
    folder.mkdir(exist_ok=True)
    listed = pages()
    paths = {e.path for page in listed for e in page.entries if e.directive != "module"}
    with_own = [page for page in listed if any(entry.is_own for entry in page.entries)]
    known = {page.module for page in with_own}
    texts = {f"{page.module}.rst": "".join(_page(page, known, paths)) for page in with_own}
    texts["dynajit.Tensor.rst"] = "".join(_tensor())
    texts["further_paths.rst"] = "".join(_further(set(listed) - set(with_own)))
    for path in folder.glob("*.rst"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(page: Page, known: set[str], paths: set[str]) -> Iterator[str]:
    yield _title(page.module)
    # A function may have the name of the module in which it is.
    yield f".. py:module:: {page.module}\n{'   :no-index:' * (page.module in paths)}\n\n"
    yield "\n".join(_as_text(page.about.partition("\n\n")[0].splitlines())) + "\n\n"
    own = [entry for entry in page.entries if entry.is_own]
    functions = [entry for entry in own if entry.directive == "autofunction"]
    for heading, chosen in _families(functions).items():
        yield _title(heading, "-")
        yield from map(_description, chosen)
    for directive, heading in (("autoclass", "Classes"), ("autoexception", "Exceptions")):
        if chosen := [entry for entry in own if entry.directive == directive]:
            yield _title(heading, "-")
            yield from map(_description, chosen)
    if values := [entry for entry in own if entry.directive == "value"]:
        yield _title("Values", "-")
        yield from map(_value, values)
    if modules := [entry for entry in own if entry.directive == "module"]:
        yield _title("Modules", "-")
        yield from (_module(entry, known) for entry in modules)
        yield "\n"
    if others := [entry for entry in page.entries if not entry.is_own]:
        yield _title("Described elsewhere", "-")
        yield from map(_elsewhere, others)


def _families(functions: list[Entry]) -> dict[str, list[Entry]]:
    """The functions under headings: by the room that defines them, where there are many."""
    found: dict[str, list[Entry]] = {heading: [] for heading in (*_FAMILIES, "Functions")}
    for entry in functions:
        home = inspect.unwrap(_thing(entry)).__module__ or ""
        families = [heading for heading, rooms in _FAMILIES.items() if home.startswith(rooms)]
        found[families[0] if families and len(functions) > _MANY else "Functions"].append(entry)
    return {heading: chosen for heading, chosen in found.items() if chosen}


def _further(without_own: set[Page]) -> Iterator[str]:
    yield _title("Further paths")
    yield "Modules that hold nothing but what is described on other pages.\n\n"
    for page in sorted(without_own, key=lambda page: page.module):
        yield _title(page.module, "-")
        yield from map(_elsewhere, page.entries)
        yield "\n"


def _elsewhere(entry: Entry) -> str:
    if entry.directive in ("module", "value"):
        return f"- ``{entry.path}``\n"
    return f"- ``{entry.path}``: :py:obj:`{entry.described_at}`\n"


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _description(entry: Entry) -> str:
    if entry.path == "dynajit.Tensor":
        return ":py:obj:`dynajit.Tensor` has :doc:`a page of its own <dynajit.Tensor>`.\n\n"
    lines = [f".. {entry.directive}:: {entry.path}"]
    if entry.directive == "autoclass":
        lines.append("   :members:")
    return "\n".join([*lines, "", ""])


def _thing(entry: Entry) -> Any:
    module, _, name = entry.path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _value(entry: Entry) -> str:
    name = entry.path.rpartition(".")[2]
    value = repr(_thing(entry))
    text = value if len(value) < 80 and " at 0x" not in value and "/" not in value else ""
    shown = f"   :value: {text}\n" if text else ""
    return f".. py:data:: {name}\n{shown}\n"  # of the page's module


def _module(entry: Entry, known: set[str]) -> str:
    if entry.path in known:
        return f"- :doc:`{entry.path}`\n"
    about = inspect.getdoc(_thing(entry)) or ""
    return f"- ``{entry.path}``: {' '.join(_as_text([about.partition(chr(10))[0]]))}\n"


def _tensor() -> Iterator[str]:
    """Methods come from several bases in C and Python, and in-place forms from their functions."""
    tensor = importlib.import_module("dynajit").Tensor
    yield _title("dynajit.Tensor")
    yield ".. py:currentmodule:: dynajit\n\n.. autoclass:: dynajit.Tensor\n   :no-members:\n\n"
    for name in sorted(name for name in dir(tensor) if not name.startswith("_")):
        kind = "automethod" if callable(getattr(tensor, name)) else "autoattribute"
        yield f".. {kind}:: dynajit.Tensor.{name}\n\n"


# ---- docstrings --------------------------------------------------------------------------------

_CODE = re.compile(r"`+([^`]+)`+")


def _as_text(lines: list[str]) -> list[str]:
    """Lines in which nothing but code in backticks is markup."""
    return _as_paragraphs("\n".join(lines)).splitlines()


def _as_paragraphs(text: str) -> str:
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_quoted(text[end : code.start()]), _literal(code.group(1))]
        end = code.end()
    return "".join([*parts, _quoted(text[end:])])


def _quoted(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _literal(code: str) -> str:
    return f"\\ ``{' '.join(code.split())}``\\ "


def quote_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """A handler of `autodoc-process-docstring`, in front of napoleon's."""
    lines[:] = _as_text(lines)


def skip_unread(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """A handler of `autodoc-skip-member`: values that are computed when an instance is asked."""
    return True if isinstance(obj, lazy_property) else None


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    write(Path(app.srcdir) / "reference")
    app.connect("autodoc-process-docstring", quote_docstring, priority=100)
    app.connect("autodoc-skip-member", skip_unread)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
