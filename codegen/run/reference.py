"""A graph in float64 beside what was computed: the first row whose values are far from it.

Contract: every floating value is followed in float64, from the inputs on, without the roundings to
smaller dtypes in between. What floating values decide (comparisons, indices) and random numbers are
taken as they were computed, and so is a row that float64 cannot follow. A row diverges where a
value is not finite and float64's is, or where the largest difference is more than the square root
of its dtype's rounding, relative to the largest magnitude: half of the digits are lost. That is a
property of the program and its dtypes, not of kernels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret, sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Kind

HALF_OF_THE_BITS: Final = {"float16": 2.0**-5, "bfloat16": 2.0**-4, "float32": 2.0**-12}
"""Largest difference, relative to the largest magnitude, by dtype; float64 is not judged."""

MSG_DIVERGES: Final = (
    "verify: {node} of {graph} ({dtype}) is the first value that diverges from float64: at {index} "
    "it is {got!r}, float64 gives {want!r}.{place}  The kernels are right: half of the digits or "
    "more are lost in the operations up to here.  Compute them in float64, or arrange them in "
    "another way (log_softmax, expm1, a mean that is subtracted first)."
)


@record(eq=False)
class Divergence:
    """A value that is far from float64's.

    Args:
        node: the value.
        index: of an element that is.
        got, want: the element as it was computed, and in float64.
    """

    node: Node
    index: tuple[int, ...]
    got: float
    want: float

    def text(self, graph: str) -> str:
        """For people."""
        location = self.node.location
        place = "" if location is None else f"  It comes from {location}: {location.text}"
        assert isinstance(self.node.type, TensorType)
        return MSG_DIVERGES.format(
            node=self.node.name,
            graph=graph,
            dtype=self.node.type.dtype.name,
            index=list(self.index),
            got=self.got,
            want=self.want,
            place=place,
        )


class Reference:
    """The values of a graph in float64, as far as they are still read. Mutable.

    Args:
        graph: what is computed.
        inputs: its arguments.
        numbers: values of its symbols.

    `first` is the first divergence, or None.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Any], numbers: Mapping[str, int]) -> None:
        self.first: Divergence | None = None
        self._numbers = numbers
        self._values = {
            node: _widened(value) for node, value in zip(graph.inputs, inputs, strict=True)
        }

    def follow(self, node: Node, computed: Any) -> None:
        """Compute a row in float64, and compare.

        Args:
            computed: its value in the program.
        """
        value = self._computed(node, computed) if _is_followed(node) else _widened(computed)
        self._values[node] = value
        if self.first is None and _is_followed(node):
            self.first = _divergence(node, np.asarray(computed), value)

    def forget(self, node: Any) -> None:
        """A value that nothing reads any more."""
        self._values.pop(node, None)

    def _computed(self, node: Node, computed: Any) -> Any:
        args = [self._argument(argument) for argument in node.args]
        attributes = _in_float64(sizes.attributes(node.attributes, self._numbers))
        assert node.op is not None
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(_evaluated(node, args, attributes))
        except Exception:  # float64 has no form of it: what was computed counts
            return _widened(computed)
        return _widened(found) if found.shape == np.shape(computed) else _widened(computed)

    def _argument(self, argument: Any) -> Any:
        if not isinstance(argument, Node):
            return argument
        if argument.kind is NodeKind.CONSTANT and argument not in self._values:
            return _widened(argument.value)
        return self._values[argument]


def _is_followed(node: Node) -> bool:
    is_floating = isinstance(node.type, TensorType) and node.type.dtype.is_floating_point
    return is_floating and node.op is not None and node.op.kind is not Kind.RANDOM


def _widened(value: Any) -> Any:
    """A floating array in float64; anything else as it is."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "biuc":
        return value.astype(np.float64)
    return value


def _in_float64(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with float64 in the place of smaller floating dtypes."""
    return {
        name: dtypes.float64 if isinstance(value, DType) and value.is_floating_point else value
        for name, value in attributes.items()
    }


def _evaluated(node: Node, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The result of a row, or of a composite's rows, in the dtype of its arguments."""
    assert node.op is not None
    if node.op.kind is not Kind.COMPOSITE:
        return evaluate(node.op, args, attributes)
    places = [
        Node(NodeKind.PLACEHOLDER, f"x{i}", TensorType(tuple(a.shape), dtypes.from_numpy(a.dtype)))
        if isinstance(a, np.ndarray)
        else a
        for i, a in enumerate(args)
    ]
    given = [place for place in places if isinstance(place, Node)]
    types = [place.type if isinstance(place, Node) else place for place in places]
    type = node.op.infer(*types, **attributes)
    inner = Node(NodeKind.CALL, node.name, type, node.op, tuple(places), attributes)
    values = [a for a in args if isinstance(a, np.ndarray)]
    return interpret.run(Graph(node.name, (*given, inner), (inner,)), values)[0]


def _divergence(node: Node, computed: Any, reference: Any) -> Divergence | None:
    assert isinstance(node.type, TensorType)
    limit = HALF_OF_THE_BITS.get(node.type.dtype.name)
    if limit is None or not computed.size:
        return None
    got, want = computed.astype(np.float64), np.asarray(reference)
    with np.errstate(all="ignore"):
        is_sure = np.isfinite(want)
        scale = np.max(np.abs(want), where=is_sure, initial=0.0)
        difference = np.where(is_sure, np.abs(got - want), 0.0)
        far = is_sure & ~(difference <= limit * scale)
    if not far.any():
        return None
    worst = np.where(far, np.where(np.isfinite(difference), difference, np.inf), -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(worst)), worst.shape))
    return Divergence(node, index, float(got[index]), float(want[index]))
