"""What Python leaves out, computed all the same: operands that refuse nothing.

Both arms of a jump on a tensor are captured (`capture.execution.branches`). A row of an arm that
refuses what its operands hold, an index out of range or a divisor of zero, is not to refuse them
where Python runs the other arm: there it gets an index or divisor that suits everything. What it
gives is selected by nobody then.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ops import TABLE
from dynajit.ops.table.op_table import Kind, Op


def harmless(op: Op, operands: Sequence[Any], arm: graph.Value) -> list[Any] | None:
    """The operands of a row that may refuse them; None: none holds elements that data decide.

    What numbers of turns decide counts as well where they decide the jump, too: a turn that Python
    leaves out may be one at the border (`if i + 1 < n: s = s + x[i + 1]`).

    Args:
        arm: whether Python runs the arm, as a bool of no dims.
    """
    suiting = 1 if op.kind is Kind.POINTWISE else 0
    by_numbers = is_of_numbers(arm.node)
    found = [*operands]
    for place, operand in enumerate(operands):
        if place and isinstance(operand, graph.Value) and _is_decided(operand, by_numbers):
            found[place] = TABLE.where(arm, operand, suiting)
    return None if all(a is b for a, b in zip(found, operands, strict=True)) else found


def is_of_numbers(node: Node) -> bool:
    """Whether no element of a tensor that is given decides a value."""
    return not any(isinstance(given.type, TensorType) for given in _given(node))


def _is_decided(operand: graph.Value, by_numbers: bool) -> bool:
    """Whether integers are computed of the elements of tensors, or by numbers."""
    kind = operand.type
    if not isinstance(kind, TensorType) or kind.dtype.category is not Category.INTEGER:
        return False
    return any(by_numbers or isinstance(given.type, TensorType) for given in _given(operand.node))


def _given(node: Node) -> Iterator[Node]:
    """The inputs of the graph that a value is computed of."""
    work, seen = [node], {node}
    for each in work:
        if each.kind is graph.NodeKind.PLACEHOLDER:
            yield each
        following = [a for a in each.args if isinstance(a, Node) and a not in seen]
        seen.update(following)
        work.extend(following)


__all__ = ["harmless", "is_of_numbers"]
