"""What the importable CuPy offers by the names given on standard input, as JSON: run by
`test_stand_in.py` once with the stand-in on the path and once with an installed CuPy.

A name is described by its parameters (name and default, where Python or the first line of the
docstring tells them), a ufunc by its types. Without names it lists its own, public ones.
"""

import importlib
import inspect
import json
import re
import sys
from typing import Any

MODULES = (
    "cupy", "cupy.linalg", "cupy.fft", "cupy.lib.stride_tricks", "cupy.cuda", "cupy.cuda.runtime",
    "cupy.cuda.memory", "cupy.cuda.nvtx", "cupy._core._routines_linalg",
    "cupyx", "cupyx.scipy.special",
)  # fmt: skip
CLASSES = (
    "cupy.ndarray", "cupy.cuda.Device", "cupy.cuda.Stream", "cupy.cuda.Event",
    "cupy.cuda.MemoryPool", "cupy.cuda.MemoryPointer", "cupy.cuda.PinnedMemoryPool",
    "cupy.cuda.memory.OutOfMemoryError",
)  # fmt: skip


def public_names() -> list[str]:
    """Every public name of the modules and classes above that is theirs."""
    found = []
    for owner in (*MODULES, *CLASSES):
        value = resolved(owner)
        for name in getattr(value, "__all__", dir(value)):
            if not name.startswith("_") and not inspect.ismodule(getattr(value, name)):
                found.append(f"{owner}.{name}")
    return found


def resolved(path: str) -> Any:
    """The object of a dotted name.

    Raises:
        AttributeError, ImportError: there is none.
    """
    try:
        return importlib.import_module(path)
    except ImportError:
        owner, _, name = path.rpartition(".")
        if not owner:
            raise
        return getattr(resolved(owner), name)


def description(path: str) -> Any:
    """See the module; None where there is nothing of that name, "unknown" where nothing is told."""
    try:
        value = resolved(path)
    except (AttributeError, ImportError):
        return None
    if isinstance(getattr(value, "types", None), list):
        return {"types": list(value.types), "at": value._scatter_op}
    if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return "unknown"
    if inspect.isclass(value):
        value = value.__init__
    is_method = path.rpartition(".")[0] in CLASSES and not inspect.ismethod(value)
    try:
        parameters = [*inspect.signature(value).parameters.values()][is_method:]
    except (TypeError, ValueError):
        return from_docstring(value)
    if [p.name for p in parameters[-2:]] == ["args", "kwargs"]:
        return "unknown"  # made by C
    return [
        [p.name, None if p.default is p.empty else repr(p.default)]
        for p in parameters
        if p.name != "self"
    ]


def from_docstring(value: Any) -> Any:
    """The parameters that the first line of a C function's docstring shows."""
    first = (value.__doc__ or "").partition("\n")[0]
    shown = re.search(r"\((.*)\)", first)
    if shown is None or "*" in shown[1]:
        return "unknown"
    parts = [part.strip() for part in shown[1].split(",") if part.strip() not in ("", "self", "/")]
    parameters = [part.partition("=") for part in parts]
    return [[name.split()[-1], default or None] for name, _, default in parameters]


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    json.dump({path: description(path) for path in wanted or public_names()}, sys.stdout)
