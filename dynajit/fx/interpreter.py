"""What runs symbolic traces, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

Interpreter = refused_class("fx.Interpreter", _WHY)
Transformer = refused_class("fx.Transformer", _WHY)

__all__ = [
    "Interpreter",
    "Transformer",
]
