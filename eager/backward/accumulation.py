"""What gradients meet where they arrive: hooks, tensors that keep them, and `.grad` of leaves.

Contract: hooks run in the order of their registration, and each may put another gradient in the
place of its own. A gradient is taken over as `.grad` if nobody else can write to its array; else it
is copied.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import ArgumentError, AutogradError, ShapeError
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase
from dynajit.eager.tape.handles import HookOfSeveral
from dynajit.eager.tape.node import require_arrays
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import dense_strides, order_of


def accumulate_into(leaf: Any, gradient: Any, create_graph: bool) -> None:
    """`leaf.grad += gradient`, in place where that cannot be seen by a graph."""
    before = leaf.grad
    is_dense = gradient._has_array and (before is None or before._has_array)
    if leaf._has_array:
        require_arrays((gradient,))
    if create_graph or not is_dense or _tensor.has_levels():
        leaf.grad = gradient if before is None else TABLE.add(before, gradient)
        return
    if before is None:
        leaf.grad = _own(gradient, leaf.array if leaf.layout is strided else gradient.array)
        return
    if before.requires_grad or before._is_mirrored or not any_arrays.is_writable(before.array):
        leaf.grad = _tensor.wrap(any_arrays.added(before.array, gradient.array))
        return
    any_arrays.add_into(before.array, gradient.array)
    _tensor.bump_version(before)


def accumulate_between(leaf: Any, gradient: Any, extras: Any, create_graph: bool) -> list[Any]:
    """Accumulate what the hooks before it leave; what those behind it see: the first gradient is
    `.grad` by then."""
    arrived = run_prehooks(extras, [gradient])
    is_first = leaf.requires_grad and leaf.grad is None
    if leaf.requires_grad and arrived[0] is not None:
        accumulate_into(leaf, arrived[0], create_graph)
    return [leaf.grad] if is_first else arrived


def _references_in_three_calls(value: Any) -> int:
    return _references_in_two_calls(value)


def _references_in_two_calls(value: Any) -> int:
    return sys.getrefcount(value)


def _known_references() -> tuple[int, int]:
    """How many references an object has that one local holds: passed on twice; not passed on.

    Measured: from 3.14 on a call may borrow what a local of its caller holds.
    """
    value = object()
    return _references_in_three_calls(value), sys.getrefcount(value)


# References to a gradient that only `finish_leaf`, `accumulate_into` and `_own` know, and to an
# object that only `_own` knows. More means that somebody else holds it.
_KNOWN_REFERENCES, _LOCAL_REFERENCES = _known_references()


def _owns_memory(array: Any) -> bool:
    """True unless the memory belongs to another array, or to somebody unknown.

    Arrays that compiled programs make lie in blocks, which say that they serve one array.
    """
    return array.base is None or getattr(type(array.base), "serves_one_array", False)


def _strides_like(leaf: Any) -> tuple[int, ...] | None:
    """Strides of the gradient of an array that does not lie row by row: its own, where it leaves no
    gaps; None for row by row."""
    shape, strides = tuple(leaf.shape), any_arrays.strides_of(leaf)
    dense = dense_strides(shape, order_of(shape, [(shape, strides)]))
    return dense if _are_same(shape, dense, strides) else None


def _are_same(shape: Any, strides: Any, others: Any) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, others, strict=True))


def _own(gradient: Any, leaf: Any) -> Any:
    """A gradient whose array nobody else can write to: itself if unshared, else a copy; laid out as
    the array of the leaf, or row by row where that has gaps."""
    strides = None if leaf.flags.c_contiguous else _strides_like(leaf)
    shared = sys.getrefcount(gradient) > _KNOWN_REFERENCES
    array = gradient._memory
    if gradient._is_mirrored:
        shared, array = True, gradient.array
    if (
        shared
        or sys.getrefcount(array) > _LOCAL_REFERENCES + 1  # the tensor's field
        or not _owns_memory(array)
        or strides is not None
        or not array.flags.c_contiguous
        or not any_arrays.is_writable(array)
    ):
        if strides is None:
            return _tensor.wrap(any_arrays.row_major(array))
        return _tensor.wrap(any_arrays.laid_out(array, strides))
    return gradient


def call_tensor_hooks(hooks: Iterable[Any], gradient: Any) -> Any:
    """The gradient that hooks of one tensor leave.

    Raises:
        ArgumentError, ShapeError: a hook gave no tensor, or one of another size.
    """
    for hook in list(hooks):
        replaced = hook(gradient)
        if replaced is None:
            continue
        if not isinstance(replaced, TensorBase):
            raise ArgumentError(
                f"a tensor hook returned {type(replaced).__name__}.  Expected a Tensor or None."
            )
        if tuple(replaced.shape) != tuple(gradient.shape):
            raise ShapeError(
                f"a tensor hook has changed the size of the gradient from {list(gradient.shape)} "
                f"to {list(replaced.shape)}.  Expected the same shape."
            )
        gradient = replaced
    return gradient


def run_tensor_hooks(extras: Any, gradients: list[Any]) -> None:
    """Put what hooks of tensors leave in the place of the gradients of a node's outputs."""
    for index, hooks in extras.tensor_hooks.items():
        if gradients[index] is not None:
            gradients[index] = call_tensor_hooks(hooks.values(), gradients[index])
            continue
        for hook in list(hooks.values()):
            if isinstance(hook, HookOfSeveral):
                hook(None)


def accumulate_retained(extras: Any, gradients: list[Any], create_graph: bool) -> None:
    """Let results that keep their gradients (`retain_grad`) have them."""
    for index, reference in extras.retained.items():
        tensor = reference()
        if tensor is not None and gradients[index] is not None:
            accumulate_into(tensor, gradients[index], create_graph)


def run_prehooks(extras: Any, gradients: list[Any]) -> list[Any]:
    """The gradients with which a node runs."""
    for hook in list(extras.prehooks.values()):
        replaced = hook(tuple(gradients))
        if replaced is not None:
            gradients = list(_as_tuple(replaced, len(gradients), "prehook"))
    return gradients


def run_node_hooks(extras: Any, results: Sequence[Any], gradients: list[Any]) -> Sequence[Any]:
    """The gradients that a node sends on."""
    for hook in list(extras.hooks.values()):
        replaced = hook(tuple(results), tuple(gradients))
        if replaced is not None:
            results = _as_tuple(replaced, len(results), "hook")
    return results


def _as_tuple(value: Any, count: int, what: str) -> tuple[Any, ...]:
    found = value if isinstance(value, tuple) else (value,)
    if len(found) != count:
        raise AutogradError(
            f"a node's {what} returned {len(found)} gradients.  Expected {count}, or None."
        )
    return found
