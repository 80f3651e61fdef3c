"""The page of NumPy's functions that are captured, and of those that are left to NumPy.

`docs/numpy_functions.md` is what `functions_page` gives.
"""

import types

import numpy as np

from dynajit.ops.functions.arrays.table import FUNCTIONS, METHODS, name_of

_HEAD = """# NumPy's functions in compiled code

What is captured becomes part of the graph ([how](howto/numpy.md)); what is left to NumPy ends it,
and runs on NumPy. Functions that are captured leave single calls to NumPy: arguments that they do
not take here, and dtypes that NumPy treats in a way of its own.
"""

_IN_PYTHON = """NumPy has these in Python: its code is captured, so that they are part of the graph
if all functions are that they call for the arguments at hand; if not, they run on NumPy as one."""


def _not_entered() -> list[str]:
    kinds = (np.ufunc, types.FunctionType, type(np.prod))
    found = {n for n in np.__all__ if isinstance(getattr(np, n), kinds)}
    return sorted(n for n in found if getattr(np, n) not in FUNCTIONS)


def _is_in_python(name: str) -> bool:
    function = getattr(np, name)
    return isinstance(getattr(function, "_implementation", function), types.FunctionType)


def _methods_of_ufuncs() -> str:
    owners: dict[str, list[str]] = {}
    for function in FUNCTIONS:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, np.ufunc):
            owners.setdefault(function.__name__, []).append(owner.__name__)
    lines = [f"- `{name}`: {_listed(sorted(of))}" for name, of in sorted(owners.items())]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def functions_page() -> str:
    """The page as Markdown."""
    functions = [f for f in FUNCTIONS if not isinstance(getattr(f, "__self__", None), np.ufunc)]
    captured = sorted({name_of(function) for function in functions})
    others = _not_entered()
    in_python = [name for name in others if _is_in_python(name)]
    left = [name for name in others if not _is_in_python(name)]
    return "\n".join((
        _HEAD,
        f"## Captured\n\n{_listed(captured)}\n",
        f"## Methods of arrays and numbers\n\n{_listed(sorted(METHODS))}\n",
        f"## Methods of functions\n\n{_methods_of_ufuncs()}\n",
        f"## Captured by what they call\n\n{_IN_PYTHON}\n\n{_listed(in_python)}\n",
        f"## Left to NumPy\n\n{_listed(left)}\n",
    ))  # fmt: skip


if __name__ == "__main__":
    print(functions_page(), end="")
