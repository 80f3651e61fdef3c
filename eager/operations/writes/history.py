"""What a write does to the tape.

Contract: a tensor that holds a written value has the history of it; of a view its base has
(`CopySlices`), and every view of that base learns its new history when it is next asked for.
"""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.mirrored_arrays import parts_of
from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor
from dynajit.eager._tensor import has_levels, is_grad_enabled
from dynajit.eager.operations import duals
from dynajit.eager.operations.strided_views import again
from dynajit.eager.tape.node import Node, OverwriteBackward, edges_of, zeros_of
from dynajit.ops.table.op_table import TABLE

RESHAPED: Final = "_was_reshaped"
"""Stands in the dict of tensors that are no views and that were reshaped in place: True if they may
show other elements since, False if the same in another shape."""

MSG_RESHAPED: Final = (
    "the base of a view was reshaped in place (transpose_, squeeze_, resize_, ...), so the view's "
    "gradient cannot be told from it.  Use the out-of-place form, or write to a clone()."
)


class CopyBackward(Node):
    """A tensor that holds a copy of another: the gradient passes unchanged.

    A second edge leads to what the tensor held before, whose gradient is zero.
    """

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = gradients[0]
        results = [g if wanted[0] else None]
        if len(wanted) > 1:
            results.append(zeros_of(g.shape, g.dtype, g.device) if wanted[1] else None)
        return results


class CopySlices(Node):
    """A base of which the part `steps` was overwritten. Edges: the base before, the new part.

    Args:
        steps: (row, attributes) pairs from the base to the part.
        strides: of the base's array, in bytes; a gradient in this layout has `steps` as views.
    """

    __slots__ = ("steps", "strides")

    def __init__(
        self,
        edges: list[Any],
        indices: list[int],
        steps: tuple[Any, ...],
        strides: tuple[int, ...],
    ) -> None:
        super().__init__(edges, indices)
        self.steps = steps
        self.strides = strides

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = gradients[0]
        base = part = None
        if any(op is again for op, _ in self.steps):
            g = _laid_out(g, self.strides)
        if wanted[1]:
            part = TABLE.clone(self.part_of(g))
        if wanted[0]:
            base = (
                _laid_out(g, self.strides)
                if is_grad_enabled() or has_levels()
                else _same_layout(g, self.strides)
            )
            hole = self.part_of(base)
            if not _tensor.shares_memory(hole._memory, base._memory):
                raise AutogradError(
                    "double backward through an in-place write to this view is not available: "
                    "the layout of its base cannot be rebuilt.  Write to a clone()."
                )
            hole.zero_()
        return [base, part]

    def part_of(self, tensor: Any) -> Any:
        """The overwritten part of a tensor that looks like the base."""
        for op, attributes in self.steps:
            tensor = op(tensor, **attributes)
        return tensor


def _laid_out(tensor: Any, strides: tuple[int, ...]) -> Any:
    """`_same_layout` through which gradients flow."""
    order = sorted(range(len(strides)), key=lambda d: -abs(strides[d]))
    return TABLE.laid_out(tensor, order=tuple(order))


def _same_layout(tensor: Any, strides: tuple[int, ...]) -> Any:
    """A copy whose dims lie in memory in the order that `strides` says."""
    order = sorted(range(len(strides)), key=lambda d: -abs(strides[d]))
    source = tensor.array
    copied = any_arrays.row_major(source.transpose(order))
    inverse = [order.index(d) for d in range(len(order))]
    return _tensor.wrap(copied.transpose(inverse))


def steps_to(view: Any) -> Any:
    """What leads from the base of a view, as it is now, to the view. Some views were made before
    the base was reshaped in place: of such a base, all are told by where they lie in memory.

    Raises:
        AutogradError: the base may show other elements, or the view is not of its elements as
            they lie in memory.
    """
    base, shows_others = view._base, view._base.__dict__.get(RESHAPED)
    if shows_others is None:
        return view._replay
    (_, *base_seen), (_, *seen) = parts_of(base._held), parts_of(view._held)
    if shows_others or view.dtype is not base.dtype or any((*base_seen, *seen)):
        raise AutogradError(MSG_RESHAPED)
    shown = tuple(view.shape), tuple(view.stride()), view.storage_offset() - base.storage_offset()
    return ((again, {"strides": tuple(base.stride()), "shown": shown}),)


def history_of_write(tensor: Any, result: Any) -> Node:
    """The node of a tensor, no view, that now holds a result."""
    edges, indices = edges_of([result if result.requires_grad else tensor])
    return (
        CopyBackward(edges, indices) if result.requires_grad else OverwriteBackward(edges, indices)
    )


def rebase_keeping_hooks(tensor: Any, node: Any, index: int = 0) -> None:
    """Let `node` be what made the tensor; gradients that it retains are retained there."""
    before = tensor.grad_fn
    if tensor.retains_grad and before is not None and before.extras is not None:
        reference = before.extras.retained.pop(tensor.output_index, None)
        if reference is not None:
            node.more().retained[index] = reference
    _tensor.rebase(tensor, node, index)


def copy_with_history(tensor: Any) -> Any:
    copied = any_arrays.row_major(tensor.array)
    if not tensor.requires_grad:
        return duals.share(tensor, _tensor.wrap(copied), copied=True)
    source = tensor
    if tensor._replay and tensor._replay[-1][0] is again and tensor._base.requires_grad:
        source = tensor._base  # of which the view may show more than of what it was taken of
        for op, attributes in steps_to(tensor):
            source = op(source, **attributes)
    made = _tensor.wrap_output(copied, source.grad_fn, source.output_index)
    return duals.share(tensor, made, copied=True)
