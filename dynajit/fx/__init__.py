"""Symbolic traces by PyTorch's path: `wrap` does nothing, tracing is refused."""

from typing import Any

from dynajit.fx import graph, graph_module, node, proxy
from dynajit.fx._symbolic_trace import Tracer, symbolic_trace
from dynajit.fx.graph import Graph
from dynajit.fx.graph_module import GraphModule
from dynajit.fx.interpreter import Interpreter, Transformer
from dynajit.fx.node import Node, map_arg
from dynajit.fx.proxy import Proxy


def wrap(fn_or_name: Any) -> Any:
    """The function (or its name) itself: nothing traces it."""
    return fn_or_name


__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "graph",
    "graph_module",
    "map_arg",
    "node",
    "proxy",
    "symbolic_trace",
    "wrap",
]
