"""Whole modules in PyTorch's checkpoints: its classes and functions of layers are those here.

Contract: only `load(weights_only=False)` asks, by PyTorch's path; attributes of modules have the
same names here, so that a state is taken as it is (`Module.__setstate__`). What is not here under
the same path is refused by `load`. Imported by `nn`, so that `load` knows of it.
"""

import importlib
from typing import Any, Final

from dynajit.eager.files.names import declare_package

#: Where PyTorch's functions of networks say they are from.
_OF_NETWORKS: Final = "torch._C._nn"


def _equal(module: str, name: str) -> Any:
    """What is here under PyTorch's path `module.name`; None where nothing is."""
    try:
        return getattr(
            importlib.import_module(f"dynajit{module.removeprefix('torch')}"), name, None
        )
    except ImportError:
        return None


declare_package("torch.nn", _equal)
declare_package(_OF_NETWORKS, _equal)
