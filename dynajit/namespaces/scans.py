"""Scans by a function of the program's own, by PyTorch's path.

Contract: `combine_fn` joins two nests of tensors element by element along `dim`, and is
associative. Pairs are joined as a tree, in about log2(n) rounds of whole tensors, so that graphs
stay small; gradients are those of the operations.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.ops import functions
from dynajit.utils import _pytree


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """All partial results of joining the slices along a dimension, from the first one on.

    Args:
        combine_fn: `combine_fn(left, right)` -> a nest like its arguments, each like `xs`.
        xs: a nest of tensors of the same size along `dim`.
        dim: the dimension.
        reverse: from the last slice on.
        combine_mode: "pointwise" or "generic": how PyTorch makes code of it; it changes nothing.

    Raises:
        InvalidValueError: another mode, no tensor, or sizes that differ.
    """
    if combine_mode not in ("pointwise", "generic"):
        raise InvalidValueError(
            f"associative_scan: Combine_mode must either 'pointwise' or 'generic', but got "
            f"{combine_mode}"
        )
    leaves, spec = _pytree.tree_flatten(xs)
    if not leaves:
        raise InvalidValueError("associative_scan: expected at least one tensor in xs.")
    place = dim if dim >= 0 else dim + leaves[0].dim()
    if any(leaf.shape[place] != leaves[0].shape[place] for leaf in leaves):
        raise InvalidValueError(f"associative_scan: expected one size along {dim} in all of xs.")

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        found = combine_fn(spec.unflatten(left), spec.unflatten(right))
        return _pytree.tree_leaves(found)

    given = [leaf.flip(place) for leaf in leaves] if reverse else leaves
    scanned = _scan(combine, given, place)
    return spec.unflatten([leaf.flip(place) for leaf in scanned] if reverse else scanned)


def _scan(combine: Callable[[Any, Any], Any], leaves: list[Any], dim: int) -> list[Any]:
    """Neighbours are joined, the pairs scanned, and the places between them joined once more."""
    size = leaves[0].shape[dim]
    if size < 2:
        return leaves
    pairs = combine(_every_other(leaves, dim, 0, size - 1), _every_other(leaves, dim, 1, size))
    odd = _scan(combine, pairs, dim)
    later = _every_other(leaves, dim, 2, size)
    first = [leaf.narrow(dim, 0, 1) for leaf in leaves]
    if later[0].shape[dim] == 0:
        return _interleaved(first, odd, dim)
    before = [part.narrow(dim, 0, later[0].shape[dim]) for part in odd]
    even = combine(before, later)
    whole = [functions.cat([a, b], dim) for a, b in zip(first, even, strict=True)]
    return _interleaved(whole, odd, dim)


def _every_other(leaves: list[Any], dim: int, start: int, stop: int) -> list[Any]:
    key = (*[slice(None)] * dim, slice(start, stop, 2))
    return [leaf[key] for leaf in leaves]


def _interleaved(even: list[Any], odd: list[Any], dim: int) -> list[Any]:
    """First, first, second, second, ...; `even` may have one more."""
    found = []
    for a, b in zip(even, odd, strict=True):
        count = b.shape[dim]
        pairs = functions.stack([a.narrow(dim, 0, count), b], dim + 1).flatten(dim, dim + 1)
        rest = a.narrow(dim, count, a.shape[dim] - count)
        found.append(functions.cat([pairs, rest], dim) if rest.shape[dim] else pairs)
    return found


__all__ = ["associative_scan"]
