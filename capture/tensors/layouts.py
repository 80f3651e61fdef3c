"""Where the elements of a captured tensor would lie in memory had the code run eagerly.

Graph values have no layout of their own: kernels write results row by row. Questions that plain
Python can ask about layouts (`stride()`, `is_contiguous()`, whether `view` is possible) are
answered here from the graph, or not at all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dynajit.core.types.symint import equals, known_comparison
from dynajit.core.types.value_types import Shape, Size, TensorType, contiguous_strides
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.sizes import expressions
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import TABLE, Movement, Op
from dynajit.ops.table.result_layouts import (
    Undecided,
    is_row_major,
    lies_row_by_row,
    strides_of_result,
)

Known: TypeAlias = Mapping[Node, Shape | None]

_NOTHING: Final[Known] = MappingProxyType({})


def strides_of(node: Node, known: Known = _NOTHING) -> Shape | None:
    """Strides in elements of the tensor that eager execution would make; None if not known.

    Args:
        known: the strides of nodes that were asked for before.
    """
    assert isinstance(node.type, TensorType)
    if node in known:
        return known[node]
    if node.kind is NodeKind.PLACEHOLDER:
        return node.type.strides or contiguous_strides(node.type.shape)
    if node.op is None:
        return contiguous_strides(node.type.shape)
    if isinstance(node.op.rule, Movement) and node.op.rule.view:
        return _strides_of_view(node, known)
    if node.op is TABLE.index and is_by_numbers(node):
        return _strides_of_selected(node, known)
    operands = [_laid(argument, known) for argument in node.args]
    if None in operands and not lies_row_by_row(node.op):
        return None
    given = [laid for laid in operands if laid is not None]
    if not all(is_row_major(*laid) or _are_large(laid[0]) for laid in given if laid):
        return None
    try:
        return strides_of_result(
            node.op, [laid or None for laid in given], node.attributes, node.type.shape
        )
    except Undecided:
        return None


def _strides_of_selected(node: Node, known: Known) -> Shape | None:
    """Of `index` by numbers, which eager execution answers with a view."""
    source = node.args[0]
    assert isinstance(source, Node)
    strides, dims = strides_of(source, known), node.attributes["dims"]
    return None if strides is None else _without(strides, dims)


def _without(strides: Shape, dims: tuple[int, ...]) -> Shape:
    return tuple(step for d, step in enumerate(strides) if d not in dims)


def _laid(argument: Any, known: Known) -> Any:
    """Sizes and strides of an operand; () of what is no tensor, None where they are not known."""
    if not isinstance(argument, Node) or not isinstance(argument.type, TensorType):
        return ()
    strides = strides_of(argument, known)
    return None if strides is None else (argument.type.shape, strides)


def _has_gaps(shape: Shape, strides: Shape) -> bool:
    """Whether there is memory between the elements, or elements share some."""
    expected: Size = 1
    for d in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        if shape[d] != 1 and not equals(strides[d], expected):
            return True
        expected = expected * shape[d]
    return False


def storage_order(shape: Shape, strides: Shape | None) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, if a kernel has to know.

    None for row-major layouts, for those with gaps, which only views have, and where strides
    are not known.
    """
    if strides is None or not _are_large(shape) or is_row_major(shape, strides):
        return None
    if _has_gaps(shape, strides):
        return None
    return tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], d)))


def is_contiguous(node: Node) -> bool | None:
    """Whether the elements would lie row by row; None if not known."""
    assert isinstance(node.type, TensorType)
    strides = strides_of(node)
    return None if strides is None else is_row_major(node.type.shape, strides)


def aliases(op: Op, shape: Shape, strides: Shape | None, wanted: Shape) -> bool | None:
    """Whether a view row gives a view of a tensor of these strides; None if not known."""
    if op.name != "reshape" or shape == wanted:  # sizes that are equal by chance are met below
        return True
    if strides is None or not (_are_large(shape) and _are_large(wanted)):
        return None
    return reshaped_strides(shape, strides, wanted) is not None


def is_by_numbers(node: Node) -> bool:
    """True for `index` by numbers, one per dim: eager execution gives a view, as for `select`."""
    if node.op is not TABLE.index:
        return False
    numbers = node.args[1]
    return isinstance(numbers, Node) and len(numbers.type.shape) == 1


def strides_after(
    op: Op, attributes: Mapping[str, Any], shape: Shape, strides: Shape, wanted: Shape
) -> Shape | None:
    """Strides of the result, of shape `wanted`, of a view row on a tensor of these strides."""
    if not (_are_large(shape) and _are_large(wanted)):
        return None
    if op.name == "reshape":
        found = reshaped_strides(shape, strides, wanted)
        return contiguous_strides(wanted) if found is None else found
    if op is TABLE.index:
        return _without(strides, attributes["dims"])
    is_known = next(expressions(tuple(attributes.values())), None) is None
    is_known = is_known and _are_known((*shape, *strides, *wanted))
    if not is_known or not op.rule.rearranges:
        rule = op.rule.strides
        return None if rule is None else rule(shape, strides, wanted, **attributes)
    # An array of one byte per element that is never read.
    sizes: Any = shape
    steps: Any = strides
    image = as_strided(np.empty(1, np.int8), sizes, steps, writeable=False)
    return tuple(evaluate(op, [image], dict(attributes)).strides)


def _are_large(sizes: Shape) -> bool:
    """True if no symbolic size can be 0 or 1: such sizes have any stride."""
    return all(isinstance(size, int) or size >= 2 for size in sizes)


def _are_known(sizes: Shape) -> bool:
    return all(isinstance(size, int) for size in sizes)


def reshaped_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides under which the elements appear in another shape; None where a copy is needed.

    The wanted sizes, from the last one on, have to make up run by run. What symbolic sizes decide
    about that is what they decide in this call.
    """
    if 0 in shape:
        return contiguous_strides(wanted)
    left = list(wanted)
    found: list[Size] = []
    count: Size = 1
    step: Size = 1
    for count, step in reversed(_runs(shape, strides)):
        made: Size = 1
        while not equals(made, count):
            if not left or known_comparison("<", count, made):
                return None
            found.append(step * made)
            made = made * left.pop()
        while left and equals(left[-1], 1):
            found.append(step * made)
            left.pop()
    found += [step * count] * len(left)  # of size 1, where there is no run
    return tuple(reversed(found))


def _runs(shape: Shape, strides: Shape) -> list[tuple[Size, Size]]:
    """Elements and stride of dims that are one run, from the outermost on."""
    runs: list[tuple[Size, Size]] = []
    for size, stride in zip(shape, strides, strict=True):
        if equals(size, 1):
            continue
        if runs and equals(runs[-1][1], size * stride):
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def _strides_of_view(node: Node, known: Known) -> Shape | None:
    assert node.op is not None
    (base,) = (arg for arg in node.args if isinstance(arg, Node))
    assert isinstance(base.type, TensorType) and isinstance(node.type, TensorType)
    strides = strides_of(base, known)
    if strides is None:
        return None
    return strides_after(node.op, node.attributes, base.type.shape, strides, node.type.shape)
