"""Tangents of eager tensors: who has one, what views show of it, and what writes do to it.

Contract: the tangent of a view is the same view of the tangent of what it shows, in the same
memory, so that a write to a tensor is a write to its tangent, too, and views of both agree. The
tangent of a view that becomes dual by a write is a part of its base's from then on, which is zeros
elsewhere. Operations are followed by `eager.backward.forward`. All of this asks nothing where no
level is open (`eager.modes.forward_levels`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.errors import AutogradError, UnsupportedError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_inference_mode_enabled
from dynajit.eager.modes.forward_levels import Level, act, acting, only, opened
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import dense_strides, order_of
from dynajit.ops.table.tangents import is_continuous, zeros_like

MSG_OTHER_VIEW: Final = (
    "forward mode: the tangent of a view is not the same view of the tangent, since they lie "
    "differently in memory.  Take the view of a clone()."
)
MSG_UNKNOWN_VIEW: Final = (
    "forward mode: a view whose steps nobody recorded (made under no_grad, or by other means) gets "
    "a tangent that its base cannot have.  Make the view with gradients on, or write to a clone()."
)
MSG_SAME_LEVEL: Final = (
    "Setting a forward grad that itself has a forward gradient at the same level {level} is not "
    "supported."
)
MSG_MADE_TWICE: Final = (
    "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
    "{level} is not supported."
)
MSG_SIZE: Final = (
    "Trying to set a forward gradient that has a different size than that of the original Tensor, "
    "this is not supported. Tensor is of size {size} while the given forward gradient is of size "
    "{given}."
)


def below(level: Level) -> tuple[Level, ...]:
    """The levels that act and are outside of a level: those that its tangents may have tangents
    at."""
    return tuple(other for other in opened()[: level.number] if other in acting())


# -- reading ---------------------------------------------------------------------------------------


def tangent_of(level: Level, tensor: Any) -> Any:
    """The tangent of a tensor at a level; None where it has none."""
    is_known, tangent = level.known(tensor)
    if is_known:
        return tangent
    base = tensor._base
    if base is None:
        return None
    tangent, steps = _source(level, tensor, base)
    if tangent is None:
        return None
    with only(below(level)):
        shown = _shown(tangent, base, tensor, steps)
    level.note(tensor, shown)
    return shown


def _source(level: Level, tensor: Any, base: Any) -> tuple[Any, Any]:
    """The tangent that a view shows a part of, and the steps that lead to that part."""
    steps = tensor._replay
    for dual in level.duals():
        taken = dual._replay
        is_of_it = dual._base is base and taken and steps and len(taken) < len(steps)
        if is_of_it and all(a is b for a, b in zip(taken, steps, strict=False)):
            return level.known(dual)[1], steps[len(taken) :]
    return level.known(base)[1], steps


def _shown(tangent: Any, base: Any, tensor: Any, steps: Any) -> Any:
    """What a view of a base shows of the base's tangent, in its memory."""
    if steps is None:
        return _windowed(tangent, base, tensor)
    found = tangent
    for op, attributes in steps:
        found = op(found, **attributes)
    if not shares_memory(found, tangent):
        raise UnsupportedError(MSG_OTHER_VIEW)
    return found


def shares_memory(tensor: Any, other: Any) -> bool:
    """Whether two tensors lie in one memory: windows hide their owner, so their bounds decide."""
    array, given = tensor._memory, other._memory
    if _tensor.shares_memory(array, given) or not array.size:
        return True
    are_arrays = isinstance(array, np.ndarray) and isinstance(given, np.ndarray)
    return are_arrays and np.may_share_memory(array, given)


def _windowed(tangent: Any, base: Any, tensor: Any) -> Any:
    """The same by the places of both in memory."""
    memory, own, seen = tangent._memory, base._memory, tensor._memory
    is_alike = own.dtype == seen.dtype and _are_strides(own, any_arrays.strides_of(memory))
    has_history = tangent.requires_grad or any(
        tangent_of(level, tangent) is not None for level in acting()
    )
    if not is_alike or has_history or tensor._is_mirrored or base._is_mirrored:
        raise UnsupportedError(MSG_UNKNOWN_VIEW)
    flat = any_arrays.flat_memory(memory)
    bytes_before = any_arrays.address(seen) - any_arrays.address(own)
    bytes_before += any_arrays.address(memory) - any_arrays.address(flat)
    start = bytes_before // own.dtype.itemsize
    array = any_arrays.strided(flat[start:], tuple(seen.shape), any_arrays.strides_of(seen))
    return _tensor.wrap_view(array, tangent, False)


def is_dual(tensors: Iterable[Any]) -> bool:
    """Whether one of the operands has a tangent that operations look at."""
    levels = acting()
    return bool(levels) and any(
        isinstance(x, TensorBase) and tangent_of(level, x) is not None
        for x in tensors
        for level in levels
    )


def is_transformed(tensor: Any) -> bool:
    """Whether a tensor has a tangent that a transform of a function follows."""
    levels = (level for level in acting() if level.is_of_transform)
    return any(tangent_of(level, tensor) is not None for level in levels)


# -- writing ---------------------------------------------------------------------------------------


def attach(level: Level, tensor: Any, tangent: Any, sources: Sequence[Any] = ()) -> None:
    """Let a result of an operation have a tangent, of its shape and dtype.

    Args:
        sources: tangents that it was computed from; a result that is no view shares no memory with
            them.
    """
    if any(source is tangent or shares_memory(source, tangent) for source in sources):
        tangent = TABLE.clone(tangent)
    note(level, tensor, laid_out_like(tangent, tensor))


def note(level: Level, tensor: Any, tangent: Any) -> None:
    """Let the level know the tangent, and the node that keeps the tensor as its result."""
    level.note(tensor, tangent)
    node = tensor.grad_fn
    for kept in () if node is None else node.kept_results(tensor.output_index):
        kept.duals = (*kept.duals, (level, tangent))


def laid_out_like(tangent: Any, tensor: Any) -> Any:
    """A tangent in a layout in which every view of the tensor exists, too: that of the tensor, or
    without gaps in the same order."""
    memory, own = tangent._memory, tensor._memory
    if memory.ndim < 2 and memory.flags.c_contiguous:
        return tangent
    strides = any_arrays.strides_of(own)
    if _are_strides(memory, strides) and 0 not in strides:
        return tangent
    shape = tuple(own.shape)
    order = order_of(shape, [(shape, tuple(map(abs, strides)))])
    wanted = dense_strides(shape, order)
    return tangent if _are_strides(memory, wanted) else TABLE.laid_out(tangent, order=order)


def _are_strides(memory: Any, strides: Any) -> bool:
    found = any_arrays.strides_of(memory)
    return (
        all(n == 1 or a == b for n, a, b in zip(memory.shape, found, strides, strict=True))
        or not memory.size
    )


def make_dual(level: Level, tensor: Any, tangent: Any) -> Any:
    """A view of a tensor that has the tangent at a level.

    Raises:
        AutogradError: the tangent has another shape or dtype, or one of both is dual at the level.
    """
    if tangent_of(level, tensor) is not None:
        raise AutogradError(MSG_MADE_TWICE.format(level=level.number))
    if tangent_of(level, tangent) is not None:
        raise AutogradError(MSG_SAME_LEVEL.format(level=level.number))
    if tuple(tangent.shape) != tuple(tensor.shape):
        raise AutogradError(MSG_SIZE.format(size=list(tensor.shape), given=list(tangent.shape)))
    if tangent.dtype is not tensor.dtype or tangent.device is not tensor.device:
        raise AutogradError(
            f"Expected tangent to have the dtype and device of its primal, {tensor.dtype.name} on "
            f"{tensor.device}, but got {tangent.dtype.name} on {tangent.device}."
        )
    with only(below(level)):
        dual = alias(tensor)
        tangent = _in_memory_like(tangent, dual)
    if is_inference_mode_enabled():
        _tensor.forget_base(dual)
    level.note(dual, tangent)
    level.note_dual(dual)
    return dual


def has_overlap(array: Any) -> bool:
    """True unless the strides show that no two elements share memory.

    With the dimensions in order of their strides, each must step over all that lies within it.
    """
    dims = sorted(
        (abs(step), size) for step, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
    extent = array.itemsize
    for step, size in dims:
        if step < extent:
            return bool(array.size > 0)
        extent += step * (size - 1)
    return False


def _in_memory_like(tangent: Any, tensor: Any) -> Any:
    """A tangent that lies in its memory as a tensor in its own, so that both have all views; itself
    where it does already."""
    if tangent._mirrors() != tensor._mirrors():
        tangent = TABLE.clone(tangent)
    memory, own = (any_arrays.flat_memory(x._memory) for x in (tangent, tensor))
    is_alike = memory.size == own.size and (
        not tensor.numel() or tangent.storage_offset() == tensor.storage_offset()
    )
    if is_alike and _are_strides(tangent._memory, any_arrays.strides_of(tensor._memory)):
        return tangent
    if tensor.dtype.numpy != own.dtype or is_meta(own) or has_overlap(tensor._memory):
        return laid_out_like(tangent, tensor)
    whole = TABLE.full(0, shape=(own.size,), dtype=tensor.dtype, device=tensor.device)
    found = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return found.copy_(tangent)


def primal_of(level: Level, tensor: Any) -> Any:
    """A view of a tensor that has no tangent at a level."""
    with only(below(level)):
        primal = alias(tensor)
    level.note(primal, None)
    return primal


def alias(tensor: Any) -> Any:
    """A view of all of a tensor."""
    return TABLE.reshape(tensor, shape=tuple(tensor.shape))


def share(source: Any, made: Any, copied: bool = False) -> Any:
    """Let a tensor with the values of another one have its tangents, or copies of them.

    Returns:
        The tensor.
    """
    for level in opened():
        tangent = tangent_of(level, source)
        if tangent is not None:
            if copied:
                with only(opened()[: level.number]):
                    tangent = TABLE.clone(tangent)
            level.note(made, tangent)
    return made


def move(source: Any, target: Any) -> None:
    """Let a tensor that shows its memory as `source` does now have the tangents of that."""
    for level in opened():
        tangent = tangent_of(level, source)
        level.note(target, tangent)


def drop(tensor: Any) -> None:
    """The tensor has no tangents from now on."""
    for level in opened():
        if tangent_of(level, tensor) is not None:
            level.note(tensor, None)


def without_history(tensor: Any) -> Any:
    """A tensor that shares memory and versions and has no history on the tape, but the tangents."""
    return share(tensor, _tensor.wrap_view(tensor._held, tensor, None))


def note_write(tensor: Any, result: Any, write: Callable[[Any, Any, str], Any], name: str) -> None:
    """A tensor holds the elements of another one now: so does its tangent.

    Args:
        write: `write(tensor, source, name)` copies elements, recorded as any write.
    """
    levels = () if is_inference_mode_enabled() else acting()
    for number, level in enumerate(levels):
        new, old = tangent_of(level, result), tangent_of(level, tensor)
        if new is None and old is None:
            continue
        before = act(levels[:number])
        try:
            if old is not None:
                if new is not old:
                    write(old, 0 if new is None else new, name)
            else:
                level.note(tensor, _begun(level, tensor, new, write, name))
        finally:
            act(before)


def _begun(level: Level, tensor: Any, new: Any, write: Any, name: str) -> Any:
    """The tangent of a tensor that had none, after a write of something that has one."""
    base = tensor._base
    if base is None or level.known(tensor)[0] or not is_continuous(base):
        return laid_out_like(TABLE.clone(new), tensor)
    tangent = laid_out_like(zeros_like(base), base)
    shown = _shown(tangent, base, tensor, tensor._replay)
    level.note(base, tangent)
    write(shown, new, name)
    return shown
