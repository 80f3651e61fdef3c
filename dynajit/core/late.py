"""Modules of dynajit that are imported when one of their names is first asked for.

`import dynajit` makes tensors, layers and optimisers ready; capture, graphs and code generation
are loaded by the first `compile`, so a process that never compiles does not pay for them. Contract:
`Late("dynajit.package.module")` stands at the top of a module, where the import would stand, and
the same rules hold for it (`tests/test_layering.py` reads the name). Used by `dynajit.compile` and
`dynajit.report`.
"""

import importlib
from types import ModuleType
from typing import Any


class Late:
    """Stands for a module; mutable: the first use of a name imports it, and keeps it.

    Args:
        name: of the module, dotted.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self), attribute)

    def __repr__(self) -> str:
        return f"Late({self._name!r})"


def load(late: Late) -> ModuleType:
    """The module itself, imported now if it was not before.

    Two threads may both come here first: the import system gives them the same module.
    """
    if late._module is None:
        late._module = importlib.import_module(late._name)
    return late._module
