"""Names that programs import and that cannot be offered: they exist, and raise when they are used.

Contract: importing such a name, passing it on or asking `isinstance` works; calling it, or making
an instance, raises UnsupportedError with the name and the reason.
"""

import sys
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import UnsupportedError


def refused_function(name: str, reason: str, module: str | None = None) -> Callable[..., Any]:
    """A function that raises.

    Args:
        name: as programs call it, such as `onnx.export`.
        reason: what is missing, and what to do instead; whole sentences.
        module: where the name is found, by pickle, too; by default the module that asks.
    """

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{name}: {reason}")

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__module__ = module or _module_of_caller()
    refused.__doc__ = f"Raises UnsupportedError: {reason}"
    return refused


def refused_class(name: str, reason: str, module: str | None = None) -> Any:
    """A class whose instances cannot be made; classes may derive from it.

    Args: as of `refused_function`.
    """

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(f"{name}: {reason}")

    members = {
        "__init__": refuse,
        "__doc__": f"Raises UnsupportedError: {reason}",
        "__module__": module or _module_of_caller(),
    }
    return type(name.rpartition(".")[2], (), members)


def _module_of_caller() -> str:
    """The module that asks for a refusal."""
    return str(sys._getframe(2).f_globals["__name__"])
