"""Floating-point operations of the rows that are products: two per multiplication and addition.

Contract: the composites among them have array functions that multiply matrices out of dispatch's
sight, so they are counted whole; all other products (`einsum`, attention, ...) come down to the row
`matmul`. What is not a product does not count, nor does a bias.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from dynajit.ops.table.op_table import TABLE, Op

Sizes: TypeAlias = tuple[int, ...]


def _matmul(out: Sizes, a: Sizes, b: Sizes) -> int:
    return 2 * prod(out) * a[-1]


def _linear(out: Sizes, x: Sizes, weight: Sizes, bias: Sizes | None) -> int:
    return 2 * prod(out) * weight[1]


def _convolution(out: Sizes, x: Sizes, weight: Sizes, bias: Sizes | None) -> int:
    return 2 * prod(out) * prod(weight[1:])


def _convolution_input(out: Sizes, y: Sizes, weight: Sizes) -> int:
    return 2 * prod(y) * prod(weight[1:])


def _convolution_weight(out: Sizes, y: Sizes, x: Sizes) -> int:
    return 2 * prod(y) * prod(out[1:])


def _recurrent_states(
    out: Sizes, gates: Sizes, weight: Sizes, hidden: Sizes, *others: Sizes
) -> int:
    """One product with the hidden state per step, and one with the projection if there is one."""
    projections = others[1:]  # the operands after an LSTM's cell
    return 2 * prod(gates[:-1]) * (prod(weight) + sum(prod(matrix) for matrix in projections))


def _recurrent_slopes(out: Sizes, g: Sizes, states: Sizes, *operands: Sizes) -> int:
    """The same, and the gates of all steps again where the cell has several and none are kept."""
    # A plain RNN has three operands, too, the last as wide as its states.
    is_kept = len(operands) == 3 and states[-1] > operands[-1][-1]
    gates, weight, hidden, *others = (states, *operands) if is_kept else operands
    again = prod(weight) if others and not is_kept else 0
    return _recurrent_states(out, gates, weight, hidden, *others) + 2 * prod(gates[:-1]) * again


_FORMULAS: Final[Mapping[Op, Callable[..., int]]] = {
    TABLE.matmul: _matmul,
    TABLE.linear: _linear,
    TABLE.convolution: _convolution,
    TABLE.convolution_input: _convolution_input,
    TABLE.convolution_weight: _convolution_weight,
    TABLE.recurrent_states: _recurrent_states,
    TABLE.recurrent_slopes: _recurrent_slopes,
}


def is_product(op: Op) -> bool:
    """Whether `flops_of` knows the row."""
    return op in _FORMULAS


def flops_of(op: Op, inputs: Sequence[Any], result: Any) -> int:
    """What one call of a row computed.

    Args:
        op: a row that is a product.
        inputs: tensors, or None where the row takes None.
        result: its tensor.
    """
    shapes = [None if x is None else tuple(x.shape) for x in inputs]
    return _FORMULAS[op](tuple(result.shape), *shapes)
