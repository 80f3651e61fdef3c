"""Operations whose result nobody reads, and which may refuse their operands all the same.

Plain Python raises the error of an index out of range, or of an integer divided by zero, also where
the result is dropped. Such a node stays an output of the graph. What library functions ask of
elements (`ops.calls.contents`) is one output together, without what is known.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.core.errors import DynajitError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Graph
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.passes.keep_refusals import can_be_checked
from dynajit.ir.refusals import may_refuse
from dynajit.ops.table.op_table import TABLE

MOST_KNOWN: Final = 1 << 12
"""Elements of a value that is computed while capturing, at most."""


def unread_checks(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """The nodes that may refuse their operands and from which no path leads to an output.

    Args:
        nodes: all, arguments first.
        outputs: those that are outputs anyway.
    """
    needed = set(outputs)
    found = []
    for node in reversed(nodes):
        if node not in needed and may_refuse(node):
            found.append(node)
            needed.add(node)
        if node in needed:
            needed.update(argument for argument in _read(node) if isinstance(argument, Node))
    return found[::-1]


def without_elements(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that look at indices in eager execution and have no element for which a kernel
    would: `x[:, :0][i]`."""
    return [node for node in nodes if 0 in node.type.shape and _has_indices(node)]


def _has_indices(node: Node) -> bool:
    if not can_be_checked(node):
        return False
    indices = node.args[1]
    return isinstance(indices, Node) and 0 not in indices.type.shape


def _read(node: Node) -> Sequence[Argument]:
    """The arguments that are read: of what is overwritten as a whole, only the new elements."""
    is_overwritten = node.op in (TABLE.overwrite, TABLE.overwrite_unrecorded)
    return node.args[1:] if is_overwritten else node.args


def required(node: Node) -> Node | None:
    """The truth that a node requires and does nothing else: see `contents.require`."""
    if node.op is not TABLE.floor_divide or node.args[0] != 1 or node.type.shape:
        return None
    divisor = node.args[1]
    if not isinstance(divisor, Node) or divisor.op is not TABLE.cast:
        return None
    truth = divisor.args[0]
    return truth if isinstance(truth, Node) and _is_bool(truth) else None


def _is_bool(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype is dtypes.bool_


def is_known_to_hold(nodes: Sequence[Node], truth: Node) -> bool:
    """True if a truth depends on no input, and is one.

    Args:
        nodes: all, arguments first.
    """
    needed = {truth}
    for node in reversed(nodes):
        if node in needed:
            needed.update(argument for argument in node.args if isinstance(argument, Node))
    calls = tuple(node for node in nodes if node in needed)
    if len(calls) < len(needed) or not all(map(_is_computed_here, calls)):
        return False
    try:
        return bool(interpret.run(Graph("known", calls, (truth,)), ())[0])
    except DynajitError:
        return False


def _is_computed_here(node: Node) -> bool:
    """True for a small value on the CPU that depends on no input itself."""
    if not isinstance(node.type, TensorType) or node.type.device is not CPU:
        return False
    size = node.type.numel
    is_small = isinstance(size, int) and size <= MOST_KNOWN
    return is_small and node.kind is not NodeKind.PLACEHOLDER and not (node.op and node.op.opaque)
