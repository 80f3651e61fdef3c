"""Modules of the standard library as they are without their C accelerator.

Several modules hold a Python version of everything, which a C version replaces at import. `load`
runs the module's own source with the C version hidden; nothing but the returned module sees it.
"""

import builtins
import importlib.util
from types import ModuleType
from typing import Any


def load(name: str, *hidden: str) -> ModuleType:
    """The Python version of a module.

    Args:
        name: the module.
        hidden: names of C modules that its import statements do not find.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None

    def import_visible(wanted: str, *rest: Any) -> Any:
        if wanted in hidden:
            raise ImportError(wanted)
        return builtins.__import__(wanted, *rest)

    module = ModuleType(f"dynajit.capture.library.{name}")
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_visible}
    module.__file__ = __file__
    with open(spec.origin, "rb") as source:
        exec(compile(source.read(), __file__, "exec"), module.__dict__)
    return module
