"""`torch.ops`: operators by namespace and name, as programs call them.

Contract: `dynajit.ops.NAME` is, for a name that no module of the package has, the namespace NAME,
with or without operators; an operator that is defined is an attribute of its namespace. The
namespace `aten` has the functions of the library: `torch.ops.aten.mm`, or an overload of it, as
`torch.ops.aten.mm.default`. Operators themselves are made by `dynajit.library`; this file knows
them as `GraphCallable`, which is all that capture has to know of them.
"""

import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from dynajit.core.errors import InvalidValueError, LibraryError, UnsupportedError
from dynajit.ops.calls.aten_functions import FUNCTIONS, method_named
from dynajit.ops.calls.public import InPlace, published

PACKAGE: Final = "dynajit.ops"


class GraphCallable:
    """A callable that capture calls with graph values instead of reading its code."""

    def recorded(self, *args: Any, **keywords: Any) -> Any:
        """The call with graph values: what it returns is made of nodes.

        Where `written` names arguments, a pair: what the call returns, and a tuple with what the
        tensors in these arguments hold after it.

        Raises:
            Exception: the call cannot be part of a graph, with the reason.
        """
        raise NotImplementedError

    def written(self) -> tuple[tuple[int, str], ...]:
        """(position, name) of each argument whose tensors a call writes.

        Raises:
            Exception: that depends on the arguments.
        """
        raise NotImplementedError

    def facts(self) -> Iterator[tuple[Any, str]]:
        """(object, name of its attribute) for what `recorded` depends on and may change."""
        return iter(())


class OpNamespace(ModuleType):
    """The operators of one namespace. Mutable: operators are set as they are defined.

    Args:
        name: of the namespace.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"{PACKAGE}.{name}")
        self.name = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")


class LibraryFunction(GraphCallable):
    """A function of the library as an operator of the namespace `aten`.

    Every overload is the function itself, which looks at what it gets. Mutable: keeps the names of
    overloads that were asked for.

    Args:
        name: as in PyTorch's native functions.
        function: the library's function.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = function.__doc__
        self._function = function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def recorded(self, *args: Any, **keywords: Any) -> Any:
        """See `GraphCallable`."""
        if self.__name__.endswith("_"):
            raise UnsupportedError(
                f"aten.{self.__name__}: what writes its operand is called between two graphs.  "
                "Call the tensor's method."
            )
        return self._function(*args, **keywords)

    def written(self) -> tuple[tuple[int, str], ...]:
        """See `GraphCallable`: none of which capture has to know."""
        return ()

    def __getattr__(self, overload: str) -> "LibraryFunction":
        if overload.startswith("_"):
            raise AttributeError(
                f"The underlying op of 'aten.{self.__name__}' has no overload name '{overload}'"
            )
        setattr(self, overload, self)
        return self

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class _LibraryNamespace(OpNamespace):
    """`aten`: made of the library's functions when they are asked for. Mutable: keeps them."""

    def __getattr__(self, name: str) -> Any:
        functions = vars(sys.modules["dynajit.ops.functions"])
        found = None if name.startswith("_") else functions.get(name)
        if not callable(found):
            found = FUNCTIONS.get(name) or _in_place(name)
        if found is None:
            return super().__getattr__(name)
        made = LibraryFunction(name, found)
        setattr(self, name, made)
        return made


def _in_place(name: str) -> Callable[..., Any] | None:
    """The form of a function that writes its operand, by its name with an underscore."""
    facts = published().get(name.removesuffix("_")) if name.endswith("_") else None
    has_method = facts is not None and facts.in_place in (InPlace.METHOD, InPlace.BOTH)
    return method_named(name) if has_method else None


aten: Final = _LibraryNamespace("aten")

_namespaces: Final[dict[str, OpNamespace]] = {"aten": aten}

#: Names that `from dynajit.ops import name` asks the package for before it imports the module.
_MODULES: Final = frozenset(
    name.partition(".")[0] for name in os.listdir(os.path.dirname(os.path.dirname(__file__)))
)


def namespace(name: str) -> OpNamespace:
    """The namespace of a name, made when it is asked for the first time.

    Raises:
        ValueError: a module of dynajit's own operations has this name.
    """
    found = _namespaces.get(name)
    if found is None:
        if name in _MODULES or name in vars(sys.modules[PACKAGE]):
            raise InvalidValueError(
                f"torch.ops.{name}: {name!r} is a module of dynajit's own operations and cannot be "
                "a namespace of operators.  Choose another name."
            )
        found = _namespaces[name] = OpNamespace(name)
        setattr(sys.modules[PACKAGE], name, found)
    return found


NOT_LOADED: Final[list[str]] = []
"""Libraries of operators that a program asked for. Mutable: `load_library` adds to it."""


def load_library(path: Any) -> None:
    """Refused: libraries of operators are compiled against PyTorch's C++ classes.

    Raises:
        LibraryError: always; an OSError, as where PyTorch cannot load one, and an UnsupportedError.
    """
    NOT_LOADED.append(str(path))
    raise LibraryError(
        f"ops.load_library({str(path)!r}): libraries of operators are compiled against PyTorch's "
        "C++ classes, which are not here.  Give the operators kernels in Python: "
        "dynajit.library.custom_op, or define and impl."
    )


def missing(name: str) -> OpNamespace:
    """`__getattr__` of the package `dynajit.ops`: every other name is a namespace."""
    if name.startswith("_") or name in _MODULES:
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    return namespace(name)
