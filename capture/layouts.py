"""Where the elements of a captured tensor would lie in memory had the code run eagerly.

Graph values have no layout of their own: kernels write results row by row. Questions that plain
Python can ask about layouts (`stride()`, `is_contiguous()`, whether `view` is possible) are
answered here from the graph, or not at all. Called by `capture.operations_tensors`.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dynajit.core.types import Shape, Size, TensorType, contiguous_strides
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table import Kind, Movement, Op

#: Rows whose eager results lie row by row whatever the layout of their operands.
_FRESH: Final = frozenset({"clone", "matmul", "linear", "full", "arange", "embedding"})


def strides_of(node: Node) -> Shape | None:
    """Strides in elements of the tensor that eager execution would make; None if not known."""
    assert isinstance(node.type, TensorType)
    if node.kind is NodeKind.PLACEHOLDER:
        return node.type.strides or contiguous_strides(node.type.shape)
    if node.op is None or node.op.name in _FRESH or node.op.kind is Kind.RANDOM:
        return contiguous_strides(node.type.shape)
    if isinstance(node.op.rule, Movement) and node.op.rule.view:
        return _strides_of_view(node)
    operands = [arg for arg in node.args if isinstance(arg, Node)]
    if all(is_contiguous(arg) for arg in operands if isinstance(arg.type, TensorType)):
        return contiguous_strides(node.type.shape)
    return None


def is_row_major(shape: Shape, strides: Shape) -> bool:
    """Whether elements with these strides lie row by row."""
    expected = contiguous_strides(shape)
    return 0 in shape or all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(shape, strides, expected, strict=True)
    )


def is_contiguous(node: Node) -> bool | None:
    """Whether the elements would lie row by row; None if not known."""
    assert isinstance(node.type, TensorType)
    strides = strides_of(node)
    return None if strides is None else is_row_major(node.type.shape, strides)


def can_view(node: Node, shape: Shape) -> bool | None:
    """Whether `view(shape)`, of the same number of elements, needs no copy; None if not known."""
    assert isinstance(node.type, TensorType)
    strides = strides_of(node)
    if strides is None:
        return None
    return reshaped_strides(node.type.shape, strides, shape) is not None


def aliases(op: Op, shape: Shape, strides: Shape | None, wanted: Shape) -> bool | None:
    """Whether a view row gives a view of a tensor of these strides; None if not known."""
    if op.name != "reshape" or shape == wanted:
        return True
    if strides is None or not _are_known((*shape, *strides, *wanted)):
        return None
    return reshaped_strides(shape, strides, wanted) is not None


def strides_after(
    op: Op, attributes: Mapping[str, Any], shape: Shape, strides: Shape, wanted: Shape
) -> Shape | None:
    """Strides of the result, of shape `wanted`, of a view row on a tensor of these strides."""
    if not _are_known((*shape, *strides, *wanted)):
        return None
    if op.name == "reshape":
        found = reshaped_strides(shape, strides, wanted)
        return contiguous_strides(wanted) if found is None else found
    # An array of one byte per element that is never read.
    sizes: Any = shape
    steps: Any = strides
    image = as_strided(np.empty(1, np.int8), sizes, steps, writeable=False)
    return tuple(evaluate(op, [image], dict(attributes)).strides)


def _are_known(sizes: Shape) -> bool:
    return all(isinstance(size, int) for size in sizes)


def reshaped_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides under which the elements appear in another shape; None where a copy is needed."""
    if 0 in shape:
        return contiguous_strides(wanted)
    blocks: list[tuple[Size, Size]] = []  # (elements, stride) of dimensions that are one run
    for size, stride in zip(shape, strides, strict=True):
        if blocks and size != 1 and blocks[-1][1] == size * stride:
            blocks[-1] = (blocks[-1][0] * size, stride)
        elif size != 1:
            blocks.append((size, stride))
    found: list[Size] = []
    count: Size
    step: Size
    count, step = blocks.pop() if blocks else (1, 1)
    for size in reversed(wanted):
        if count == 1 and size != 1:
            count, step = blocks.pop()
        if count % size:
            return None
        found.append(step)
        count, step = count // size, step * size
    return tuple(reversed(found))


def _strides_of_view(node: Node) -> Shape | None:
    assert node.op is not None
    (base,) = (arg for arg in node.args if isinstance(arg, Node))
    assert isinstance(base.type, TensorType) and isinstance(node.type, TensorType)
    strides = strides_of(base)
    if strides is None:
        return None
    return strides_after(node.op, node.attributes, base.type.shape, strides, node.type.shape)
