"""Compute now what does not depend on an input."""

import warnings
from typing import Any, Final

import numpy as np

from dynajit.core.errors import DynajitError
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node, NodeKind, storage_root
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ir.uniform import with_literals
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Kind

# Largest result, in elements, that is kept as a constant. Above it a kernel computes the value
# faster than memory delivers it, and generated sources would grow.
FOLDED_ELEMENTS: Final = 1024

_FOLDED_KINDS: Final = (Kind.POINTWISE, Kind.REDUCTION, Kind.MOVEMENT, Kind.EXTERN)


def fold_constants(graph: Graph) -> Graph:
    """The graph with small values that depend on no input computed.

    Requires: nothing; composites are left alone.
    Ensures: no call has only constants as arguments, unless its result is large, random, on a GPU
    or an error, or its row is opaque. A tensor made from numbers only (`full`, `arange`) stays a
    call unless zero-dim: a kernel makes it faster than memory delivers it. Uniform tensors are
    number arguments where that changes no type. Results that leave the graph stay calls: a constant
    is never given away.
    """
    leaving = {storage_root(output) for output in graph.outputs if isinstance(output, Node)}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        if node.op is not None and node.op.opaque:
            return keep(builder, node, args)
        args = with_literals(node.op, args, node)
        if storage_root(node) not in leaving and _is_foldable(node, args):
            value = _evaluate(node, args)
            if value is not None:
                return builder.constant(value)
        return keep(builder, node, args)

    return rebuild(graph, visit)


def _is_foldable(node: Node, args: tuple[Argument, ...]) -> bool:
    if node.op is None or node.op.kind not in _FOLDED_KINDS:
        return False
    if isinstance(node.type, TensorType) and node.type.device is not CPU:
        return False
    size = numel(node.type.shape)
    if not isinstance(size, int) or not 0 < size <= FOLDED_ELEMENTS:
        return False
    if any(isinstance(a, Node) and a.kind is not NodeKind.CONSTANT for a in args):
        return False
    return node.type.shape == () or any(isinstance(a, Node) for a in args)


def _evaluate(node: Node, args: tuple[Argument, ...]) -> np.ndarray | None:
    """The node's value, or None if computing it fails: then it fails at run time, as written."""
    assert node.op is not None and isinstance(node.type, TensorType)
    arrays = tuple(a.value if isinstance(a, Node) else a for a in args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            value = np.asarray(evaluate(node.op, arrays, dict(node.attributes)))
        except (ArithmeticError, ValueError, IndexError, DynajitError):
            return None
    if value.shape != node.type.shape or value.dtype != node.type.dtype.numpy:
        return None
    return np.array(value, order="C")
