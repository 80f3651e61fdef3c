"""Nodes of symbolic traces, by PyTorch's path: the class is refused, types are names to annotate by."""

from collections.abc import Callable
from typing import Any

from dynajit.core.refusals import refused_class

_WHY = "modules are not traced here.  dynajit.compile captures them; dynajit.explain shows how."

Argument = Any
Target = Callable[..., Any] | str
Node = refused_class("fx.Node", _WHY)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of every leaf of a nest of tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of every node in a nest; everything else as it is."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


__all__ = ["Argument", "Node", "Target", "map_aggregate", "map_arg"]
