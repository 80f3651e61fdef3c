"""Loops by functions of the program's own, by PyTorch's paths: `while_loop`, `scan`, `map`.

Contract: each is a plain loop over nests of tensors, and gives what that gives, gradients included.
Compiled functions capture them as they capture such loops (`docs/mechanisms/loops.md`).
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import ArgumentRuntimeError, InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions
from dynajit.utils import _pytree


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[Any, ...]:
    """What is carried when `cond_fn(*carried)` is false, after turns of `body_fn(*carried)`; never
    a tensor of `carried_inputs` itself.

    Args:
        cond_fn: gives a bool, or a tensor with one element.
        body_fn: gives a tuple or a list like what is carried.
        carried_inputs: a tuple or a list: tensors, numbers, or nests of them.

    Raises:
        ArgumentRuntimeError: `carried_inputs` is neither, or `body_fn` gives something else.
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise ArgumentRuntimeError(
            "while_loop: expected carried_inputs to be a tuple or a list, but got "
            f"{type(carried_inputs).__name__}."
        )
    carried = tuple(_pytree.tree_map(_own, tuple(carried_inputs)))
    while cond_fn(*carried):
        given = body_fn(*carried)
        if not isinstance(given, (tuple, list)) or len(given) != len(carried):
            raise ArgumentRuntimeError(
                f"while_loop: expected body_fn to return {len(carried)} values in a tuple, like "
                "carried_inputs."
            )
        carried = tuple(given)
    return carried


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x: the last carry, and all y, stacked.

    Args:
        combine_fn: takes what is carried and a nest of slices; gives what is carried, and a nest.
        init: what is carried first.
        xs: a nest of tensors of one size along `dim`.
        dim: the dimension of slices.
        reverse: from the last slice on; y stay in the places of their slices.

    Raises:
        InvalidValueError: there is no tensor in `xs`, no slice, or sizes differ.
    """
    leaves, spec = _pytree.tree_flatten(xs)
    count = _count("scan", leaves, dim)
    carry, found = init, []
    order = range(count - 1, -1, -1) if reverse else range(count)
    for place in order:
        carry, given = combine_fn(
            carry, spec.unflatten([leaf.select(dim, place) for leaf in leaves])
        )
        found.append(given)
    return carry, _stacked(found[::-1] if reverse else found)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice x of dim 0, stacked.

    Args:
        f: gives a nest of tensors.
        xs: a nest of tensors of one size in dim 0.

    Raises:
        InvalidValueError: as for `scan`.
    """
    leaves, spec = _pytree.tree_flatten(xs)
    count = _count("map", leaves, 0)
    found = [f(spec.unflatten([leaf[place] for leaf in leaves]), *args) for place in range(count)]
    return _stacked(found)


def _count(name: str, leaves: list[Any], dim: int) -> int:
    """How many slices there are."""
    if not leaves:
        raise InvalidValueError(f"{name}: expected at least one tensor in xs.")
    sizes = {leaf.shape[dim] for leaf in leaves}
    if len(sizes) > 1 or 0 in sizes:
        raise InvalidValueError(
            f"{name}: expected one size of at least 1 along dim {dim} in all of xs, but got "
            f"{sorted(sizes)}."
        )
    return int(leaves[0].shape[dim])


def _stacked(found: list[Any]) -> Any:
    """Nests of tensors as one nest of stacked tensors."""
    spec = _pytree.tree_flatten(found[0])[1]
    columns = zip(*(_pytree.tree_leaves(nest) for nest in found), strict=True)
    return spec.unflatten([functions.stack(list(column)) for column in columns])


__all__ = ["map", "scan", "while_loop"]
