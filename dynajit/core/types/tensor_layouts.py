"""Layouts of tensors: how the elements are kept, as programs ask for it and compare it.

Frozen names. `strided` is an array of all elements, `sparse_coo` positions and values of those that
are not 0; the compressed ones exist to be compared with and are refused where a tensor is asked for
in them.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final

from dynajit.core.errors import ArgumentError, UnsupportedError


class Layout(enum.Enum):
    """See the module."""

    strided = "strided"
    sparse_coo = "sparse_coo"
    sparse_csr = "sparse_csr"
    sparse_csc = "sparse_csc"
    sparse_bsr = "sparse_bsr"
    sparse_bsc = "sparse_bsc"

    def __repr__(self) -> str:
        return f"dynajit.{self.value}"

    __str__ = __repr__


strided: Final = Layout.strided
sparse_coo: Final = Layout.sparse_coo
sparse_csr: Final = Layout.sparse_csr
sparse_csc: Final = Layout.sparse_csc
sparse_bsr: Final = Layout.sparse_bsr
sparse_bsc: Final = Layout.sparse_bsc

WHY_COMPRESSED: Final = (
    "compressed layouts (CSR, CSC, BSR, BSC) are not available.  Use the layout sparse_coo: "
    "sparse_coo_tensor(indices, values, size), or to_sparse() of a dense tensor."
)


def require_strided(layout: Any) -> None:
    """Nothing, for a function that makes dense tensors only; None is `strided`.

    Raises:
        UnsupportedError: another layout is asked for.
        ArgumentError: `layout` is none.
    """
    if layout is None or layout is strided:
        return
    if not isinstance(layout, Layout):
        raise ArgumentError(f"layout={layout!r}: expected a layout such as {strided!r}.")
    raise UnsupportedError(
        f"a new tensor in the layout {layout!r} is asked for; only dense ones are made here.  Pass "
        f"layout={strided!r}, or use sparse_coo_tensor(indices, values, size)."
    )


def require_strided_like(input: Any, options: Mapping[str, Any]) -> None:
    """The same for a function that makes a tensor like `input`, in its layout unless `options` name
    another.

    Args:
        input: a tensor; what only has a shape is dense.
    """
    require_strided(options.get("layout") or getattr(input, "layout", None))
