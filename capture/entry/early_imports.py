"""Modules that captured code imports for the first time: imported while capturing.

A module's body is code of the user's, and runs once in a process. Where a region would end at its
import and has done nothing before that the body could notice, the import is done at once, and
capture begins anew: what it read so far is read again. The only difference to plain Python is that
the region's computations come after the import. An import that fails is left to the break.
"""

import contextlib
import importlib

from dynajit.capture import breaks
from dynajit.capture.execution.executor import Returned, Stopped, Thrown
from dynajit.capture.machine.effects import Effect, GlobalEffect, ModeEffect
from dynajit.capture.python.text.output import OutputEffect
from dynajit.capture.region.region import Region

#: Text that was written, variables of modules, and modes: what the body of a module can notice.
#: Objects and tensors that only the region's caller has are out of its reach.
_NOTICED: tuple[type[Effect], ...] = (OutputEffect, GlobalEffect, ModeEffect)


class ModuleWanted(Exception):
    """Capture must start again after an import.

    Args:
        name: the module's full name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def wanted(outcome: Returned | Thrown | Stopped) -> str | None:
    """The module at whose import the executor stopped, or None."""
    if not isinstance(outcome, Stopped) or outcome.record.reason is not breaks.IMPORT:
        return None
    return outcome.record.detail


def may_come_early(region: Region) -> bool:
    """True if a region has done nothing that the body of a module can notice."""
    return not any(isinstance(effect, _NOTICED) for effect in region.effects)


def load(name: str) -> None:
    """Import a module. Where that fails the program will see why: it tries again at the break."""
    with contextlib.suppress(Exception):  # whatever the body of a module raises
        importlib.import_module(name)
