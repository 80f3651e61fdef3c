"""Symbolic tracing by PyTorch's inner path: refused; nothing is ever being traced."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

Tracer = refused_class("fx.Tracer", _WHY)
symbolic_trace = refused_function("fx.symbolic_trace", _WHY)


def is_fx_tracing() -> bool:
    """Whether a module is being traced: False."""
    return False


__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace"]
