"""Library functions of recurrent networks: stacked layers over all steps, and single cells.

Contract: time comes first, (T, B, features), or packed (N, features) with `batch_sizes`; the
weights of one layer and direction are a `LayerWeights`. One product computes what the input gives
to the gates of all steps; the rest is the row `recurrent_states`.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import agree, equals
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.autocast import disabled, is_cast, lower_dtype
from dynajit.ops.functions.networks.nn import dropout as dropped
from dynajit.ops.functions.networks.nn import linear
from dynajit.ops.functions.shapes.shape import narrow
from dynajit.ops.rows.networks.recurrent import columns, gru_step, lstm_step
from dynajit.ops.table.op_table import TABLE


class LayerWeights(NamedTuple):
    """Weights of one layer and direction; absent ones are None.

    Args:
        input: (G, features). hidden: (G, P). input_bias, hidden_bias: (G). projection: (P, H).
    """

    input: Any
    hidden: Any
    input_bias: Any = None
    hidden_bias: Any = None
    projection: Any = None


def _input_gates(mode: str, input: Any, weights: LayerWeights) -> Any:
    """What the input and the biases give to the gates of all steps, in one product."""
    bias, own = weights.input_bias, weights.hidden_bias
    if own is not None and mode == "GRU":
        # The bias of the new gate's product is scaled by the reset gate: it stays outside.
        size = weights.hidden.shape[1]
        none = TABLE.full(0, shape=(size,), dtype=own.dtype, device=own.device)
        own = TABLE.cat(narrow(own, 0, 0, 2 * size), none, dim=0)
    if bias is not None and own is not None:
        bias = bias + own
    return linear(input, weights.input, bias)


def _new_gate_bias(weights: LayerWeights) -> Any:
    size, bias = weights.hidden.shape[1], weights.hidden_bias
    if bias is None:
        weight = weights.hidden
        return TABLE.full(0, shape=(size,), dtype=weight.dtype, device=weight.device)
    return narrow(bias, 0, 2 * size, size)


def _last(states: Any, batch_sizes: tuple[int, ...] | None, is_reversed: bool) -> Any:
    """The state of each sequence after its own last step."""
    if batch_sizes is None:
        return TABLE.select(states, dim=0, index=0 if is_reversed else states.shape[0] - 1)
    if is_reversed:
        return narrow(states, 0, 0, batch_sizes[0])
    ends = []
    starts = (0, *accumulate(batch_sizes))
    for start, (size, following) in zip(starts, pairwise((*batch_sizes, 0)), strict=False):
        if size > following:
            ends.append(narrow(states, 0, start + following, size - following))
    return ends[0] if len(ends) == 1 else TABLE.cat(*reversed(ends), dim=0)


def _direction(
    mode: str, input: Any, state: Sequence[Any], weights: LayerWeights, batch_sizes: Any,
    is_reversed: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """(output, last state ...) of one direction of one layer."""
    operands = [_input_gates(mode, input, weights), weights.hidden, *state]
    if mode == "GRU":
        operands.append(_new_gate_bias(weights))
    if weights.projection is not None:
        operands.append(weights.projection)
    states = TABLE.recurrent_states(
        *operands, mode=mode, batch_sizes=batch_sizes, is_reversed=is_reversed
    )
    last = _last(states, batch_sizes, is_reversed)
    width = state[0].shape[-1]
    if mode != "LSTM":
        return states, last
    cell = columns(TABLE, last, width, width + state[1].shape[-1])
    return columns(TABLE, states, 0, width), columns(TABLE, last, 0, width), cell


def recurrent(
    mode: str,
    input: Any,
    state: tuple[Any, ...],
    weights: Sequence[LayerWeights],
    is_bidirectional: bool = False,
    dropout: float = 0.0,
    training: bool = False,
    batch_sizes: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:
    """Stacked recurrent layers over all steps.

    Under autocast the layers compute in its dtype; those of a GRU in the widest of it and the
    state's, from operands rounded to it.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input: (T, B, features), or packed (N, features).
        state: hidden (layers * directions, B, P), and for an LSTM cell (.., B, H).
        weights: layer after layer, each with its directions.
        dropout: probability for the output of every layer but the last, in training.
        batch_sizes: sequences per step of a packed input.

    Returns:
        output (T, B, directions * P) or packed, and the last state in the form of `state`.

    Raises:
        ShapeError: there is no step.
    """
    steps = input.shape[0] if batch_sizes is None else len(batch_sizes)
    if equals(steps, 0):
        raise ShapeError("Expected sequence length to be larger than 0 in RNN")
    lower = lower_dtype(input.device)
    if lower is not None:
        wide = dtypes.promote(lower, state[0].dtype) if mode == "GRU" else lower
        rounded = _rounding(lower, wide)
        input, state = rounded(input), tuple(map(rounded, state))
        weights = [LayerWeights(*map(rounded, layer)) for layer in weights]
    directions = 2 if is_bidirectional else 1
    between = dropout if training else 0.0
    with disabled():
        return _stacked(mode, input, state, weights, directions, between, batch_sizes)


def _rounding(lower: DType, wide: DType) -> Callable[[Any], Any]:
    """What gives an operand the precision of `lower`, in the dtype `wide`."""
    return lambda x: cast(cast(x, lower), wide) if is_cast(x) else x


def _stacked(
    mode: str, input: Any, state: tuple[Any, ...], weights: Sequence[LayerWeights],
    directions: int, dropout: float, batch_sizes: tuple[int, ...] | None,
) -> tuple[Any, ...]:  # fmt: skip
    """`recurrent`, in the dtype of the operands."""
    ends: list[tuple[Any, ...]] = []
    for first in range(0, len(weights), directions):
        if first and dropout:
            input = dropped(input, dropout, True)
        outputs = []
        for k in range(directions):
            own = tuple(TABLE.select(s, dim=0, index=first + k) for s in state)
            output, *last = _direction(mode, input, own, weights[first + k], batch_sizes, k == 1)
            outputs.append(output)
            ends.append(tuple(last))
        input = outputs[0] if directions == 1 else TABLE.cat(*outputs, dim=len(input.shape) - 1)
    # The states are saved for backward: what the user may write to is a copy.
    output = TABLE.clone(input) if directions == 1 else input
    return (output, *(TABLE.stack(*parts, dim=0) for parts in zip(*ends, strict=True)))


# ---------------------------------------------------------------------------------------------
# cells


def _check_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any) -> None:
    if not agree(input.shape[-1], w_ih.shape[1]):
        raise ShapeError(
            f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}"
        )
    if not agree(hx.shape[-1], w_hh.shape[1]):
        raise ShapeError(
            f"hidden0 has inconsistent hidden_size: got {hx.shape[-1]}, expected {w_hh.shape[1]}"
        )
    if not agree(input.shape[0], hx.shape[0]):
        raise ShapeError(
            f"Input batch size {input.shape[0]} doesn't match hidden0 batch size {hx.shape[0]}"
        )
    if lower_dtype(input.device) is None and not input.dtype is hx.dtype is w_ih.dtype:
        raise DTypeError(
            f"expected input, hidden state and weights of one dtype, but got {input.dtype.name}, "
            f"{hx.dtype.name} and {w_ih.dtype.name}.  Cast one with .to(dtype)."
        )


def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of a plain RNN: tanh(w_ih x + w_hh h), (B, features), (B, H) -> (B, H)."""
    _check_cell(input, hx, w_ih, w_hh)
    return TABLE.tanh(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of a plain RNN: relu(w_ih x + w_hh h), (B, features), (B, H) -> (B, H)."""
    _check_cell(input, hx, w_ih, w_hh)
    return TABLE.relu(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """One step of an LSTM: (B, features), ((B, H), (B, H)) -> hidden and cell, (B, H) each."""
    hidden, cell = hx
    _check_cell(input, hidden, w_ih, w_hh)
    _check_cell(input, cell, w_ih, w_hh)
    return lstm_step(TABLE, linear(input, w_ih, b_ih) + linear(hidden, w_hh, b_hh), cell)


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a GRU: (B, features), (B, H) -> (B, H)."""
    _check_cell(input, hx, w_ih, w_hh)
    gates, product = linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh)
    return gru_step(TABLE, gates, product, 0.0, hx)
