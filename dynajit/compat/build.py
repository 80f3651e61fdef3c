"""What the library runs on, by PyTorch's path: `print(dynajit.__config__.show())`.

Contract: texts for people and for bug reports; one fact a line, after two spaces and a dash. No
fact of PyTorch's own build appears: programs search the text for the parts of that build.
"""

import platform

import numpy as np

from dynajit.compat.version import dynajit as own_version
from dynajit.compat.version import pytorch as offered_version
from dynajit.core.process.threads import get_num_threads


def show() -> str:
    """Versions of the library and of what it computes with, as lines of text."""
    return _lines(
        "dynajit built with:",
        f"dynajit {own_version}, with the names of PyTorch {offered_version}",
        f"Python {platform.python_version()}",
        f"NumPy {np.__version__}",
        f"CPU {platform.machine()}",
    )


def parallel_info() -> str:
    """How many threads there are, as lines of text."""
    return _lines("threads:", f"dynajit.get_num_threads() : {get_num_threads()}")


def _lines(title: str, *facts: str) -> str:
    return "\n".join([title, *(f"  - {fact}" for fact in facts)]) + "\n"


__all__ = ["parallel_info", "show"]
