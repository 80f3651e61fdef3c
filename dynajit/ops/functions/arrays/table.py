"""Which function over tensors stands for which function or method of NumPy's.

Contract: a function takes what NumPy's takes, arrays and NumPy's numbers as tensors, and gives a
tensor (or a tuple of tensors) of the dtype that NumPy gives. It raises where NumPy would, and where
it does not know: either way NumPy runs, and says it in its own words. Filled by the modules of this
package; capture and the documentation read it.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from dynajit.core.errors import DynajitError
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.table.op_table import TABLE

Function = TypeVar("Function", bound=Callable[..., Any])

#: NumPy's function -> function over tensors.
FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {}

#: Method of arrays and numbers -> function over tensors, the array first.
METHODS: Final[dict[str, Callable[..., Any]]] = {}

#: Functions whose results without dims are arrays: all others give numbers there.
GIVES_ARRAYS: Final[set[Callable[..., Any]]] = set()


#: Functions that give what NumPy gives of arrays whose dims lie in their order in memory: of others
#: NumPy arranges the result otherwise, or copies where a view is given.
NEED_ROWS: Final[set[Callable[..., Any]]] = set()

#: Functions by elements: where operands lie in different orders, NumPy's result has rows.
BY_ELEMENTS: Final[set[Callable[..., Any]]] = set()


class LeftToNumPy(DynajitError, NotImplementedError):
    """Nothing stands for this call: NumPy runs it."""


def left(what: str) -> LeftToNumPy:
    """The error that leaves a call to NumPy."""
    return LeftToNumPy(f"{what} is left to NumPy")


def stands_for(
    *originals: Any,
    method: str = "",
    gives_arrays: bool = False,
    is_view: bool = False,
    needs_rows: bool = False,
    by_elements: bool = False,
) -> Callable[[Function], Function]:
    """Enter a function.

    Args:
        originals: NumPy's functions.
        method: name of the method.
        gives_arrays: its results without dims are arrays, not numbers.
        is_view: its result may be an operand, or share its memory; else an operand is copied.
        needs_rows: see `NEED_ROWS`.
        by_elements: see `BY_ELEMENTS`.
    """

    def enter(function: Function) -> Function:
        entered: Any = function if is_view else _fresh(function)
        for original in originals:
            FUNCTIONS[original] = entered
        if method:
            METHODS[method] = entered
        if gives_arrays:
            GIVES_ARRAYS.add(entered)
        if needs_rows:
            NEED_ROWS.add(entered)
        if by_elements:
            BY_ELEMENTS.add(entered)
        found: Function = entered
        return found

    return enter


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        given = [value for value in (*args, *keywords.values()) if is_tensor(value)]
        given += [x for value in args if isinstance(value, (list, tuple)) for x in value]
        return TABLE.clone(result) if any(result is value for value in given) else result

    return call
