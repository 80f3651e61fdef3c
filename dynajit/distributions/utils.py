"""What distributions share: broadcasting of parameters, probabilities and logits, late attributes.

Contract: functions of tensors, written with library functions, so that they compile and have
gradients.
"""

import functools
import math
from collections.abc import Callable
from numbers import Number
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.core.process import late
from dynajit.core.types import dtypes
from dynajit.core.types.type_info import finfo
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions as f
from dynajit.ops.functions.networks.nn import pad

euler_constant: Final = 0.57721566490153286060
"""Euler and Mascheroni's constant."""


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers of a shape, dtype and device."""
    return f.randn(tuple(shape), dtype=dtype, device=device)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype and the device of the
    first tensor.

    Raises:
        ValueError: something is neither a tensor nor a number.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not all(isinstance(value, (Tensor, Number)) for value in values):
        raise InvalidValueError("Input arguments must all be instances of Number or Tensor.")
    dtype, place = (tensors[0].dtype, tensors[0].device) if tensors else (None, None)
    dtype = dtype or dtypes.default_floating()
    made = [
        value if isinstance(value, Tensor) else f.full((), value, dtype=dtype, device=place)
        for value in values
    ]
    return tuple(f.broadcast_tensors(*made))


def batch_shape_of(parameter: Tensor, *given: Any) -> tuple[int, ...]:
    """The batch shape of parameters that were broadcast, of which `parameter` is one; () where all
    were given as numbers."""
    return () if all(isinstance(one, Number) for one in given) else tuple(parameter.shape)


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sums over the last `dim` dims."""
    return value if dim == 0 else value.sum(tuple(range(-dim, 0)))


_sum_rightmost = sum_rightmost


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log odds (`is_binary`), or of log weights along the last dim."""
    return f.sigmoid(logits) if is_binary else f.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept off 0 and 1 by the dtype's eps."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log odds of probabilities (`is_binary`), or their logarithms."""
    clamped = clamp_probs(probs)
    return f.log(clamped) - f.log1p(-clamped) if is_binary else f.log(clamped)


def xlogy_of_logits(x: Tensor, logits: Any) -> Any:
    """x * logits, and 0 where x is 0, whatever the logit is."""
    return x * f.where((x == 0) & (logits == -math.inf), 0.0, logits)


def _below(size: int, diag: int) -> list[tuple[int, int]]:
    """(row, column) of the elements on and below a diagonal, row by row."""
    return [(row, column) for row in range(size) for column in range(min(size, row + diag + 1))]


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements on and below a diagonal, row by row: shape (..., n, n) to (..., count).

    Raises:
        ValueError: there is no such diagonal.
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise InvalidValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    places = [row * size + column for row, column in _below(size, diag)]
    return mat.flatten(-2)[..., tensor(places, dtype=dtypes.int64, device=mat.device)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices with these elements on and below a diagonal, zeros above: the reverse.

    Raises:
        ValueError: no matrix has as many.
    """
    count, size = vec.shape[-1], max(-diag, 0)
    while len(_below(size, diag)) < count:
        size += 1
    places = _below(size, diag)
    if len(places) != count:
        raise InvalidValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    numbers = {place: number + 1 for number, place in enumerate(places)}
    sources = [[numbers.get((row, column), 0) for column in range(size)] for row in range(size)]
    # Number 0 is a zero in front of the elements.
    return pad(vec, (1, 0))[..., tensor(sources, dtype=dtypes.int64, device=vec.device)]


class lazy_property:
    """A method whose result becomes an attribute when it is first read.

    Args:
        wrapped: a method without arguments.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        described: Any = self  # takes its name and docstring, though it is not called
        functools.update_wrapper(described, wrapped)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "sum_rightmost",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
    "xlogy_of_logits",
]

late.show(__name__)
