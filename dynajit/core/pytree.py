"""Nested containers as flat lists of leaves plus a structure.

Containers are exact `tuple`, `list`, `dict` and named tuples; everything else is a leaf.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.records import record


@record
class Structure:
    """The shape of a nest. `kind` is None for a leaf; `keys` are dict keys, in order."""

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple["Structure", ...] = ()


LEAF = Structure(None)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Leaves of `tree`, in order, and the structure that `unflatten` needs."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def unflatten(leaves: list[Any], structure: Structure) -> Any:
    """The nest that `flatten` took apart, with `leaves` in place.

    Raises:
        ValueError: the number of leaves does not fit.
    """
    remaining = iter(leaves)
    try:
        tree = _unflatten(remaining, structure)
    except StopIteration:
        raise ValueError(f"unflatten: {len(leaves)} leaves are too few") from None
    if next(remaining, LEAF) is not LEAF:
        raise ValueError(f"unflatten: {len(leaves)} leaves are too many")
    return tree


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nest with `function` applied to every leaf."""
    leaves, structure = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], structure)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    if kind in (tuple, list) or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return Structure(kind, (), tuple(_flatten(item, leaves) for item in tree))
    if kind is dict:
        children = tuple(_flatten(item, leaves) for item in tree.values())
        return Structure(kind, tuple(tree), children)
    leaves.append(tree)
    return LEAF


def _unflatten(leaves: Any, structure: Structure) -> Any:
    if structure.kind is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.keys, children, strict=True))
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*children)
    return structure.kind(children)
