"""PyTorch's private `_jit_internal`: types and decorators that programs import from there.

Contract: the types are those of `typing`, the decorators those of `jit`, which pass functions
through. `boolean_dispatch` makes a function that looks at a flag.
"""

import inspect
from collections.abc import Callable
from typing import (  # noqa: UP035
    Any,
    Dict,
    Final,
    List,
    Optional,
    Tuple,
    Union,
)

from dynajit.jit import _overload_method, export, ignore, is_scripting, unused

_overload = _overload_method
_copy_to_script_wrapper = export

#: A number, or one for each of so many dims.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List  # noqa: UP006


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that calls `if_true` or `if_false` with all it gets.

    Args:
        arg_name: of the flag, given by name.
        arg_index: of the flag, given by position.
        default: the flag if it is not given.
        module_name: of the function that is made.
        func_name: of the function that is made, where there is one.
    """

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__doc__ = inspect.getdoc(if_true) or inspect.getdoc(if_false)
    chosen.__module__ = module_name
    if func_name is not None:
        chosen.__name__ = func_name
    return chosen


__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "Final",
    "List",
    "Optional",
    "Tuple",
    "Union",
    "_copy_to_script_wrapper",
    "_overload",
    "_overload_method",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]
