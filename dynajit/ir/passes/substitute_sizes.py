"""A graph for one set of sizes: numbers in place of its symbols.

Contract: `with_sizes(graph, numbers)` computes what the graph computes where its symbols have these
values. Inputs stay the same in number and order; a number that is an input stays one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dynajit.core.types.value_types import TensorType
from dynajit.ir import sizes
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node
from dynajit.ir.rebuild import rebuild


def with_sizes(graph: Graph, numbers: Mapping[str, int]) -> Graph:
    """The graph whose symbols are known.

    Args:
        graph: any graph.
        numbers: the value of each symbol.
    """

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Node:
        type: Any = node.type
        if isinstance(type, TensorType):
            shape, strides = (sizes.known(given, numbers) for given in (type.shape, type.strides))
            type = replace(type, shape=shape, strides=strides)
        attributes = sizes.attributes(node.attributes, numbers)
        return builder.adopt(replace(node, type=type, args=args, attributes=attributes)).node

    return rebuild(graph, visit)
