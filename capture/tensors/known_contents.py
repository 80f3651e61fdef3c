"""Tensors whose elements are known while capturing: computed from constants of the graph alone.

`torch.tensor(2)` of the captured code, and what follows from it, is the same in every call: Python
may ask for its contents. What depends on an input, or on random numbers, is never known.
"""

from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.value_types import TensorType
from dynajit.eager import from_numpy
from dynajit.ir.nests import NEST
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.table import dispatch

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder

#: Operations, and elements of each result, that are computed for an answer.
MOST_NODES: Final = 64
MOST_ELEMENTS: Final = 10_000


def known_tensor(recorder: "Recorder", value: TensorValue) -> Any:
    """An eager tensor with the elements of `value`, or None: they are not known."""
    if recorder.existing(value) is not None:
        return None
    nodes = _made_of(recorder.graph_value(value, is_detached=True).node)
    if nodes is None:
        return None
    known: dict[Node, Any] = {}
    with dispatch.suspended():
        for node in nodes:
            if node.kind is NodeKind.CONSTANT:
                known[node] = from_numpy(node.value)
            else:
                assert node.op is not None
                args = [known[a] if isinstance(a, Node) else a for a in node.args]
                known[node] = node.op(*args, **node.attributes)
    return known[nodes[-1]]


def _made_of(end: Node) -> list[Node] | None:
    """The nodes that a node is computed from, itself last; None where one is no constant."""
    found: dict[Node, None] = {}
    stack = [(end, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            found[node] = None
            continue
        if node in found:
            continue
        is_plain = isinstance(node.type, TensorType) and all(
            isinstance(size, int) for size in node.type.shape
        )
        if node.kind is NodeKind.PLACEHOLDER or not is_plain or len(stack) > MOST_NODES:
            return None
        if node.op is NEST:  # only generated code runs it
            return None
        assert isinstance(node.type, TensorType)
        if int(node.type.numel) > MOST_ELEMENTS or len(found) > MOST_NODES:
            return None
        stack.append((node, True))
        stack += [(a, False) for a in node.args if isinstance(a, Node)]
    return list(found)
