"""Rows on dual tensors: values first, then the tangent at each level of forward mode.

Contract: `handle` runs a row at the innermost level that acts: its result is computed as outside of
the level, then its tangent, by `ops.table.tangents`, which are rows outside of the level, too: so
that levels do not mix, and the tape records the computation of tangents as any other. Composites
without a node of their own are followed part by part. In inference mode nothing is followed, as in
PyTorch.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.value_types import TensorType
from dynajit.eager import _rows
from dynajit.eager._tensor import (
    TensorBase,
    _set_grad_enabled,
    _set_inference_enabled,
    has_levels,
    is_grad_enabled,
    is_inference_mode_enabled,
    meta_of,
    wrap,
)
from dynajit.eager.backward import engine
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.modes.forward_levels import Level, act, acting, only
from dynajit.eager.operations import duals
from dynajit.eager.operations.execute import (
    by_parts,
    eager_dispatch,
    install_follower,
    run,
)
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.node import type_of_meta
from dynajit.ops.calls.autocast_words import CUDA_ENABLED
from dynajit.ops.table.derivatives import Need, Parameter
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.tangents import (
    Moved,
    Resolve,
    any_gradient,
    fitted,
    gradients_of,
    has_tangents,
    is_followed_whole,
    tangent_of,
)
from dynajit.ops.table.type_rules import sum_to_type


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What the row gives, with its tangents at the levels that act."""
    levels = acting()
    if is_inference_mode_enabled():
        with only(()):
            return _outside(op, inputs, attributes)
    level = levels[-1]
    if op.kind is Kind.COMPOSITE and not is_followed_whole(op) and duals.is_dual(inputs):
        return by_parts(op, inputs, attributes)
    tangents = [duals.tangent_of(level, x) if isinstance(x, TensorBase) else None for x in inputs]
    act(levels[:-1])
    try:
        result = _outside(op, inputs, attributes)
        if any(tangent is not None for tangent in tangents):
            _follow(level, op, inputs, attributes, tangents, result)
        elif op.kind is Kind.MOVEMENT and op.rule.view and level.known(inputs[0])[0]:
            level.note(result, None)  # not the tangent of what it is a view of, in the end
    finally:
        act(levels)
    return result


def _outside(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What the row gives at the levels that act, or at none."""
    if has_levels():
        return handle(op, inputs, attributes)
    found = _rows.attempt(op, inputs, attributes)
    return run(op, inputs, attributes) if found is NotImplemented else found


def _follow(
    level: Level,
    op: Op,
    inputs: tuple[Any, ...],
    attributes: dict[str, Any],
    tangents: list[Any],
    result: Any,
) -> None:
    """Let the result have its tangent."""
    is_view = op.kind is Kind.MOVEMENT and op.rule.view
    is_view = is_view and duals.shares_memory(result, inputs[0])
    if not has_tangents(op):
        if is_view:
            level.note(result, None)
        return
    word = _autocast_word()
    _set_autocast_word(word & ~CUDA_ENABLED)
    try:
        with eager_dispatch():
            tangent = _tangent(op, inputs, attributes, tangents, result)
            if is_view:
                _attach_view(level, result, tangent, tangents[0])
            elif tangent is not None:
                known = [other for other in tangents if other is not None]
                duals.attach(level, result, tangent, known)
    finally:
        _set_autocast_word(word)


def _attach_view(level: Level, result: Any, tangent: Any, shown: Any) -> None:
    """Let a view have its tangent, which is a view, too."""
    if tangent is not None and not duals.shares_memory(tangent, shown):
        raise UnsupportedError(duals.MSG_OTHER_VIEW)
    duals.note(level, result, tangent)


def _tangent(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], tangents: list[Any], result: Any
) -> Any:
    resolve = _resolver(inputs, attributes, result)

    def transpose(positions: Sequence[int]) -> Any:
        return _transposed(op, inputs, tangents, result, resolve, positions)

    return tangent_of(Moved(op, inputs, tangents, attributes, result, resolve, transpose))


def _resolver(inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any) -> Resolve:
    """What gives the values of a formula's parameters."""

    def resolve(parameter: Parameter) -> Any:
        key = parameter.key
        match parameter.need:
            case Need.RESULT:
                return result
            case Need.RESULT_TYPE:
                return type_of_meta(meta_of(result))
            case Need.INPUT:
                return inputs[key]
            case Need.INPUT_TYPE:
                return type_of_meta(meta_of(inputs[key]))
            case Need.INPUTS:
                return list(inputs[key:])
            case Need.INPUT_TYPES:
                return [type_of_meta(meta_of(x)) for x in inputs[key:]]
            case Need.ATTRIBUTE:
                return attributes[key]
        raise AssertionError(parameter)

    return resolve


def _transposed(
    op: Op,
    inputs: tuple[Any, ...],
    tangents: list[Any],
    result: Any,
    resolve: Resolve,
    positions: Sequence[int],
) -> Any:
    """The transpose of the formulas, which are linear in the gradient, of the tangents."""
    is_recorded = is_grad_enabled()
    grad_before, inference_before = _set_grad_enabled(True), _set_inference_enabled(False)
    saved_hooks.enter(None)
    try:
        gradient = any_gradient(result).detach()
        gradient.requires_grad = True

        def given(parameter: Parameter) -> Any:
            if parameter.need is Need.GRADIENT:
                return gradient
            value = resolve(parameter)
            return [*map(_savable, value)] if isinstance(value, list) else _savable(value)

        found = gradients_of(op, given, positions)
        pairs = [
            (_fit(part, inputs[i]), tangents[i])
            for i, part in zip(positions, found, strict=True)
            if part is not None and part.requires_grad
        ]
        if not pairs:
            return None
        is_recorded = is_recorded and any(
            isinstance(x, TensorBase) and x.requires_grad for x in (*inputs, *tangents)
        )
        (tangent,) = engine.grad(
            [part for part, _ in pairs],
            [gradient],
            [tangent for _, tangent in pairs],
            create_graph=is_recorded,
            allow_unused=True,
        )
    finally:
        saved_hooks.leave()
        _set_inference_enabled(inference_before)
        _set_grad_enabled(grad_before)
    return fitted(tangent, result)


def _savable(value: Any) -> Any:
    """An operand of a formula; what was made in inference mode as a tensor that was not."""
    if isinstance(value, TensorBase) and value._storage.is_inference:
        return duals.share(value, wrap(value._held))
    return value


def _fit(part: Any, operand: Any) -> Any:
    """A gradient in the type of its input."""
    type = type_of_meta(meta_of(operand))
    assert isinstance(type, TensorType)
    return sum_to_type(TABLE, part, type)


install_follower(handle)
