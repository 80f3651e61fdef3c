"""Writing into tensors: the in-place methods, and what a write does to the tape.

Contract: an in-place method computes its out-of-place form and then writes the result into the
tensor's array, so both forms mean the same; arithmetic on large tensors that no tape sees writes it
there at once. A write counts in the storage's version. Where
gradients are recorded the tensor gets the result's history; if it is a view, its base does
(`CopySlices`) and every view of that base learns its new history when it is next asked for. Called
by the `Tensor` class, which mixes `InPlaceMethods` in.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import arrays as gpu_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta
from dynajit.core.arrays.mirrored_arrays import parts_of, turned
from dynajit.core.errors import (
    ArgumentError,
    AutogradError,
    BoundsError,
    DeviceError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.process import _recorder
from dynajit.core.process.recording import Kind
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import DType
from dynajit.core.types.short_floats import converted, is_short
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import (
    TensorBase,
    has_levels,
    has_mirrored,
    is_grad_enabled,
    is_inference_mode_enabled,
)
from dynajit.eager.modes import write_limits
from dynajit.eager.operations import duals
from dynajit.eager.operations.duals import has_overlap
from dynajit.eager.operations.mirrored_views import store
from dynajit.eager.operations.strided_views import again
from dynajit.eager.tape.node import Node, OverwriteBackward, edges_of, made_by, zeros_of
from dynajit.ops.calls.arguments import NUMBERS, constant, fitting, is_tensor
from dynajit.ops.calls.autocast import disabled
from dynajit.ops.calls.public import InPlace
from dynajit.ops.calls.signatures import describe_in_place
from dynajit.ops.evaluate import QUIET
from dynajit.ops.functions import published
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.creation.creation import reserve
from dynajit.ops.functions.creation.random_fills import FILLS
from dynajit.ops.functions.elements import complex as complex_functions
from dynajit.ops.functions.elements import elementwise
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.native._vecmath import fma
from dynajit.ops.rows.random import blocks_of
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.overriding import BINARY_OPERATORS, PRIORITY
from dynajit.ops.table.type_rules import MSG_TWO_DEVICES

if TYPE_CHECKING:
    from dynajit.eager._tensor import Fields
else:
    Fields = object

MSG_LEAF: Final = (
    "{name}: a leaf Variable that requires grad is being used in an in-place operation.  Write "
    "under no_grad(), or use the out-of-place form."
)
MSG_VIEW_OF_LEAF: Final = (
    "{name}: a view of a leaf Variable that requires grad is being used in an in-place "
    "operation.  Write under no_grad(), or to a clone()."
)
MSG_VIEW_NO_GRAD: Final = (
    "{name}: A view was created in no_grad mode and is being modified inplace with grad mode "
    "enabled, which is ambiguous.  Make the view with gradients on, write under no_grad(), or "
    "write to a clone()."
)
MSG_RESHAPED: Final = (
    "{name}: the base of this view was reshaped in place (transpose_, squeeze_, resize_, ...), so "
    "the view's gradient cannot be told from it.  Use the out-of-place form, or write to a clone()."
)
MSG_INFERENCE: Final = (
    "{name}: Inplace update to inference tensor outside InferenceMode is not allowed.  Write to a "
    "clone()."
)
MSG_OVERLAP: Final = (
    "{name}: unsupported operation: more than one element of the written-to tensor refers to a "
    "single memory location. Please clone() the tensor before performing the operation."
)
MSG_PARTIAL_OVERLAP: Final = (
    "{name}: unsupported operation: some elements of the input tensor and the written-to tensor "
    "refer to a single memory location. Please clone() the tensor before performing the operation."
)
MSG_PARTS: Final = (
    "{name}: the tensor is one of several views that one call returned (split, chunk, unbind, "
    "iteration), and gradients are recorded: such views do not allow in-place writes.  Use "
    "narrow(), an index, or the out-of-place form."
)
MSG_READ_ONLY: Final = (
    "{name}: the memory of this tensor is read-only (it comes from a read-only NumPy array).  "
    "Write to a clone()."
)

NAMES: Final = frozenset(
    name for name, facts in published().items() if facts.in_place is not InPlace.ABSENT
)
"""Out-of-place methods with an in-place form of the same arguments."""


LARGE: Final = 1 << 14
"""Elements from which writing a result where it belongs gains more than finding out whether it may
be costs: a result of its own is a pass over memory more."""
_AT_ONCE: Final = (np.dtype(np.float32), np.dtype(np.float64))
_OF_FUNCTIONS: Final[dict[Any, np.ufunc]] = {
    elementwise.add: np.add,
    elementwise.sub: np.subtract,
    elementwise.mul: np.multiply,
    elementwise.div: np.true_divide,
}
_OF_NAMES: Final = {
    name: _OF_FUNCTIONS[facts.function]
    for name, facts in published().items()
    if facts.function in _OF_FUNCTIONS
}
_UFUNCS: Final = _OF_NAMES | {
    operator: _OF_NAMES[name] for operator, name in BINARY_OPERATORS.items() if name in _OF_NAMES
}

RESHAPED: Final = "_was_reshaped"
"""Stands in the dict of tensors that are no views and that were reshaped in place."""

# Autocast casts operands of the out-of-place form only, as in PyTorch.
UNCAST: Final = frozenset(("addmm", "baddbmm", "addbmm", "index_copy"))


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
    inverse = tuple(order.index(d) for d in range(len(order)))
    return TABLE.permute(TABLE.clone(TABLE.permute(tensor, dims=tuple(order))), dims=inverse)


def _same_layout(tensor: Any, strides: tuple[int, ...]) -> Any:
    """A copy whose dims lie in memory in the order that `strides` says."""
    order = sorted(range(len(strides)), key=lambda d: -abs(strides[d]))
    source = tensor.array
    copied = any_arrays.row_major(source.transpose(order))
    inverse = [order.index(d) for d in range(len(order))]
    return _tensor.wrap(copied.transpose(inverse))


def refuse_inference(tensor: Any, name: str) -> None:
    """Refuse a write to what was made in inference mode, outside of it: no version is counted.

    Raises:
        AutogradError: that is the case.
    """
    if tensor._storage.is_inference and not is_inference_mode_enabled():
        raise AutogradError(MSG_INFERENCE.format(name=name))


def refuse_recorded(tensor: Any, name: str) -> None:
    """Refuse what a gradient could not follow, while gradients are recorded: a write to a leaf that
    requires one, or to a view of one, or to a view of what requires one that was not recorded.

    Raises:
        AutogradError: that is the case.
    """
    if not is_grad_enabled():
        return
    if tensor.requires_grad and tensor.is_leaf:
        raise AutogradError(MSG_LEAF.format(name=name))
    base = tensor._base
    if base is None:
        return
    # A view with a gradient of what has none looks at a leaf that is a view itself.
    if base.is_leaf if base.requires_grad else tensor.requires_grad:
        raise AutogradError(MSG_VIEW_OF_LEAF.format(name=name))
    if base.requires_grad and tensor._replay is None:
        raise AutogradError(MSG_VIEW_NO_GRAD.format(name=name))


def refuse_part(tensor: Any, name: str) -> None:
    """Refuse a write, which is recorded, to one of several views that one call returned.

    Raises:
        AutogradError: it is one.
    """
    if tensor._is_part:
        raise AutogradError(MSG_PARTS.format(name=name))


def check_writable(tensor: Any, name: str) -> None:
    """Refuse writes that would lose a gradient or that the memory does not allow.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, or a view of one, or was made in
            inference mode.
        ShapeError: elements overlap in memory, or the memory is read-only.
        UnsupportedError: within `vmap`, the tensor is the same for all samples.
    """
    if _tensor.are_writes_checked():
        write_limits.check_write(tensor, name)
    refuse_inference(tensor, name)
    refuse_recorded(tensor, name)
    array = tensor._memory
    if array.flags.c_contiguous and any_arrays.is_writable(array):
        return
    if has_overlap(array):
        raise ShapeError(MSG_OVERLAP.format(name=name))
    if not any_arrays.is_writable(array):
        base = tensor._base
        if base is None or not base._memory.flags.writeable:
            raise ShapeError(MSG_READ_ONLY.format(name=name))
        array.flags.writeable = True  # part of an expanded view, in which no elements overlap


def refuse_partial_overlap(tensor: Any, operands: Iterable[Any], name: str) -> None:
    """Refuse a write to a tensor that shares memory with an operand, element by other element.

    Raises:
        ShapeError: one does.
    """
    for operand in operands:
        if not isinstance(operand, TensorBase) or operand is tensor:
            continue
        # Values of conjugate views are new arrays; `copy_` alone takes them as they lie.
        is_seen = name != "copy_" and has_mirrored((tensor, operand))
        if not is_seen and any_arrays.overlap_partly(tensor._memory, operand._memory):
            raise ShapeError(MSG_PARTIAL_OVERLAP.format(name=name))


def update(
    tensor: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], written: str
) -> Any:
    """`tensor.name_(*args, **kwargs)`: the out-of-place form, written back.

    Args:
        written: what the program wrote, `add_` or `+=`, for errors.

    Returns:
        The tensor; NotImplemented where an operator does not take its operand.
    """
    if _rows.is_free(tensor, args, kwargs):
        if tensor.array.size >= LARGE and _was_updated_at_once(tensor, name, args, kwargs):
            return tensor
        result = getattr(tensor, name)(*args, **kwargs)
        if not _rows.overwrite(tensor, result):
            if result is NotImplemented:
                return NotImplemented
            commit(tensor, result, written)
        return tensor
    check_writable(tensor, written)
    refuse_partial_overlap(tensor, (*args, *kwargs.values()), written)
    operand = tensor
    if is_grad_enabled() and _any_requires_grad(tensor, args, kwargs):
        # Formulas may save the old value, which is about to be overwritten.
        operand = _copy_with_history(tensor)
        args = tuple(operand if argument is tensor else argument for argument in args)
    result = getattr(operand, name)(*args, **kwargs)
    if result is NotImplemented:
        return NotImplemented
    commit(tensor, result, written)
    return tensor


def _was_updated_at_once(
    tensor: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Let a ufunc write into a free tensor, where that gives what its method gives; False, without
    effect, where it may not."""
    ufunc = _UFUNCS.get(name)
    if ufunc is None or len(args) != 1 or dispatch.is_watched():
        return False
    (other,), array = args, tensor.array
    if array.dtype not in _AT_ONCE or not _has_method_of_tensor(type(tensor), name):
        return False
    if type(other) is not float:
        handler = getattr(type(other), "__dynajit_handler__", None)
        if handler is not type(tensor).__dynajit_handler__:
            return False
        other = other.array
        if type(other) is not np.ndarray or other.shape != array.shape:
            return False
        if other.dtype != array.dtype:
            return False
    if kwargs:
        alpha = kwargs.get("alpha")
        if ufunc not in (np.add, np.subtract) or len(kwargs) > 1 or type(alpha) is not float:
            return False
        if type(other) is not float:
            alpha = alpha if ufunc is np.add else -alpha
            _run_at_once(name, fma, other, array.dtype.type(alpha), array, array)
            _tensor.bump_version(tensor)
            return True
        other = other * alpha
    _run_at_once(name, ufunc, array, other, array)
    _tensor.bump_version(tensor)
    return True


def _run_at_once(name: str, function: Callable[..., Any], *arrays: Any) -> None:
    place = _recorder.begin(Kind.ROW, name)
    QUIET.copy().run(function, *arrays)
    _recorder.end(place)


def _has_method_of_tensor(cls: type, name: str) -> bool:
    """True unless a subclass of `Tensor` has its own, up to that where the handler comes from."""
    for base in cls.__mro__:
        is_asked = vars(base).get("__dynajit_priority__") == PRIORITY
        if "__dynajit_handler__" in vars(base) and not is_asked:
            return True
        if name in vars(base):
            return False
    return False


def _any_requires_grad(tensor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    operands = (tensor, *args, *kwargs.values())
    return any(isinstance(x, TensorBase) and x.requires_grad for x in operands)


def _copy_with_history(tensor: Any) -> Any:
    copied = any_arrays.row_major(tensor.array)
    if not tensor.requires_grad:
        return duals.share(tensor, _tensor.wrap(copied), copied=True)
    source = tensor
    if tensor._replay and tensor._replay[-1][0] is again and tensor._base.requires_grad:
        source = tensor._base  # of which the view may show more than of what it was taken of
        for op, attributes in tensor._replay:
            source = op(source, **attributes)
    made = _tensor.wrap_output(copied, source.grad_fn, source.output_index)
    return duals.share(tensor, made, copied=True)


def commit(tensor: Any, result: Any, name: str) -> None:
    """Write `result` into `tensor` and give the tensor (or its base) the result's history.

    Raises: as `as_written`.
    """
    result = as_written(tensor, result, name)
    record = is_grad_enabled() and (result.requires_grad or tensor.requires_grad)
    if record and tensor._base is not None:
        _rebase_base(tensor, result, name)
    else:
        node = history_of_write(tensor, result) if record else None
        write(tensor, result)
        if record:
            rebase_keeping_hooks(tensor, node)
    if has_levels():
        duals.note_write(tensor, result, copy_into, name)


def as_written(tensor: Any, result: Any, name: str) -> Any:
    """What an operation gives, in the dtype of the tensor that is to hold it.

    Raises:
        ShapeError: the result does not have the tensor's shape.
        DTypeError: the result's category of dtype is above the tensor's.
    """
    if tuple(result.shape) != tuple(tensor.shape):
        raise ShapeError(
            f"{name}: output with shape {list(tensor.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}.  Use the out-of-place form."
        )
    if result.dtype is not tensor.dtype:
        if result.dtype.category > tensor.dtype.category:
            raise DTypeError(
                f"{name}: result type {result.dtype.name} can't be cast to the desired output "
                f"type {tensor.dtype.name}.  Convert the tensor first, or use the out-of-place "
                "form."
            )
        result = TABLE.cast(result, dtype=tensor.dtype)
    return result


def write(tensor: Any, result: Any) -> None:
    """Copy elements and count the write."""
    store(tensor, result.array)
    _tensor.bump_version(tensor)


def restored(tensor: Any, dims: tuple[int, ...], writes: int = 0) -> Any:
    """A result of compiled code, which lies row by row, with the dims in their original order.

    Unlike a view, it has no base: nobody else sees `tensor`.

    Args:
        writes: how many writes the original program would have counted.
    """
    for _ in range(writes):
        _tensor.bump_version(tensor)
    if dims == tuple(range(len(dims))):
        return tensor
    if not tensor.requires_grad:
        result = _tensor.wrap_view(tensor.array.transpose(dims), tensor, None)
        _tensor.forget_base(result)
        return result
    before = _tensor._set_grad_enabled(True)
    try:
        result = TABLE.permute(tensor, dims=dims)
    finally:
        _tensor._set_grad_enabled(before)
    _tensor.forget_base(result)
    return result


def write_back(tensor: Any, result: Any, bumps: int, has_history: bool) -> None:
    """Let a tensor hold what compiled code computed for it.

    Args:
        result: of the tensor's shape and dtype.
        bumps: how many writes the original program would count.
        has_history: the tensor gets the history of `result`, too.
    """
    if has_history:
        before = _tensor._set_grad_enabled(True)
        try:
            commit(tensor, result, "write")
        finally:
            _tensor._set_grad_enabled(before)
        bumps -= 1
    else:
        if result._held is not tensor._held:  # else the kernels wrote it there
            store(tensor, result.array)
    for _ in range(bumps):
        _tensor.bump_version(tensor)


def was_reshaped(base: Any) -> bool:
    """Whether a tensor with views has another shape than some of them were made from."""
    return RESHAPED in base.__dict__


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


def _rebase_base(tensor: Any, result: Any, name: str) -> None:
    base, steps = tensor._base, tensor._replay
    if steps is None:
        raise AutogradError(MSG_VIEW_NO_GRAD.format(name=name))
    refuse_part(tensor, name)
    if was_reshaped(base):
        raise AutogradError(MSG_RESHAPED.format(name=name))
    edges, indices = edges_of([base, result])
    node = CopySlices(edges, indices, steps, base._memory.strides)
    write(tensor, result)
    rebase_keeping_hooks(base, node)
    if tensor.retains_grad:
        made_by(tensor)  # it learns of its new history, and retains there


def _fill_parts(tensor: Any, fill: Callable[[Any], Any]) -> Any:
    """The complex tensor, after `fill` wrote its real and imaginary parts."""
    if not tensor._is_mirrored:
        fill(TABLE.view_as_real(tensor))
        return tensor
    drawn = TABLE.clone(tensor.detach())
    fill(TABLE.view_as_real(drawn))
    return tensor.copy_(drawn)


def _main_diagonal(tensor: Any) -> Any:
    """The elements with equal indices, as a view in one dim."""
    while tensor.ndim > 1:
        tensor = TABLE.diagonal(tensor, offset=0, dim1=0, dim2=1)
    return tensor


def copy_into(tensor: Any, source: Any, name: str) -> Any:
    """`tensor[...] = source`: broadcast and cast to the tensor's shape and dtype.

    Args:
        source: a tensor, array or number.
    """
    if type(source) in _NUMBERS and _rows.is_free(tensor, (), {}):
        return _fill(tensor, source, name)
    if _was_overwritten(tensor, tensor, source):
        return tensor
    check_writable(tensor, name)
    if not isinstance(source, TensorBase):
        if isinstance(source, (int, float, np.generic)):
            source = fitting(source, tensor.dtype, name)
        source = _tensor.wrap(_array_for(tensor, source))
    if source.device is not tensor.device:
        source = TABLE.to_device(source, device=tensor.device)
    refuse_partial_overlap(tensor, (source,), name)
    if source.dtype is not tensor.dtype:
        source = TABLE.cast(source, dtype=tensor.dtype)
    if tuple(source.shape) != tuple(tensor.shape):
        source = broadcast_to(source, tuple(tensor.shape), name)
    if source.requires_grad and is_grad_enabled():
        edges, indices = edges_of([source, tensor])
        made = _tensor.wrap_output(source.array, CopyBackward(edges, indices), 0)
        source = duals.share(source, made)
    commit(tensor, source, name)
    return tensor


def _was_overwritten(tensor: Any, part: Any, source: Any) -> bool:
    """Let a part of a free tensor hold another tensor's elements; False, without effect, where that
    takes more than a copy."""
    is_tensor = isinstance(source, TensorBase)
    return is_tensor and _rows.is_free(tensor, (source,), {}) and _rows.overwrite(part, source)


_NUMBERS: Final = frozenset((bool, int, float))


def _fill(tensor: Any, number: Any, name: str) -> Any:
    """The tensor, a part of one that is free, after every element became the number."""
    value = converted(np.asarray(fitting(number, tensor.dtype, name)), tensor.array.dtype)
    np.copyto(tensor.array, value)
    _tensor.bump_version(tensor)
    return tensor


def _array_for(tensor: Any, value: Any) -> Any:
    """A number or array as an array of a tensor's dtype, on its device.

    Raises:
        ArgumentError: it is neither.
        DTypeError: a number with an imaginary part does not fit the dtype.
    """
    if isinstance(value, (str, bytes)):
        raise ArgumentError(f"cannot write {value!r} into a tensor of {tensor.dtype.name}.")
    if isinstance(value, complex) and not tensor.dtype.is_complex:
        if value.imag:
            raise DTypeError(f"value {value} cannot be converted to {tensor.dtype.name}.")
        value = value.real
    if gpu.is_foreign(value):
        value = any_arrays.placed_like(gpu.shared(value), tensor.array)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "OSUmM":
            raise ArgumentError(
                f"cannot assign {type(value).__name__} to a tensor.  Expected a number or a tensor."
            )
        value = any_arrays.placed_like(array, tensor.array)
    if is_meta(value):
        return MetaArray(value.shape, tensor.array.dtype)
    if is_short(tensor.array.dtype):
        return converted(value, tensor.array.dtype)
    with any_arrays.on_device_of(value):
        return value.astype(tensor.array.dtype, copy=False)


def broadcast_to(source: Any, shape: tuple[int, ...], name: str) -> Any:
    """What is written, in the shape of where it goes."""
    extra = len(source.shape) - len(shape)
    if extra > 0 and all(size == 1 for size in source.shape[:extra]):
        source = TABLE.reshape(source, shape=tuple(source.shape[extra:]))
    try:
        return TABLE.expand(source, shape=shape)
    except ShapeError as error:
        raise ShapeError(
            f"{name}: a value of shape {list(source.shape)} cannot be broadcast to "
            f"{list(shape)}.  Expected sizes equal from the right, or 1."
        ) from error


_SET: Final = "tensor[...] = value"


def set_item(tensor: Any, index: Any, value: Any) -> None:
    """`tensor[index] = value` for every kind of index that PyTorch accepts."""
    items = index if isinstance(index, tuple) else (index,)
    if not all(_is_basic(item) for item in items):
        if _was_set_at_once(tensor, items, value):
            return
        entries = subscript.as_entries(index)
        if any(isinstance(entry, TensorBase) for entry in entries):
            _set_advanced(tensor, entries, value)
            return
        index = tuple(entries)  # zero-dim tensors became integers
    target = tensor[index]
    if not _tensor.shares_memory(target._memory, tensor._memory):
        raise AutogradError(f"{_SET}: the index gave a copy, not a view")
    if type(value) in _NUMBERS and _rows.is_free(tensor, (), {}):
        _fill(target, value, _SET)
    elif not _was_overwritten(tensor, target, value):
        copy_into(target, value, _SET)


def _is_basic(item: Any) -> bool:
    return (
        item is None
        or item is Ellipsis
        or (isinstance(item, int) and not isinstance(item, bool))
        or isinstance(item, (slice, np.integer))
    )


def _was_set_at_once(tensor: Any, items: tuple[Any, ...], value: Any) -> bool:
    """Let NumPy assign to a free tensor, where it takes a key as PyTorch does; False, without
    effect, where it may not, or where that takes a closer look."""
    key = _key_of_numpy(items) if _rows.is_free(tensor, (value,), {}) else None
    if key is None:
        return False
    array = tensor.array
    if type(value) in _NUMBERS:
        source = converted(np.asarray(value), array.dtype)
    else:
        given = value.array if isinstance(value, TensorBase) else None
        if type(given) is not np.ndarray or given.dtype != array.dtype:
            return False
        source = given
    _assign(array, key, source)
    _tensor.bump_version(tensor)
    return True


def _key_of_numpy(items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A key of tensors with slices, or with integers, among which NumPy counts the latter; None for
    others."""
    key, kinds = [], set()
    for item in items:
        kind = type(item)
        if kind is int or (kind is slice and _has_plain_bounds(item)):
            kinds.add(kind)
        elif not isinstance(item, TensorBase):
            return None
        else:
            item = item.array
            if type(item) is not np.ndarray or not item.ndim or item.dtype not in _POSITIONS:
                return None
        key.append(item)
    return tuple(key) if len(kinds) < 2 else None


def _has_plain_bounds(item: slice) -> bool:
    return item.step is None and all(
        bound is None or type(bound) is int for bound in (item.start, item.stop)
    )


_POSITIONS: Final = (np.dtype(np.int64), np.dtype(np.bool_))


def _set_advanced(tensor: Any, entries: list[Any], value: Any) -> None:
    """Assignment where tensors are among the entries of the key: integers, slices and None choose a
    part first, as in PyTorch; NumPy would count the integers among the tensors."""
    check_writable(tensor, _SET)
    value = _as_value(tensor, value)
    first, then = subscript.split_entries(tensor, entries)
    is_whole = all(entry == slice(None) for entry in first)
    is_recorded = is_grad_enabled() and (tensor.requires_grad or value.requires_grad)
    if not (is_recorded or duals.is_dual((tensor, value))):
        if not is_meta(tensor.array):
            memory, *seen = parts_of(tensor._held)
            part = memory if is_whole else memory[(*first, ...)]
            key = tuple(_placed(entry, part) for entry in then)
            _assign(part, key, turned(value.array, *seen))
        _tensor.bump_version(tensor)
        return
    if is_meta(tensor.array):
        raise UnsupportedError(
            f"{_SET}: the derivative of a write by this kind of index is not known on 'meta'.  "
            "Write under no_grad()."
        )
    part = tensor if is_whole else tensor[first]
    commit(part, subscript.put_item(_copy_with_history(part), then, value), _SET)


def _as_value(tensor: Any, value: Any) -> Any:
    """What is assigned, as a tensor of the dtype and on the device of another one."""
    if not isinstance(value, TensorBase):
        value = _tensor.wrap(_array_for(tensor, value))
    if value.device is not tensor.device:
        if value.ndim or value.device is not CPU:
            raise DeviceError(MSG_TWO_DEVICES.format(
                call=_SET, first=tensor.device, second=value.device
            ))  # fmt: skip
        value = TABLE.to_device(value, device=tensor.device)
    refuse_partial_overlap(tensor, (value,), _SET)
    return value if value.dtype is tensor.dtype else TABLE.cast(value, dtype=tensor.dtype)


def _placed(entry: Any, array: Any) -> Any:
    """An entry of a key for an array, on its device."""
    is_tensor = isinstance(entry, TensorBase)
    return any_arrays.placed_like(entry.array, array) if is_tensor else entry


def _assign(array: Any, key: tuple[Any, ...], value: Any) -> None:
    while value.ndim and value.shape[0] == 1:  # which NumPy's masks do not broadcast
        value = value[0]
    if not isinstance(array, np.ndarray):
        gpu_arrays.check_key(array.shape, key, _SET)
    try:
        with any_arrays.on_device_of(array):
            array[key] = value
    except (ValueError, TypeError) as error:  # TypeError: a mask, and a value of more than one dim
        raise ShapeError(f"{_SET}: {error}") from error
    except IndexError as error:
        raise BoundsError(f"{_SET}: {error}") from error


def require_own_dtype(name: str, dtype: DType) -> None:
    """Check forms whose result would have another dtype than the tensor, of the same category.

    Raises:
        DTypeError: the in-place form of a function of this name is refused for the dtype.
    """
    if name in ("abs", "absolute") and dtype.is_complex:
        raise DTypeError(
            f"{name}_: In-place abs is not supported for complex tensors.  Use {name}()."
        )
    if name == "float_power" and dtype not in (dtypes.float64, dtypes.complex128):
        raise DTypeError(
            f"float_power_: the base has dtype {dtype.name}, and the result float64 or complex128."
            "  Use float_power()."
        )


_OF_OWN_DTYPE: Final = frozenset({"abs", "absolute", "float_power"})


def _in_place(name: str) -> Callable[..., Any]:
    written = f"{name}_"

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        require_own_dtype(name, self.dtype)
        return update(self, name, args, kwargs, written)

    def plain(self: Any, *args: Any, **kwargs: Any) -> Any:
        return update(self, name, args, kwargs, written)

    def uncast(self: Any, *args: Any, **kwargs: Any) -> Any:
        with disabled():
            return update(self, name, args, kwargs, written)

    method = checked if name in _OF_OWN_DTYPE else uncast if name in UNCAST else plain
    method.__name__ = method.__qualname__ = f"{name}_"
    describe_in_place(method, getattr(TensorMethods, name), "self")
    return method


def _operator(name: str, written: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return update(self, name, (other,), {}, written)

    method.__name__ = method.__qualname__ = f"__i{name.strip('_')}__"
    method.__doc__ = f"In place: `{name}`."
    return method


def _write_part(part: Any, value: Any) -> None:
    """Write a tensor or a number into a view."""
    if is_tensor(value):
        part.copy_(value)
    else:
        part.fill_(value)


def _write_mapped(name: str, tensor: Any, others: tuple[Any, ...], function: Any) -> Any:
    """See `apply_`."""
    for operand in (tensor, *others):
        if operand.requires_grad:
            raise AutogradError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
                "instead."
            )
        if operand.device is not CPU or operand.dtype is not tensor.dtype:
            raise ArgumentError(
                f"{name}: expected tensors on the CPU with dtype {tensor.dtype.name}, but got one "
                f"of {operand.dtype.name} on {operand.device}."
            )
    if not callable(function):
        raise ArgumentError(f"{name}: {type(function).__name__!r} object is not callable.")
    rows = [operand.expand(tensor.shape).reshape(-1).tolist() for operand in (tensor, *others)]
    values = [_as_element(name, tensor, function(*row)) for row in zip(*rows, strict=True)]
    found = np.array(values, dtype=tensor.dtype.numpy).reshape(tuple(tensor.shape))
    return tensor.copy_(constant(found, CPU))


def _as_element(name: str, tensor: Any, value: Any) -> Any:
    """What a callable gave as a number of the tensor's kind; fractions are cut off."""
    if not isinstance(value, NUMBERS) and not is_tensor(value) and not hasattr(value, "dtype"):
        raise ArgumentError(f"{name}: must be real number, not {type(value).__name__}")
    if tensor.dtype.is_complex:
        return complex(value)
    return float(value) if tensor.dtype.is_floating_point else int(value)


class InPlaceMethods(Fields):
    """Mixin of `Tensor`: every method whose name ends in an underscore, and item assignment."""

    __slots__: tuple[()] = ()

    if TYPE_CHECKING:  # those of `NAMES`, as far as modules above call them
        add_: Callable[..., Any]
        clamp_: Callable[..., Any]
        erfinv_: Callable[..., Any]
        lerp_: Callable[..., Any]
        mul_: Callable[..., Any]
        sub_: Callable[..., Any]

    __iadd__ = _operator("__add__", "+=")
    __isub__ = _operator("__sub__", "-=")
    __imul__ = _operator("__mul__", "*=")
    __itruediv__ = _operator("__truediv__", "/=")
    __ifloordiv__ = _operator("__floordiv__", "//=")
    __imod__ = _operator("__mod__", "%=")
    __ipow__ = _operator("__pow__", "**=")
    __iand__ = _operator("__and__", "&=")
    __ior__ = _operator("__or__", "|=")
    __ixor__ = _operator("__xor__", "^=")

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, value)

    @property
    def real(self) -> Any:
        """The real parts, as a view; assigning writes into them."""
        return complex_functions.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        _write_part(complex_functions.real(self), value)

    @property
    def imag(self) -> Any:
        """The imaginary parts, as a view; assigning writes into them."""
        return complex_functions.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        _write_part(complex_functions.imag(self), value)

    def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
        """Write `callable(element)` in the place of each element, row by row.

        Raises:
            AutogradError: the tensor requires a gradient.
            ArgumentError: it is not on the CPU, or `callable` is none or gives no number.
        """
        return _write_mapped("apply_", self, (), callable)

    def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Write `callable(element, other)` in the place of each element, with the elements of a
        tensor of the same dtype, broadcast; raises as `apply_`."""
        return _write_mapped("map_", self, (tensor,), callable)

    def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
        """`map_` with two tensors."""
        return _write_mapped("map2_", self, (x, y), callable)

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Copy the elements of `src`, broadcast and cast."""
        return copy_into(self, src, "copy_")

    def fill_(self, value: Any) -> Any:
        """Set every element to a number or zero-dim tensor."""
        if isinstance(value, TensorBase) and value.ndim:
            raise ShapeError(
                "fill_: expected a number or a tensor with 0 dimensions, got one with "
                f"{value.ndim}."
            )
        return copy_into(self, value, "fill_")

    def zero_(self) -> Any:
        """Set every element to 0."""
        return copy_into(self, 0, "zero_")

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Any:
        """Set the elements with equal indices to a number; `wrap`: below a square of a tall matrix
        an empty row follows, then the next diagonal.

        Raises:
            ShapeError: there is one dim, or there are more than two of different sizes.
        """
        shape = tuple(self.shape)
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise ShapeError(
                f"fill_diagonal_: got shape {list(shape)}.  Expected a matrix, or more dims of one "
                "size: all dimensions must be of equal length."
            )
        part: Any = self
        copy_into(_main_diagonal(part), fill_value, "fill_diagonal_")
        while wrap and len(shape) == 2 and part.shape[0] > shape[1] + 1:
            part = part[shape[1] + 1 :]
            copy_into(_main_diagonal(part), fill_value, "fill_diagonal_")
        return self

    def uniform_(self, from_: float = 0.0, to: float = 1.0, generator: Any = None) -> Any:
        """Fill with uniform values in [from_, to)."""
        if self.dtype.is_complex:
            return _fill_parts(self, lambda parts: parts.uniform_(from_, to, generator))
        return self._filled("uniform", generator, from_, to)

    def normal_(self, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
        """Fill with normal values; both parts of complex ones share the variance."""
        if self.dtype.is_complex:
            scale = std / math.sqrt(2)
            _fill_parts(self, lambda parts: parts.normal_(0.0, scale, generator))
            return self.add_(mean) if mean else self
        return self._filled("normal", generator, mean, std)

    def bernoulli_(self, p: Any = 0.5, generator: Any = None) -> Any:
        """Fill with 1 with probability `p` (a number or tensor), else 0."""
        return self._filled("bernoulli", generator, p)

    def random_(
        self, from_: int | None = None, to: int | None = None, generator: Any = None
    ) -> Any:
        """Fill with integers in [from_, to), or in [0, from_) if only one is given."""
        return self._filled("random", generator, from_, to)

    def exponential_(self, lambd: float = 1.0, generator: Any = None) -> Any:
        """Fill with exponential values of mean 1 / lambd, which are not 0."""
        return self._filled("exponential", generator, lambd)

    def geometric_(self, p: float, generator: Any = None) -> Any:
        """Fill with numbers of trials until the first success, which has probability `p`."""
        return self._filled("geometric", generator, p)

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
        """Fill with Cauchy values."""
        return self._filled("cauchy", generator, median, sigma)

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
        """Fill with values whose logarithms are normal with this mean and deviation."""
        return self._filled("log_normal", generator, mean, std)

    def _filled(self, name: str, generator: Any, *numbers: Any) -> Any:
        def draw(row_name: str, dtype: Any) -> Any:
            row, shape = TABLE[row_name], tuple(self.shape)
            blocks = int(blocks_of(row, shape, dtype))
            seed, offset, _ = reserve(blocks, generator, self.device)
            return row(seed, offset, shape=shape, dtype=dtype, device=self.device, shift=0)

        return self._take(FILLS[name](draw, self.dtype, *numbers), f"{name}_")

    def _take(self, value: Any, name: str) -> Any:
        """Hold a value, which `name` wrote."""
        return copy_into(self, value, name)


for _name in sorted(NAMES):
    if hasattr(TensorMethods, _name):
        setattr(InPlaceMethods, f"{_name}_", _in_place(_name))
