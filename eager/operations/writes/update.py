"""Operations in place: `tensor.name_(...)` and the operators `+=` and so on.

Contract: the out-of-place form is computed and written back, so that both forms mean the same;
arithmetic on large tensors that no tape sees is written there at once.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.process import _recorder
from dynajit.core.process.recording import Kind
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.operations.writes.commit import commit
from dynajit.eager.operations.writes.history import copy_with_history
from dynajit.eager.operations.writes.refusals import check_writable, refuse_partial_overlap
from dynajit.ops.evaluate import QUIET
from dynajit.ops.functions import published
from dynajit.ops.functions.elements import elementwise
from dynajit.ops.methods.methods import BINARY_OPERATORS
from dynajit.ops.native._vecmath import fma
from dynajit.ops.table import dispatch
from dynajit.ops.table.overriding import PRIORITY

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
        operand = copy_with_history(tensor)
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
