"""Calls of `Function`s on dual tensors: the outputs, then their tangents by the program's `jvp`.

Contract: as in PyTorch: `forward` knows nothing of tangents; `jvp` gets one tangent per argument,
zeros for tensors that have none (unless `set_materialize_grads(False)`), and gives one per output.
Where `forward` wrote to an argument or gave a view of one, so does `jvp` with tangents.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.core.errors import AutogradError
from dynajit.eager._tensor import TensorBase, is_inference_mode_enabled
from dynajit.eager.modes.forward_levels import Level, act, acting
from dynajit.eager.operations import duals
from dynajit.ops.table.tangents import is_continuous, zeros_like

MSG_COUNT: Final = (
    "Function's jvp returned an invalid number of forward gradients (expected {expected} but got "
    "{given})"
)
MSG_NO_VIEW: Final = (
    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
    "returning a view{of}."
)
MSG_CONSTANT: Final = (
    "A custom Function's jvp gives a tangent of an output that has none: it was marked as "
    "non-differentiable, or its dtype is neither floating nor complex.  You should return None at "
    "that position instead."
)
MSG_NOT_IN_PLACE: Final = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
    "forward is modifying an input inplace, then the jvp function must modify the corresponding "
    "gradient inplace."
)

Applied = Callable[[tuple[Any, ...]], tuple[Any, Any]]


def follow_function(function: Any, args: tuple[Any, ...], apply: Applied) -> tuple[Any, Any]:
    """The context of a call and its outputs, with tangents at the levels that act.

    Args:
        function: the class.
        apply: calls it, without looking at tangents of the innermost level.
    """
    levels = acting()
    if not levels or is_inference_mode_enabled():
        return apply(args)
    level = levels[-1]
    tangents = [duals.tangent_of(level, x) if isinstance(x, TensorBase) else None for x in args]
    act(levels[:-1])
    try:
        context, outputs = follow_function(function, args, apply)
        if any(tangent is not None for tangent in tangents):
            given = _given(context, args, tangents)
            found = _called(function, context, given)
            outputs = _attached(level, args, tangents, outputs, found, context._marks)
    finally:
        act(levels)
    return context, outputs


def _given(context: Any, args: tuple[Any, ...], tangents: list[Any]) -> list[Any]:
    """What `jvp` gets."""
    return [
        zeros_like(x)
        if tangent is None
        and context.materialize_grads
        and isinstance(x, TensorBase)
        and is_continuous(x)
        else tangent
        for x, tangent in zip(args, tangents, strict=True)
    ]


def _called(function: Any, context: Any, given: list[Any]) -> tuple[Any, ...]:
    """What `jvp` gives."""
    context._is_forward = True
    try:
        found = function.jvp(context, *given)
    finally:
        context._is_forward = False
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _attached(
    level: Level,
    args: tuple[Any, ...],
    tangents: list[Any],
    outputs: Any,
    found: tuple[Any, ...],
    marks: Sequence[tuple[bool, bool]],
) -> Any:
    """The outputs, which have their tangents then."""
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    if len(found) != len(results):
        raise AutogradError(MSG_COUNT.format(expected=len(results), given=len(found)))
    for result, tangent, (is_dirty, is_constant) in zip(results, found, marks, strict=True):
        if not isinstance(result, TensorBase):
            continue
        if tangent is None:
            level.note(result, None)
            continue
        if is_constant or not is_continuous(result):
            raise AutogradError(MSG_CONSTANT)
        if tuple(tangent.shape) != tuple(result.shape):
            raise AutogradError(
                duals.MSG_SIZE.format(size=list(result.shape), given=list(tangent.shape))
            )
        _attach(level, args, tangents, result, tangent, is_dirty)
    return outputs


def _attach(
    level: Level,
    args: tuple[Any, ...],
    tangents: list[Any],
    result: Any,
    tangent: Any,
    is_dirty: bool,
) -> None:
    """Let an output have its tangent, in the memory of that of an argument whose memory it has."""
    for x, known in zip(args, tangents, strict=True):
        if known is None or not isinstance(x, TensorBase) or x._storage is not result._storage:
            continue
        if is_dirty and tangent is not known:
            raise AutogradError(MSG_NOT_IN_PLACE)
        if not is_dirty and (tangent is known or tangent._base is None):
            raise AutogradError(MSG_NO_VIEW.format(of=""))
        if not duals.shares_memory(tangent, known):
            of = " of the given tangent" if known._base is None else " of the same base"
            raise AutogradError(MSG_NO_VIEW.format(of=of))
        duals.note(level, result, tangent)
        return
    sources = [other for other in tangents if other is not None]
    duals.attach(level, result, tangent, sources)
