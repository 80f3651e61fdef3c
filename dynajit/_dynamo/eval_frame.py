"""What compiled modules are asked by, by PyTorch's inner path.

Contract: `isinstance(module, OptimizedModule)` says whether `compile` made the module, whose class
is that of the module inside, `_orig_mod`.
"""

from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.nn.compiled_calls import original_of
from dynajit.nn.module import Module


class _MadeByCompile(type):
    """Lets the class answer for modules of any class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Module) and original_of(instance) is not instance


class OptimizedModule(metaclass=_MadeByCompile):
    """Modules that `dynajit.compile` gave: a class to ask for; instances are made by `compile`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError("OptimizedModule: it is made by compiling.  Use dynajit.compile.")


__all__ = ["OptimizedModule"]
