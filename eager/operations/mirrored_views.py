"""Conjugate views and negated ones: tensors whose memory holds conjugates, negatives, of elements.

Contract: such a tensor holds a `MirroredArray`; `tensor.array` are its values, computed each time
they are asked for, and `tensor._memory` is what it shares with the tensor it was made of. Views of
it see the memory in the same way (`seen_by`), all other rows get its values (`resolved`), and a
write goes through `store`, which puts into memory what the values are seen as.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.mirrored_arrays import mirrored, parts_of, turned
from dynajit.core.errors import ArgumentRuntimeError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.operations.duals import share
from dynajit.eager.tape.node import Node
from dynajit.ops.table.op_table import TABLE, Op
from dynajit.ops.table.result_layouts import strides_of_result

MSG_AS_REAL = (
    "view_as_real doesn't work on unresolved conjugated tensors.  Use resolve_conj() first; the "
    "result is a copy, and shares no memory with the tensor."
)


class ResolvedBackward(Node):
    """The values of a conjugate view that is a leaf: the gradient passes unchanged."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        return [gradients[0] if wanted[0] else None]


def values_of(tensor: Any) -> Any:
    """A new array of a mirrored tensor's values, laid out as a clone."""
    memory, conjugate, negative = parts_of(tensor._held)
    found, shape = turned(memory, conjugate, negative), tuple(memory.shape)
    laid = [(shape, any_arrays.strides_of(memory))]
    strides = strides_of_result(TABLE.clone, laid, {}, shape)
    same = all(
        n == 1 or a == b
        for n, a, b in zip(shape, any_arrays.strides_of(found), strides, strict=True)
    )
    return found if same or not found.size else any_arrays.laid_out(found, strides)


def resolved(tensor: Any) -> Any:
    """A tensor of a mirrored one's values, with its history; any other operand itself."""
    if not isinstance(tensor, TensorBase) or not tensor._is_mirrored:
        return tensor
    array = values_of(tensor)
    if not (is_grad_enabled() and tensor.requires_grad):
        return share(tensor, _tensor.wrap(array))
    maker, index = tensor.grad_fn, tensor.output_index
    if maker is None:
        maker, index = ResolvedBackward([tensor], [0]), 0
    return share(tensor, _tensor.wrap_output(array, maker, index))


def seen_by(op: Op, source: Any, array: Any) -> Any:
    """What the result of a view row holds, given the view that the row takes of the memory.

    Raises:
        ArgumentRuntimeError: the parts of conjugates are not pairs in memory.
    """
    _, conjugate, negative = parts_of(source._held)
    if op.rule.mirrors:
        return mirrored(source._held, op is TABLE.conj_view, op is TABLE.neg_view)
    if conjugate and op is TABLE.view_as_real:
        raise ArgumentRuntimeError(MSG_AS_REAL)
    if op is TABLE.imag:
        return mirrored(array, False, negative != conjugate)
    return mirrored(array, conjugate and op is not TABLE.real, negative)


def store(tensor: Any, array: Any) -> None:
    """Let a tensor have these values, an array of its shape, wherever it is; counts nothing."""
    if not tensor._is_mirrored:
        any_arrays.copy_into(tensor.array, array)
        return
    memory, conjugate, negative = parts_of(tensor._held)
    if array.dtype != memory.dtype:
        array = array.astype(memory.dtype)
    any_arrays.copy_into(memory, turned(array, conjugate, negative))
