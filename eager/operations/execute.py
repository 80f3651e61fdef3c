"""How eager tensors run an op: `handle`, the dispatch handler of every eager tensor.

Contract: `handle(op, inputs, attributes)` unwraps arrays, evaluates the row, wraps the result, and
records a tape node where gradients are on, an input requires one and the result has a floating or
complex dtype. The result of a view row shares the storage (version counter) of its input. A
composite runs its function on the tensors; one with its own derivative runs unrecorded and is one
node.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import (
    TensorBase,
    _set_grad_enabled,
    arrays,
    has_levels,
    has_mirrored,
    is_grad_enabled,
    is_on_gpu,
    needs_grad,
    wrap,
)
from dynajit.eager.modes.autocast_mode import _autocast_word
from dynajit.eager.modes.random import reserve
from dynajit.eager.operations import on_gpu
from dynajit.eager.operations.mirrored_views import resolved, seen_by
from dynajit.eager.operations.writes.history import rebase_keeping_hooks, steps_to
from dynajit.eager.tape.node import OpNode, is_differentiable
from dynajit.ops.calls.arguments import require_tensor
from dynajit.ops.calls.autocast import disabled, for_row
from dynajit.ops.calls.autocast_words import CUDA_ENABLED
from dynajit.ops.calls.library_calls import OF_TENSORS
from dynajit.ops.evaluate import PLANS, QUIET, array_form, evaluate, type_of_operand
from dynajit.ops.table import dispatch
from dynajit.ops.table.dispatch import Handler
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.result_layouts import (
    ALWAYS,
    lies_as_operands,
    lies_row_by_row,
    strides_of_result,
)


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run `op` on tensors and numbers.

    Args:
        op: a row.
        inputs: tensors, numbers or None, as the row expects.
        attributes: complete (`Op.bind`).

    Returns:
        A new Tensor (for a composite whatever its function returns).

    Raises:
        ShapeError, DTypeError, DeviceError, ...: the row refuses the operands.
    """
    if has_levels():
        return _followers[0](op, inputs, attributes)
    return run(op, inputs, attributes)


#: What runs a row where tensors may have tangents: `eager.backward.forward.handle`.
_followers: list[Handler] = []


def install_follower(handler: Handler) -> None:
    """Called once, by `eager.backward.forward`."""
    _followers[:] = [handler]


def run(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """`handle` of values alone: tangents are not asked for."""
    kind = op.kind
    if kind is Kind.MOVEMENT and op.rule.view:
        return _view(op, inputs, attributes)
    if has_mirrored(inputs):
        inputs = tuple(map(resolved, inputs))
    if kind is Kind.COMPOSITE:
        try:
            if _autocast_word() & CUDA_ENABLED and is_on_gpu(inputs):
                inputs = for_row(op, inputs)
                with disabled():
                    return _composite(op, inputs, attributes)
            return _composite(op, inputs, attributes)
        except AttributeError as error:
            _explain(op, inputs, error)
            raise
    if attributes.get("device", CPU) is not CPU or is_on_gpu(inputs):
        inputs = for_row(op, inputs)
        array = on_gpu.run(op, inputs, attributes)
    else:
        array = evaluate(op, arrays(inputs), attributes)
    array = settled(op, arrays(inputs), attributes, array)
    return record(op, inputs, attributes, array) if needs_grad(inputs) else wrap(array)


def _view(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What a view row gives: see `handle`, and `eager.operations.mirrored_views`."""
    source = inputs[0]
    is_mirrored = has_mirrored(inputs[:1])
    if op.rule.mirrors and isinstance(source, TensorBase):
        op.infer(type_of_operand(source._memory))
        held = seen_by(op, source, None)
        return record_view(op, inputs, attributes, source._memory, held)
    given = (_tensor.wrap_view(source._memory, source, None),) if is_mirrored else inputs
    if is_on_gpu(given):
        array = on_gpu.run(op, for_row(op, given), attributes)
    else:
        array = evaluate(op, arrays(given), attributes)
    if not is_mirrored:
        return record_view(op, inputs, attributes, array)
    held = seen_by(op, source, array)
    if not _shares_memory(array, source._memory):  # a reshape that had to copy
        return handle(op, (resolved(source),), attributes)
    return record_view(op, inputs, attributes, array, held)


def settled(op: Op, operands: Sequence[Any], attributes: dict[str, Any], array: Any) -> Any:
    """The result of a row that is no view where it lies as `ops.table.result_layouts` says, else a
    copy that does.

    Args:
        operands: arrays and numbers, or None; of the row's inputs.
    """
    if array.ndim < 2 or not array.size or op.name in ALWAYS or _lie_row_by_row(operands):
        return array
    laid = [
        (tuple(x.shape), any_arrays.strides_of(x)) if hasattr(x, "strides") else None
        for x in operands
    ]
    strides = strides_of_result(op, laid, attributes, tuple(array.shape))
    found = any_arrays.strides_of(array)
    if all(
        size == 1 or one == other
        for size, one, other in zip(array.shape, found, strides, strict=True)
    ):
        return array
    return any_arrays.laid_out(array, strides)


def _lie_row_by_row(operands: Sequence[Any]) -> bool:
    return all(x.flags.c_contiguous for x in operands if hasattr(x, "strides"))


def _explain(op: Op, inputs: tuple[Any, ...], error: AttributeError) -> None:
    """Say which operand is no tensor, if that is why an attribute is missing.

    Raises:
        ArgumentError: it is.
    """
    for name, value in zip(op.inputs, inputs, strict=False):
        if value is error.obj and error.name in OF_TENSORS:
            require_tensor(value, op.name, name)


def record(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], array: Any) -> Any:
    """Wrap `array`, the result of `op`, with a tape node if the row has a derivative."""
    if not is_differentiable(op):
        return wrap(array)
    node = OpNode(op, inputs, attributes)
    result = _tensor.wrap_output(array, node, 0)
    if result.dtype.category < Category.FLOATING:
        return wrap(array)
    node.finish(result)
    return result


def record_view(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], array: Any, held: Any = None
) -> Any:
    """The result of a view row; a copy (a reshape that had to) is an ordinary result.

    Args:
        held: what the result holds, where that is not `array`, its memory.
    """
    source = inputs[0]
    recording = is_grad_enabled()
    if not isinstance(source, TensorBase) or not _shares_memory(array, source._memory):
        needs_node = recording and isinstance(source, TensorBase) and source.requires_grad
        return record(op, inputs, attributes, array) if needs_node else wrap(array)
    array = array if held is None else held
    if not is_differentiable(op):  # detach
        return _tensor.wrap_view(array, source, None)
    if not recording or (source._base is not None and source._replay is None):
        result = _tensor.wrap_view(array, source, False)
    else:
        steps = (*(source._replay or ()), (op, attributes))
        result = _tensor.wrap_view(array, source, steps)
    if recording and source.requires_grad:
        node = OpNode(op, inputs, attributes)
        _tensor.attach(result, node, 0)
        node.finish(result)
    return result


def _shares_memory(array: Any, source: Any) -> bool:
    """True if a view row's result is a view: windows hide their owner, so their bounds decide."""
    if _tensor.shares_memory(array, source):
        return True
    return isinstance(array, np.ndarray) and np.may_share_memory(array, source)


def _composite(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    recorded = needs_grad(inputs)
    needs_node = recorded and bool(op.vjp) and op.rule.on_tape
    if needs_node or not recorded:
        given = arrays(inputs)
        if op.rule.row_major:
            given = [_row_major(given[0]), *given[1:]]
        if is_on_gpu(inputs):
            array = on_gpu.form(op, inputs, given, attributes)
        else:
            array = array_form(op, given, attributes)
        if array is not NotImplemented:
            array = settled(op, arrays(inputs), attributes, array)
            return record(op, inputs, attributes, array) if needs_node else wrap(array)
    if not needs_node:
        return by_parts(op, inputs, attributes)
    with eager_dispatch():
        before = _set_grad_enabled(False)
        try:
            result = op.rule.function(TABLE, *inputs, **attributes)
        finally:
            _set_grad_enabled(before)
    array = result.array
    for operand in inputs:
        if isinstance(operand, TensorBase) and _tensor.shares_memory(array, operand.array):
            array = array.copy()  # a node's result has a storage of its own
            break
    array = settled(op, arrays(inputs), attributes, array)
    return record(op, inputs, attributes, array)


def by_parts(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What a composite gives as the rows that it is made of."""
    with eager_dispatch():
        result = op.rule.function(TABLE, *inputs, **attributes)
        return _settled_tensor(op, inputs, attributes, result)


def _settled_tensor(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any
) -> Any:
    """`settled` of a composite's tensor, whose rows the tape may have recorded."""
    array = settled(op, arrays(inputs), attributes, result.array)
    if array is result.array:
        return result
    if result.requires_grad or has_levels():
        strides = any_arrays.strides_of(array)
        order = sorted(range(array.ndim), key=lambda d: -strides[d])
        return TABLE.laid_out(result, order=tuple(order))
    return wrap(array)


def _row_major(array: Any) -> Any:
    """The array itself where it lies row by row, else a copy that does; numbers as they are."""
    is_array = hasattr(array, "flags")
    return array if not is_array or array.flags.c_contiguous else any_arrays.row_major(array)


def eager_dispatch() -> contextlib.AbstractContextManager[None]:
    """Ops without operands run eagerly in the block even while a graph is recorded around it."""
    if dispatch.default_handler() is handle:
        return contextlib.nullcontext()
    return dispatch.recording(handle, reserve)


def refresh_view(view: Any) -> None:
    """Give a view the history that its base has now (the base was written in place since).

    Called from C when `grad_fn` or `requires_grad` of such a view is read.
    """
    base = view._base
    if not base.requires_grad:
        return
    steps = steps_to(view)
    before = _set_grad_enabled(True)
    try:
        with eager_dispatch():
            again = base
            for op, attributes in steps:
                again = op(again, **attributes)
    finally:
        _set_grad_enabled(before)
    rebase_keeping_hooks(view, again.grad_fn, again.output_index)


def _forms() -> dict[Op, tuple[Any, Any, int, bool]]:
    """Rows with functions of whole arrays: what `_rows.c` has to know of them."""
    found = {}
    for op in TABLE:
        native = getattr(op.rule, "native", None)
        is_composite = op.kind is Kind.COMPOSITE
        array = op.rule.array if is_composite else None
        if native is not None or array is not None:
            is_row_major = is_composite and op.rule.row_major
            found[op] = native, array, _result_kind(op), is_row_major
    return found


def _result_kind(op: Op) -> int:
    """A value of ResultKind in `_rows.c`."""
    if op.kind is Kind.MOVEMENT and op.rule.view:
        return 2 if op.vjp else 3
    is_parts = op.kind is Kind.COMPOSITE and not (op.vjp and op.rule.on_tape)
    return 0 if is_parts else 1


_rows.register(
    PLANS,
    QUIET,
    (Kind.POINTWISE, Kind.REDUCTION, Kind.COMPOSITE),
    (record, record_view, settled),
    (TABLE.select, TABLE.slice, TABLE.reshape),
    _forms(),
    (
        {op for op in TABLE if lies_row_by_row(op) or op.name in ALWAYS},
        {op for op in TABLE if lies_as_operands(op)},
    ),
    tuple(dtype.numpy.num for dtype in dtypes.STORED),
)
