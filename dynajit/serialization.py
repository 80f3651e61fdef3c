"""Checkpoints by PyTorch's path: `dynajit.serialization.add_safe_globals` and its kin.

Everything here is defined in `eager.serialization`; this module is where programs look for it.
"""

from dynajit.eager.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]
