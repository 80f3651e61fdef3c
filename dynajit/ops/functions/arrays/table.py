"""Which function over tensors stands for which function or method of NumPy's.

Contract: a function takes what NumPy's takes, arrays and NumPy's numbers as tensors, and gives a
tensor (or a tuple of tensors) of the dtype that NumPy gives. It raises where NumPy would, and where
it does not know: either way NumPy runs, and says it in its own words. Filled by the modules of this
package; capture and the documentation read it.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

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


#: Those of them that call a method of their operand: of a number it gives a number.
KEEPS_NUMBERS: Final[set[Callable[..., Any]]] = set()


class Order(enum.Enum):
    """How NumPy lays out what a function gives of arrays whose dims lie in another order.

    `SAME`: as the arrays, if all lie alike. `ALONG`: so, if an axis is given. `ROWS`: row by row.
    `ENDS`: column by column if the arrays are, else row by row. `DIGITS`: so, if floats are rounded
    to other than whole numbers, else as the arrays. `COPY`: row by row in one dim,
    which is a view of what lies so. `NOT_KNOWN`: by its own rules.
    """

    SAME = enum.auto()
    ALONG = enum.auto()
    ROWS = enum.auto()
    ENDS = enum.auto()
    DIGITS = enum.auto()
    COPY = enum.auto()
    NOT_KNOWN = enum.auto()


#: Functions that give what NumPy gives of arrays whose dims lie in their order in memory -> what
#: NumPy does with others.
NEED_ROWS: Final[dict[Callable[..., Any], Order]] = {}

#: NumPy's ufuncs of elements, which take `where=`.
ELEMENTWISE: Final[set[Callable[..., Any]]] = set()

#: Functions that give what their first argument holds afterwards: they write into it.
WRITERS: Final[set[Callable[..., Any]]] = set()

#: Functions whose result may only be read.
READ_ONLY: Final[set[Callable[..., Any]]] = set()

#: Functions that give the dims of an array in another order, as a view.
PERMUTATIONS: Final[set[Callable[..., Any]]] = set()

#: Functions whose results are views, or the array itself, by how an array lies: they are left to
#: NumPy where dims of it go from the end to the start.
NEED_FORWARD: Final[set[Callable[..., Any]]] = set()

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
    keeps_numbers: bool = False,
    is_view: bool = False,
    needs_rows: Order | None = None,
    by_elements: bool = False,
    permutes: bool = False,
    writes: bool = False,
    is_read_only: bool = False,
    needs_forward: bool = False,
) -> Callable[[Function], Function]:
    """Enter a function.

    Args:
        originals: NumPy's functions.
        method: name of the method.
        gives_arrays: its results without dims are arrays, not numbers.
        keeps_numbers: see `KEEPS_NUMBERS`.
        is_view: its result may be an operand, or share its memory; else an operand is copied.
        needs_rows: see `NEED_ROWS`.
        by_elements: see `BY_ELEMENTS`.
        permutes: see `PERMUTATIONS`.
        writes: see `WRITERS`.
        is_read_only: see `READ_ONLY`.
        needs_forward: see `NEED_FORWARD`.
    """

    def enter(function: Function) -> Function:
        entered: Any = function if is_view else _fresh(function)
        for original in originals:
            FUNCTIONS[original] = entered
        if method:
            METHODS[method] = entered
        if gives_arrays:
            GIVES_ARRAYS.add(entered)
        if keeps_numbers:
            KEEPS_NUMBERS.add(entered)
        if needs_rows is not None:
            NEED_ROWS[entered] = needs_rows
        if writes:
            WRITERS.add(entered)
        if is_read_only:
            READ_ONLY.add(entered)
        if needs_forward:
            NEED_FORWARD.add(entered)
        if permutes:
            PERMUTATIONS.add(entered)
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


def name_of(function: Any) -> str:
    """The name of one of NumPy's functions within `numpy`, as `linalg.inv` and `add.reduce`."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return f"{owner.__name__}.{function.__name__}"
    module = getattr(function, "__module__", None) or "numpy"
    room = next(
        (room for room in ("linalg.", "fft.") if module.startswith(f"numpy.{room[:-1]}")), ""
    )
    return f"{room}{function.__name__}"
