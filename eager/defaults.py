"""The dtype of new floating tensors: `get_default_dtype` and `set_default_dtype`.

Contract: it is float32; rules of promotion, constants of graphs and kernels rely on that. Called
by users.
"""

from typing import Any

from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, UnsupportedError


def get_default_dtype() -> DType:
    """float32."""
    return dtypes.float32


def set_default_dtype(d: Any) -> None:
    """Accept float32.

    Raises:
        UnsupportedError: another floating dtype.
        ArgumentError: no floating dtype.
    """
    if not isinstance(d, DType) or not d.is_floating_point:
        raise ArgumentError(
            f"set_default_dtype({d!r}): only floating-point types are supported as the default type"
        )
    if d is not dtypes.float32:
        raise UnsupportedError(
            f"set_default_dtype({d!r}): new tensors are float32.  Give dtype= where they are made, "
            "or convert the module with .double()."
        )
