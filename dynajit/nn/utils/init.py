"""Modules whose parameters are given values later: `nn.utils.skip_init`.

Contract: nobody may rely on the values; the random generators are left as they were, as in PyTorch,
where nothing is drawn.
"""

import inspect
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.eager.modes.random import set_states, states
from dynajit.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """`module_cls(*args, **kwargs)`, whose parameters and buffers hold anything.

    Args:
        module_cls: a class of modules that takes `device`.

    Raises:
        UnsupportedError, a RuntimeError: it is no such class.
    """
    if not issubclass(module_cls, Module):
        raise UnsupportedError(f"skip_init: Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise UnsupportedError(
            f"skip_init: Module must support a 'device' arg to skip initialization; "
            f"{module_cls.__name__} has none.  Call the class itself."
        )
    before = states()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_states(before)


__all__ = ["skip_init"]
