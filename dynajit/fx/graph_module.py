"""Modules made of symbolic traces, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

GraphModule = refused_class("fx.GraphModule", _WHY)

__all__ = [
    "GraphModule",
]
