"""The page of NumPy's functions that are captured, and of those that are left to NumPy.

`docs/numpy_functions.md` is what `functions_page` gives.
"""

import types
from typing import Any

import numpy as np

from dynajit.ops.functions.arrays.table import FUNCTIONS, METHODS, name_of

_HEAD = """# NumPy's functions in compiled code

What is captured becomes part of the graph ([how](howto/numpy.md)); what is left to NumPy ends it,
and runs on NumPy. Functions that are captured leave single calls to NumPy: arguments that they do
not take here, and dtypes that NumPy treats in a way of its own.
"""


def _left() -> list[str]:
    kinds = (np.ufunc, types.FunctionType, type(np.prod))
    found = {n for n in np.__all__ if isinstance(getattr(np, n), kinds)}
    return sorted(n for n in found if getattr(np, n) not in FUNCTIONS)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def functions_page() -> str:
    """The page as Markdown."""
    captured = sorted({name_of(function) for function in FUNCTIONS})
    return "\n".join((
        _HEAD,
        f"## Captured\n\n{_listed(captured)}\n",
        f"## Methods of arrays and numbers\n\n{_listed(sorted(METHODS))}\n",
        f"## Left to NumPy\n\n{_listed(_left())}\n",
    ))  # fmt: skip


if __name__ == "__main__":
    print(functions_page(), end="")
