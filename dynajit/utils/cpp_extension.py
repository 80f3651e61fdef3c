"""Extensions in C++ against PyTorch's headers: refused, since those headers are not here.

Contract: the names exist, and raise where they are used.
"""

from typing import Any

from dynajit.core.errors import UnsupportedError

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None


def _refused(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"cpp_extension.{name}: extensions for PyTorch's C++ library cannot be built or loaded "
        "here.  Use the program's version in Python, which dynajit.compile turns into C."
    )


def load(name: str, sources: Any, *options: Any, **named: Any) -> Any:
    """Build and import an extension.

    Raises:
        UnsupportedError: there are none.
    """
    raise _refused("load")


def load_inline(name: str, cpp_sources: Any, *options: Any, **named: Any) -> Any:
    """Build and import an extension from text.

    Raises:
        UnsupportedError: there are none.
    """
    raise _refused("load_inline")


def CppExtension(name: str, sources: Any, *options: Any, **named: Any) -> Any:
    """An extension for setuptools.

    Raises:
        UnsupportedError: there are none.
    """
    raise _refused("CppExtension")


def CUDAExtension(name: str, sources: Any, *options: Any, **named: Any) -> Any:
    """A CUDA extension for setuptools.

    Raises:
        UnsupportedError: there are none.
    """
    raise _refused("CUDAExtension")


class BuildExtension:
    """The command of setuptools that builds extensions: it cannot be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _refused("BuildExtension")


__all__ = [
    "CUDA_HOME",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "load",
    "load_inline",
]
