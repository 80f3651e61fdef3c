"""Where a mapped function's arguments and results have their samples.

Contract: plain Python on nests and sizes, which capture reads as it does a program's own code.
"""

from collections.abc import Iterator
from typing import Any

from dynajit.core.errors import BoundsError, InvalidValueError
from dynajit.core.pytree import Structure, flatten
from dynajit.eager.tensor.tensor import Tensor


def inputs_of(
    in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], Structure, list[Any]]:
    """Leaves of the arguments, their nest, and the dim of each leaf."""
    if not isinstance(in_dims, (int, tuple, list)):
        raise InvalidValueError(
            f"vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise InvalidValueError("vmap: got no inputs.  Give the function at least one tensor.")
    wanted = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = [*_spread(wanted, args, "in_dims", "inputs"), *_spread(None, kwargs, "", "")]
    leaves, structure = flatten((args, kwargs))
    return leaves, structure, [_checked(d, x) for d, x in zip(dims, leaves, strict=True)]


def number_of_samples(leaves: list[Any], dims: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise InvalidValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise InvalidValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def places_of_results(out_dims: Any, result: Any, leaves: list[Any]) -> list[Any]:
    wanted = out_dims
    if isinstance(wanted, (tuple, list)) and len(wanted) == 1 and isinstance(result, Tensor):
        (wanted,) = wanted
    return list(_spread(wanted, result, "out_dims", "outputs"))


def with_place(value: object, dim: int) -> Tensor:
    """A result that gets its samples in such a dim; refused where it is no tensor, or has none.

    Raises:
        ValueError, IndexError: it is so.
    """
    if not isinstance(value, Tensor):
        raise InvalidValueError(
            f"vmap: the function must only return Tensors, got type {type(value)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    rank = value.ndim + 1
    if not -rank <= dim < rank:
        raise BoundsError(f"vmap: out_dim={dim} is out of range for an output of rank {rank}.")
    return value


def _spread(dims: Any, tree: Any, name: str, what: str) -> Iterator[Any]:
    """The dim of each leaf of a nest: one number stands for all that lies below."""
    if dims is None or isinstance(dims, int):
        yield from [dims] * len(flatten(tree)[0])
        return
    places, parts = _places(dims), _places(tree)
    if places is None or places != parts or isinstance(dims, dict) != isinstance(tree, dict):
        raise InvalidValueError(
            f"vmap: {name} is not compatible with the structure of the {what}: {name} has "
            f"{dims!r} where the {what} have {type(tree).__name__}."
        )
    for place in places:
        yield from _spread(dims[place], tree[place], name, what)


def _places(tree: Any) -> list[Any] | None:
    """Keys or positions of the parts of a nest; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree)
    return list(range(len(tree))) if isinstance(tree, (tuple, list)) else None


def _checked(dim: Any, leaf: Any) -> int | None:
    """The dim of a leaf, counted from the front.

    Raises:
        ValueError: it has none.
    """
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise InvalidValueError(
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise InvalidValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return int(dim) % leaf.ndim
