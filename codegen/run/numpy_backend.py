"""The fallback without a compiler: the graph is interpreted row by row with NumPy.

Contract: the same interface and the same results as a native program, except for speed and
rounding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.process.recording import Kind, recorded
from dynajit.core.types.value_types import ScalarType
from dynajit.ir import interpret
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind


class NumpyProgram:
    """A graph as a callable. Immutable; has the attributes of a native program.

    Args:
        graph: any graph.
        name: for reports.
        reason: why there is no native code, for reports; empty if none was asked for.
    """

    def __init__(self, graph: Graph, name: str, reason: str = "") -> None:
        self.graph = graph
        self._walk = interpret.Walk.of_rows(graph)
        self.name = name
        self.kernels: tuple[Any, ...] = ()
        self.source = str(graph)
        self.stages: dict[str, float] = {}
        self.from_cache = True
        self.may_fail = True
        self.explain = "NumPy backend: rows run one after the other, nothing is fused."
        if reason:
            self.explain += f"\n  no native code: {reason}"

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        operands = [
            value if isinstance(node.type, ScalarType) else np.asarray(value)
            for node, value in zip(self.graph.inputs, arguments, strict=True)
        ]
        with recorded(Kind.PROGRAM, self):
            results = self._run(operands)
        given = {id(operand) for operand in operands}
        return tuple(
            _own(result, given) if _is_computed(output) else result
            for output, result in zip(self.graph.outputs, results, strict=True)
        )

    def _run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        return interpret.run_again(self._walk, operands)

    def __repr__(self) -> str:
        return f"<NumpyProgram {self.name}>"


def _is_computed(output: Any) -> bool:
    return isinstance(output, Node) and output.kind is NodeKind.CALL


def _own(result: Any, given: set[int]) -> Any:
    """A contiguous array that shares no memory with an input: views are copied."""
    array = np.asarray(result)
    is_view = isinstance(array.base, np.ndarray)  # what programs give may lie in a block
    if not is_view and id(array) not in given and array.flags.c_contiguous:
        return array
    return np.array(array, order="C")
