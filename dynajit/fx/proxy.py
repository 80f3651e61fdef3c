"""Stand-ins for values of symbolic traces, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

Attribute = refused_class("fx.Attribute", _WHY)
ParameterProxy = refused_class("fx.ParameterProxy", _WHY)
Proxy = refused_class("fx.Proxy", _WHY)
TracerBase = refused_class("fx.TracerBase", _WHY)


class TraceError(ValueError):
    """PyTorch raises this where a trace cannot follow; here nothing does."""


__all__ = [
    "Attribute",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
]
