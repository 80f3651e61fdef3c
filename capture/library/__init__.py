"""Functions and classes that are not read through, re-expressed in Python: C code of the standard
library, where the eager tape runs code of the program, calls of mapped functions, and `func.jvp`.

The executor inlines the Python form wherever the captured code calls the original
(`capture.python.builtins.replaced`), so that iterators stay lazy and functions given as arguments
are traced. An instance of a class of this package stands for one of the original: `type(x)` is the
original, and where it must exist afterwards, an original is made.
"""

from dynajit.capture.library import (
    arrays,
    autograd,
    backward,
    collecting,
    combinatorics,
    counts,
    forward_mode,
    functional,
    heaps,
    iteration,
    transforms,
)
from dynajit.capture.library.table import REBUILT, REPLACED

__all__ = ["REBUILT", "REPLACED", "arrays", "autograd", "backward", "collecting", "combinatorics",
           "counts", "forward_mode", "functional", "heaps", "iteration", "transforms"]  # fmt: skip
