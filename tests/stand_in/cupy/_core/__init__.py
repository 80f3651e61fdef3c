"""What dynajit reads of CuPy's inside."""

from cupy._core import _routines_linalg

__all__ = ["_routines_linalg"]
