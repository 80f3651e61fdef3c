"""`as_strided` of eager tensors: views of memory at any strides, with gradients.

Contract: `strided_view(tensor, size, stride, offset)` shares the tensor's memory always; writes
through it reach the tensor's base, as those through other views do. Its gradient is that of the
elements: what it shows of the tensor gets it, what lies beside the tensor in memory has nobody to
give it to, and elements of the tensor that lie at one place have equal shares.
`writes.history.CopySlices` takes the same view of a gradient, laid out as the tensor is.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.mirrored_arrays import mirrored, parts_of
from dynajit.core.errors import AutogradError, UnsupportedError
from dynajit.core.types.value_types import numel
from dynajit.eager import _tensor
from dynajit.eager._tensor import is_grad_enabled
from dynajit.eager.modes.forward_levels import Level, acting, only
from dynajit.eager.modes.write_limits import is_of_one_sample
from dynajit.eager.operations import duals
from dynajit.eager.tape.node import Node, edges_of
from dynajit.ops.calls.arguments import constant
from dynajit.ops.functions.arrangement.arrangement import places_of, strided_extent
from dynajit.ops.table.op_table import TABLE

MSG_OTHER_LAYOUT: Final = (
    "the gradient of a write through as_strided() is not available: the layout of the tensor, "
    "with strides {strides}, cannot be rebuilt.  Write to a clone()."
)

MSG_OF_SAMPLES: Final = (
    "as_strided(storage_offset=...) within vmap: the function runs for one sample at a time, and "
    "an offset in the memory of all samples is none in that of one.  Leave the offset out and take "
    "the view of a slice of the sample, or use select(), narrow() and unfold()."
)


class StridedBackward(Node):
    """A view at given strides. Edge: the tensor.

    Args:
        own: sizes and strides of the tensor.
        shown: sizes, strides and offset of the view, counted from the tensor's first element.
    """

    __slots__ = ("own", "shown")

    def __init__(self, tensor: Any, shown: tuple[Any, Any, int]) -> None:
        super().__init__(*edges_of([tensor]))
        self.own = tuple(tensor.shape), tuple(tensor.stride())
        self.shown = shown

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        if not wanted[0]:
            return [None]
        g, (shape, _) = gradients[0], self.own
        own, shown = places_of(*self.own, 0), places_of(*self.shown)
        first = min([0, *shown[:1], self.shown[2]])
        count = int(max([0, *own, *shown])) - first + 1
        memory = TABLE.full(0, shape=(count,), dtype=g.dtype, device=g.device)
        flat = TABLE.reshape(g, shape=(numel(g.shape),))
        memory = TABLE.index_add(memory, constant(shown - first, g.device), flat, dim=0)
        found = TABLE.index_select(memory, constant(own - first, g.device), dim=0)
        shares = np.bincount(own - first, minlength=count)[own - first] if own.size else own
        if (shares > 1).any():
            found = TABLE.div(found, TABLE.cast(constant(shares, g.device), dtype=g.dtype))
        return [TABLE.reshape(found, shape=shape)]


def strided_view(tensor: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    """See the module.

    Raises:
        ShapeError: elements lie outside the memory.
        UnsupportedError: `vmap` calls a function for each sample, and an offset is given.
    """
    memory, *seen = parts_of(tensor._held)
    if storage_offset is not None and is_of_one_sample(tensor):
        raise UnsupportedError(MSG_OF_SAMPLES)
    own, memory = tensor.storage_offset(), any_arrays.flat_memory(memory)
    offset = own if storage_offset is None else storage_offset
    strided_extent(size, stride, offset, memory.size)
    size, stride = tuple(size), tuple(stride)
    array = mirrored(any_arrays.strided(memory[offset:], size, stride), *seen)
    if not is_grad_enabled() or (tensor._base is not None and tensor._replay is None):
        view = _tensor.wrap_view(array, tensor, False)
    else:
        view = _tensor.wrap_view(array, tensor, _steps(tensor, size, stride, offset))
        if tensor.requires_grad:
            _tensor.attach(view, StridedBackward(tensor, (size, stride, offset - own)), 0)
    for level in acting():
        _show_tangent(level, tensor, view, offset - own)
    return view


def _show_tangent(level: Level, tensor: Any, view: Any, offset: int) -> None:
    """Let a view at given strides show the tangent of the tensor.

    Args:
        offset: of the view, counted from the tensor's first element.

    Raises:
        UnsupportedError: the tangent lies in memory in another way than the tensor.
    """
    tangent = duals.tangent_of(level, tensor)
    if tangent is None:
        if level.known(tensor)[0]:
            level.note(view, None)
        return
    if any(
        size > 1 and step != wanted
        for size, step, wanted in zip(tensor.shape, tangent.stride(), tensor.stride(), strict=True)
    ):
        raise UnsupportedError(duals.MSG_OTHER_VIEW)
    with only(duals.below(level)):
        place = tangent.storage_offset() + offset
        duals.note(level, view, strided_view(tangent, view.shape, view.stride(), place))


def _steps(tensor: Any, size: Any, stride: Any, offset: int) -> tuple[Any, ...]:
    """What leads from the tensor's base to its view: once the base was written, all of the view
    has a history there, also what lies beside the tensor."""
    base, steps = tensor._base, ()
    if base is None or base.dtype is not tensor.dtype:
        base, steps = tensor, tensor._replay or ()
    shown = size, stride, offset - base.storage_offset()
    return (*steps, (again, {"strides": tuple(base.stride()), "shown": shown}))


def again(tensor: Any, strides: tuple[int, ...], shown: tuple[Any, Any, int]) -> Any:
    """The same view of the tensor, or of another one with its layout: a step of `_replay`.

    Raises:
        AutogradError: the tensor has other strides.
    """
    for size, step, wanted in zip(tensor.shape, tensor.stride(), strides, strict=True):
        if size > 1 and step != wanted:
            raise AutogradError(MSG_OTHER_LAYOUT.format(strides=strides))
    size, stride, offset = shown
    return strided_view(tensor, size, stride, tensor.storage_offset() + offset)
