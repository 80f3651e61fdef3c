"""Symbolic traces by PyTorch's path: `wrap` does nothing, tracing is refused."""

from typing import Any

from dynajit.core.refusals import refused_class, refused_function

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."


def wrap(fn_or_name: Any) -> Any:
    """The function (or its name) itself: nothing traces it."""
    return fn_or_name


Graph = refused_class("fx.Graph", _WHY)
GraphModule = refused_class("fx.GraphModule", _WHY)
Interpreter = refused_class("fx.Interpreter", _WHY)
Node = refused_class("fx.Node", _WHY)
Proxy = refused_class("fx.Proxy", _WHY)
Tracer = refused_class("fx.Tracer", _WHY)
symbolic_trace = refused_function("fx.symbolic_trace", _WHY)

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "symbolic_trace",
    "wrap",
]
