"""Functions and classes of the standard library that are written in C, re-expressed in Python.

The executor inlines the Python form wherever the captured code calls the original
(`capture.builtins_replaced`), so that iterators stay lazy and functions given as arguments are
traced. An instance of a class of this package stands for one of the original: `type(x)` is the
original, and where it must exist afterwards, an original is made.
"""

from dynajit.capture.library import collecting, combinatorics, functional, heaps, iteration
from dynajit.capture.library.table import REBUILT, REPLACED

__all__ = ["REBUILT", "REPLACED", "collecting", "combinatorics", "functional", "heaps", "iteration"]
