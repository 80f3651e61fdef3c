"""Imports below another name of the library: after `sys.modules["torch"] = dynajit`, a program's
`import torch.nn.functional` gives the module `dynajit.nn.functional`.

Without it Python would look into dynajit's folder and run the file a second time, as a module with
classes of its own, which then also takes the place of dynajit's. Contract: `install(library)` puts
one finder in front of Python's, once per process; it answers only for names below one that
`sys.modules` says is the library, and for older names of modules (`core.process.moved`), which
pickles may have; it leaves every other import alone.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from dynajit.core.process.moved import MOVED

if TYPE_CHECKING:
    from importlib.abc import Loader


class AliasFinder:
    """Finds the library's modules under another name of the library.

    A finder and loader by its methods: `importlib.abc`, whose classes say so, takes 10 ms to load.

    Args:
        library: the package itself.
    """

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        #: What it is imported as, whatever a program may set its `__name__` to.
        self.own = library.__name__

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for `alias.rest`, if `alias` is the library, and for a module's older name; else
        None.

        Raises:
            ModuleNotFoundError: the library has no such module.
        """
        alias, _, rest = fullname.partition(".")
        own = self.own
        if fullname in MOVED:
            importlib.import_module(MOVED[fullname])
            return ModuleSpec(fullname, cast("Loader", self))
        if not rest or alias == own or sys.modules.get(alias) is not self.library:
            return None
        module = self._module(f"{own}.{rest}", fullname)
        return ModuleSpec(fullname, cast("Loader", self), is_package=hasattr(module, "__path__"))

    def _module(self, name: str, asked: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(
                f"No module named {asked!r}: {self.own} stands for "
                f"{asked.partition('.')[0]!r} here, and has no {name!r}.",
                name=asked,
            ) from None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that has been imported under the library's own name."""
        rest = spec.name.partition(".")[2]
        module = sys.modules[MOVED.get(spec.name, f"{self.own}.{rest}")]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run again; the import system has replaced `__spec__`, which is put back."""
        state: Any = getattr(module.__spec__, "loader_state", None)
        module.__spec__ = state


def install(library: ModuleType) -> None:
    """Let modules of `library` be imported below its other names."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder(library))
