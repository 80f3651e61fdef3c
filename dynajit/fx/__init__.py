"""Symbolic traces of modules by PyTorch's path: graphs that programs read and change.

Contract: as `torch.fx`, for `symbolic_trace`, `Tracer`, `Graph`, `GraphModule`, `Interpreter` and
`Transformer`. `dynajit.compile` does not need it: it captures modules and functions by itself,
those made here, too.
"""

from dynajit.core.process import late
from dynajit.fx import graph, graph_module, interpreter, node, proxy
from dynajit.fx._symbolic_trace import Tracer, symbolic_trace, wrap
from dynajit.fx.graph import Graph
from dynajit.fx.graph_module import GraphModule
from dynajit.fx.interpreter import Interpreter, Transformer
from dynajit.fx.node import Node, map_arg
from dynajit.fx.proxy import Proxy

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
    "interpreter",
    "map_arg",
    "node",
    "proxy",
    "symbolic_trace",
    "wrap",
]

late.show(__name__)
