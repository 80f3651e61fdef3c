"""Graphs of symbolic traces, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

CodeGen = refused_class("fx.CodeGen", _WHY)
Graph = refused_class("fx.Graph", _WHY)

__all__ = [
    "CodeGen",
    "Graph",
]
