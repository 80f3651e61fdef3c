"""Running values along one dim: which rows have kernels, and what they combine.

Contract: a scan combines the elements of a row in order, in the dtype of `ops.rows.scans`, and
rounds each running value to the result's dtype. Along a dim of one element it is a cast, which is
inlined.
"""

from typing import Any, Final

from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Node, type_of
from dynajit.ops.rows.scans import accumulator_dtype

FORWARD: Final = 1
BACKWARD: Final = -1

COMBINES: Final = {"cumsum": ("add", 0), "cumprod": ("mul", 1)}
"""Row -> the operator that combines two running values, and the value of no elements."""


def is_scan_row(node: Node) -> bool:
    """True for a call of a row that scans."""
    return node.op is not None and node.op.name in COMBINES


def is_inline_scan(node: Node) -> bool:
    """True for a scan of single elements, which is no loop."""
    if not is_scan_row(node):
        return False
    shape = _given(node).shape
    return not shape or shape[node.attributes["dim"]] == 1 or 0 in shape


def is_scan(node: Node) -> bool:
    """True for a scan that is a loop."""
    return is_scan_row(node) and not is_inline_scan(node)


def direction(node: Node) -> int:
    """`BACKWARD` for a scan from the last element on."""
    return BACKWARD if node.attributes["reverse"] else FORWARD


def accumulator(node: Node) -> DType:
    """dtype of the running value of a scan."""
    return accumulator_dtype(_given(node).dtype)


def _given(node: Node) -> TensorType:
    given: Any = type_of(node.args[0])
    assert isinstance(given, TensorType)
    return given
