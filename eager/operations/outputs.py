"""Writing a library function's result into `out=`.

Contract: the function runs as without `out`, with no tape and no autocast; then each result is
written into its tensor, which is resized if it has another shape, and cast as far as the function
casts. Where something is refused, nothing is written. A write counts once in the storage's version.
Called through `dispatch.write_into`.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentError,
    AutogradError,
    DeviceError,
    DTypeError,
    DTypeTypeError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types.dtypes import Category
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.operations.duals import has_overlap, is_dual
from dynajit.eager.operations.mirrored_views import store
from dynajit.eager.operations.reshaping import resized
from dynajit.eager.operations.writes.commit import write
from dynajit.eager.operations.writes.refusals import (
    MSG_OVERLAP,
    MSG_PARTIAL_OVERLAP,
    check_writable,
    refuse_partial_overlap,
)
from dynajit.ops.calls.autocast import disabled
from dynajit.ops.table.op_table import TABLE


def write_into(
    out: Any,
    name: str,
    run: Callable[[], Any],
    operands: tuple[Any, ...],
    *,
    casts: bool,
    warns: bool,
) -> Any:
    """See `dispatch.write_into`."""
    targets = list(out) if isinstance(out, (tuple, list)) else [out]
    for target in targets:
        if not isinstance(target, TensorBase):
            raise ArgumentError(
                f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}.  Give an "
                "eager tensor, and a tuple of them to a function with several results."
            )
    given = list(_tensors((out, operands)))
    recorded = is_grad_enabled() and (
        any(t.requires_grad for t in given) or any(_views_recorded(t) for t in targets)
    )
    if is_dual(given):
        raise UnsupportedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an "
            "out= function.  Leave out= out."
        )
    with no_grad(), disabled():
        result = run()
        results = _results_for(out, targets, result, name)
        if recorded and any(r.dtype.category >= Category.FLOATING for r in results):
            raise AutogradError(
                f"{name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad.  Leave out= out, or call "
                "it under no_grad()."
            )
        for target, value in zip(targets, results, strict=True):
            _check(target, value, name, casts and not isinstance(result, tuple))
            if tuple(target.shape) == tuple(value.shape):
                refuse_partial_overlap(target, _tensors(operands), name)
            elif target._base is not None:
                _check_resized_view(target, tuple(value.shape), _tensors(operands), name)
        for target, value in zip(targets, results, strict=True):
            _store(target, value, name, warns)
    if not isinstance(result, tuple):
        return out
    make = getattr(type(result), "_make", tuple)  # a named tuple, or a plain one
    return make(targets)


def _views_recorded(tensor: Any) -> bool:
    """Whether a tensor looks at what requires a gradient, itself not recorded."""
    base = tensor._base
    return base is not None and base.requires_grad


def _tensors(value: Any) -> Iterator[Any]:
    """The eager tensors in arguments, which may be nested."""
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _results_for(out: Any, targets: list[Any], result: Any, name: str) -> list[Any]:
    """One result for each target."""
    several = isinstance(result, (tuple, list))
    results = list(result) if several else [result]
    if several is not isinstance(out, (tuple, list)) or len(results) != len(targets):
        wanted = f"a tuple of {len(results)} tensors" if several else "a tensor"
        raise ArgumentError(
            f"{name}(): argument 'out' must be {wanted}, not {type(out).__name__}"
            + (f" of {len(targets)}." if isinstance(out, (tuple, list)) else ".")
        )
    if not all(isinstance(value, TensorBase) for value in results):
        raise UnsupportedError(
            f"{name}(): an eager tensor given as out= cannot hold what is recorded into a graph.  "
            "Use the result."
        )
    return results


def _check(target: Any, value: Any, name: str, casts: bool) -> None:
    if value.device is not target.device:
        raise DeviceError(
            f"{name}(): the result is on {value.device}, but out on {target.device}.  Expected out "
            "on the device of the arguments."
        )
    if value.dtype is not target.dtype:
        if not casts:
            raise DTypeError(
                f"{name}(): Expected out tensor to have dtype {value.dtype.name}, but got "
                f"{target.dtype.name} instead."
            )
        if value.dtype.category > target.dtype.category:
            raise (DTypeTypeError if name in ("cat", "concat", "concatenate") else DTypeError)(
                f"{name}(): result type {value.dtype.name} can't be cast to the desired output "
                f"type {target.dtype.name}.  Give a tensor of {value.dtype.name}."
            )
    if tuple(target.shape) == tuple(value.shape):
        check_writable(target, name)


def _check_resized_view(
    target: Any, shape: tuple[int, ...], operands: Iterator[Any], name: str
) -> None:
    """Refuse other sizes of a view that repeats elements, or that then shares some with operands.

    Raises:
        ShapeError: it does.
    """
    if has_overlap(target._memory):
        raise ShapeError(MSG_OVERLAP.format(name=name))
    flat = any_arrays.flat_memory(target._memory)[target.storage_offset() :][: math.prod(shape)]
    for operand in operands:
        if operand is not target and any_arrays.overlap_partly(flat, operand._memory):
            raise ShapeError(MSG_PARTIAL_OVERLAP.format(name=name))


def _store(target: Any, value: Any, name: str, warns: bool) -> None:
    if value.dtype is not target.dtype:
        value = TABLE.cast(value, dtype=target.dtype)
    had, wanted = tuple(target.shape), tuple(value.shape)
    if had == wanted:
        write(target, value)
        return
    if warns and math.prod(had):
        warnings.warn(
            f"{name}(): An output with one or more elements was resized since it had shape "
            f"{list(had)}, which does not match the required output shape {list(wanted)}. Give an "
            "empty tensor, or one of that shape.",
            UserWarning,
            stacklevel=6,
        )
    resized(target, wanted)  # which counts as the write
    store(target, value.array)
