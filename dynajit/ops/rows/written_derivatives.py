"""Rows that carry derivatives which users write: what `autograd.Function` becomes in a graph.

A call of a Function is a value, computed by nodes that have no gradient, and a derivative that
knows nothing of these nodes. `with_derivative` is the value; its derivative is an attribute, an
object that gives one gradient per operand. Gradients go to `gradient_sink`s, which stand for the
inputs of the call without needing their elements; the other operands are what backward reads.
Where backward reads the result itself, the row is `with_derivative_of_result`: only that one keeps
the result for backward, which later writes to it must then leave alone.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import composite, require_tensor


def _type_of_sink(x: ValueType) -> TensorType:
    found = require_tensor(x, "gradient_sink", "x")
    return TensorType(found.shape, found.dtype, found.device)


@composite(
    infer=_type_of_sink, vjp={"x": lambda g: g}, analytic=False, samples=sample_rules.leading
)
def gradient_sink(ops: Any, x: Any) -> Any:
    """Zeros in the shape of `x`, whose gradient is a gradient of `x`; takes no memory."""
    zero = ops.full(0, shape=(), dtype=x.dtype, device=x.device)
    return ops.expand(zero, shape=tuple(x.shape))


def _type_of_value(*operands: ValueType, derivative: Any) -> TensorType:
    found = require_tensor(operands[0], "with_derivative", "value")
    return TensorType(found.shape, found.dtype, found.device)


def _gradients(g: Any, operands: Sequence[Any], derivative: Any) -> Sequence[Any]:
    return [None, *derivative(g, None, operands[1:])]


def _gradients_of_result(
    g: Any, out: Any, operands: Sequence[Any], derivative: Any
) -> Sequence[Any]:
    return [None, *derivative(g, out, operands[1:])]


@composite(
    infer=_type_of_value,
    vjp={"operands": _gradients},
    analytic=False,
    samples=sample_rules.each,
)
def with_derivative(ops: Any, *operands: Any, derivative: Any) -> Any:
    """The first operand, with gradients of the others: those of `derivative(g, None, others)`.

    The first one itself gets no gradient. The result of `derivative` has one gradient, or None,
    for each of the others; as those of any formula it may differ in shape and dtype from it.
    """
    return operands[0]


@composite(
    infer=_type_of_value,
    vjp={"operands": _gradients_of_result},
    analytic=False,
    samples=sample_rules.each,
)
def with_derivative_of_result(ops: Any, *operands: Any, derivative: Any) -> Any:
    """The same, with gradients that `derivative(g, out, others)` gives from the result `out`."""
    return operands[0]
