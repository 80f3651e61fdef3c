"""Copies of inputs that the caller overwrites after the launch.

What is kept for backward must be what the inputs held before. `copy_inputs` puts a `clone` between
such inputs and everything that reads them.
"""

from collections.abc import Collection
from typing import Any

from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ops import TABLE


def copy_inputs(graph: Graph, positions: Collection[int]) -> Graph:
    """The graph, reading copies of the inputs at `positions`."""
    if not positions:
        return graph
    inputs = graph.inputs
    copied = {inputs[position] for position in positions}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        kept = keep(builder, node, args)
        return builder.call(TABLE.clone, [kept], {}) if node in copied else kept

    return rebuild(graph, visit)
