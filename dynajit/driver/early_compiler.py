"""The C compiler for functions that are new on this machine, started before they are captured.

A compiler takes some 10 ms before it reads a text, and capture, passes and code generation can
take place in them. For functions whose artefacts lie on disk it is not needed. Only a finished
capture says which those are, so a note on disk names the functions that went through `compile`.

Contract: within `expecting(code)` a compiler waits where the function has no note, and the note is
written; `note()` writes it sooner, while the compiler works; `is_new()` says that there is none.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Final

from dynajit.codegen.compilers import store
from dynajit.codegen.pipeline import compiler_ahead
from dynajit.core.quoting import as_bytes

FOLDER: Final = "functions"
"""Of the notes, in the cache."""

_new: Final[ContextVar[list[str]]] = ContextVar("dynajit_new_functions")
"""Keys of functions that are being compiled and have no note yet."""


@contextmanager
def expecting(function: CodeType) -> Iterator[None]:
    """A compiler for the first unit of the block, if the function has no note."""
    key = _key(function)
    if store.has(key, FOLDER):
        yield
        return
    token = _new.set([key])
    try:
        with compiler_ahead():
            yield
        note()
    finally:
        _new.reset(token)


def is_new() -> bool:
    """Whether the function of this block has no note yet."""
    return bool(_new.get([]))


def note() -> None:
    """Write that the function of this block was compiled here."""
    keys = _new.get([])
    while keys:
        store.write(keys.pop(), None, FOLDER)


def _key(function: CodeType) -> str:
    """The name of a function's note: its own name and its instructions, wherever it stands.

    A wrong guess costs time only: a note for another function starts the compiler later.
    """
    return hashlib.sha256(as_bytes(function.co_qualname) + function.co_code).hexdigest()[:40]
