"""Which modules of dynajit programs import: those outside the rooms of its insides that say by
`__all__` what is public. Read from the files, so that a new module is among them by itself."""

import re
from pathlib import Path
from typing import Final

import dynajit

#: Folders and modules that programs have no business in, though some list names for each other.
INSIDES: Final = frozenset(("core", "ir", "ops", "report"))

#: The same, for modules of public packages: what they define is published by the package.
WITHIN: Final = frozenset((
    "distributions.covariances", "distributions.halves", "distributions.odds",
    "distributions.relaxed", "library.definitions", "fx.code", "nn.attention.projections",
    "cuda.streams",
))  # fmt: skip


def _names() -> list[str]:
    root = Path(dynajit.__file__).parent
    found = ["dynajit"]
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(parts)
        hidden = not parts or any(p.startswith("_") for p in parts) or parts[0] in INSIDES
        if not hidden and name not in WITHIN and re.search("^__all__", path.read_text(), re.M):
            found.append(f"dynajit.{name}")
    return sorted(found)


PUBLIC_MODULES: Final = tuple(_names())
