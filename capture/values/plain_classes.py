"""What the interpreter knows of a class, read without asking its metaclass.

`cls.__name__`, `vars(cls)` and `issubclass` look into the metaclass first, which may be the user's
code. These are the slots of `type` itself.

Runs no user code.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

name_of: Final[Callable[[type], str]] = vars(type)["__name__"].__get__
qualified_name: Final[Callable[[type], str]] = vars(type)["__qualname__"].__get__
namespace: Final[Callable[[type], Mapping[str, Any]]] = vars(type)["__dict__"].__get__
bases_in_order: Final[Callable[[type], tuple[type, ...]]] = vars(type)["__mro__"].__get__
flags: Final[Callable[[type], int]] = vars(type)["__flags__"].__get__

#: `Py_TPFLAGS_HEAPTYPE`.
_HEAP_TYPE: Final = 1 << 9


def is_heap_type(cls: type) -> bool:
    """True for a class made at run time; False for the static ones of C code."""
    return bool(flags(cls) & _HEAP_TYPE)


def derives_from(cls: type, base: type) -> bool:
    """True if `base` is the class or one that it inherits from; no `__subclasscheck__` is asked."""
    return any(other is base for other in bases_in_order(cls))
