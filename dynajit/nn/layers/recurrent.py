"""Recurrent layers over whole sequences: RNN, LSTM, GRU.

Contract: parameters have PyTorch's names (`weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`,
`bias_hh_l0`, `weight_hr_l0` of a projection; `_reverse` behind them for the other direction). The
arguments are checked here; `ops.functions.networks.recurrent` computes. Packed sequences are those
of `nn.sequences`. Single steps are in `nn.layers.recurrent_cells`.
"""

import math
import numbers
import warnings
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError, ShapeError
from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.nn.sequences import PackedSequence
from dynajit.ops.calls.autocast import lower_dtype
from dynajit.ops.functions.creation.creation import zeros
from dynajit.ops.functions.networks.recurrent import LayerWeights, recurrent

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _check_settings(
    input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool,
    dropout: float, proj_size: int,
) -> None:  # fmt: skip
    is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise InvalidValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise ArgumentError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
    for name, size in (
        ("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)
    ):  # fmt: skip
        if size <= 0:
            raise InvalidValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise InvalidValueError(
            "proj_size should be a positive integer or zero to disable projections"
        )
    if proj_size >= hidden_size:
        raise InvalidValueError("proj_size has to be smaller than hidden_size")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


class RNNBase(Module):
    """What recurrent layers share: parameters, checks, stacked layers and directions.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: features of the input.
        hidden_size: features of the state, H.
        num_layers: layers, each over the output of the one before.
        bias: whether there are biases.
        batch_first: whether input and output are (B, T, *) instead of (T, B, *).
        dropout: probability with which outputs of all layers but the last are zeroed in training.
        bidirectional: whether each layer also goes over the sequence from its end.
        proj_size: features of the output of an LSTM whose hidden state is projected; 0: H.

    Shape:
        input (T, B, input_size), (T, input_size) or packed; hx (layers * directions, B, P), P the
        output's features, or without B -> (T, B, directions * P), and the last hx.

    Raises:
        InvalidValueError, ArgumentError: a setting is not acceptable.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise InvalidValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._add_weights(layer, suffix, device, dtype)
        self.reset_parameters()

    def _add_weights(self, layer: int, suffix: str, device: Any, dtype: DType | None) -> None:
        size = _GATES[self.mode] * self.hidden_size
        output = self.proj_size or self.hidden_size
        width = self.input_size if layer == 0 else output * (1 + self.bidirectional)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (size, width)}
        shapes["weight_hh"] = (size, output)
        if self.bias:
            shapes["bias_ih"] = shapes["bias_hh"] = (size,)
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for name, shape in shapes.items():
            names.append(f"{name}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(empty(shape, device=device, dtype=dtype)))
        self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """Uniform within 1/sqrt(hidden_size), all parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Accepted for compatibility: weights need not lie side by side."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for weights in self.all_weights for weight in weights]

    def _layer_weights(self) -> list[LayerWeights]:
        found = []
        for weights in self.all_weights:
            first, second = weights[2:4] if self.bias else (None, None)
            projection = weights[-1] if self.proj_size else None
            found.append(LayerWeights(weights[0], weights[1], first, second, projection))
        return found

    # -- checks ---------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Any) -> None:
        """Refuse an input, (T, B, *) or packed (N, *), of wrong dtype, rank or size.

        Raises:
            InvalidValueError: the dtype is not the weights', and autocast is off.
            ShapeError: anything else.
        """
        dtype = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype != dtype and lower_dtype(input.device) is None:
            raise InvalidValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise ShapeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def _check_state(self, state: Tensor, batch: Any, width: int, what: str) -> None:
        expected = (self.num_layers * (1 + self.bidirectional), batch, width)
        if tuple(state.shape) != expected:
            raise ShapeError(f"Expected {what} size {expected}, got {list(state.shape)}")

    def _state_sizes(self) -> tuple[tuple[str, int], ...]:
        """What each part of the state is called in messages, and its features."""
        return (("hidden", self.hidden_size),)

    def _given_state(self, hx: Any, is_batched: bool) -> tuple[Tensor, ...]:
        """The parts of a given state, with a batch dim."""
        rank, other = (3, "batched 3-D") if is_batched else (2, "unbatched 2-D")
        if hx.dim() != rank:
            raise ShapeError(
                f"For {other} input, hx should also be {rank}-D but got {hx.dim()}-D tensor"
            )
        return (hx if is_batched else hx.unsqueeze(1),)

    def _returned_state(self, state: tuple[Tensor, ...]) -> Any:
        return state[0]

    # -- call -----------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(output, last hx) of a sequence, from the state `hx` on; None is zeros."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise InvalidValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D tensor "
                "instead"
            )
        is_batched = input.dim() == 3
        time = 1 if self.batch_first and is_batched else 0
        steps = input if is_batched else input.unsqueeze(1)
        steps = steps.transpose(0, 1) if time == 1 else steps
        self.check_input(steps, None)
        state = None if hx is None else self._given_state(hx, is_batched)
        output, *ends = self._run(steps, state, steps.shape[1], None)
        if not is_batched:
            return output.squeeze(1), self._returned_state(tuple(end.squeeze(1) for end in ends))
        output = output.transpose(0, 1) if time == 1 else output
        return output, self._returned_state(tuple(ends))

    def _forward_packed(self, input: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, reverse = input
        sizes = tuple(batch_sizes.tolist())
        self.check_input(data, sizes)
        state = None if hx is None else self._given_state(hx, True)
        if state is not None and order is not None:
            state = tuple(part.index_select(1, order) for part in state)
        output, *ends = self._run(data, state, sizes[0], sizes)
        if reverse is not None:
            ends = [end.index_select(1, reverse) for end in ends]
        packed = PackedSequence(output, batch_sizes, order, reverse)
        return packed, self._returned_state(tuple(ends))

    def _run(
        self, input: Tensor, state: tuple[Tensor, ...] | None, batch: Any, batch_sizes: Any
    ) -> tuple[Tensor, ...]:
        sizes = self._state_sizes()
        if state is None:
            count = self.num_layers * (1 + self.bidirectional)
            state = tuple(
                zeros(count, batch, width, dtype=input.dtype, device=input.device)
                for _, width in sizes
            )
        else:
            for part, (what, width) in zip(state, sizes, strict=True):
                self._check_state(part, batch, width, what)
        return recurrent(
            self.mode, input, state, self._layer_weights(), self.bidirectional, self.dropout,
            self.training, batch_sizes,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Sizes, and settings other than the defaults, for repr."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0), ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


def _without_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise InvalidValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h = tanh(w_ih x + b_ih + w_hh h + b_hh) over the steps of a sequence, or relu of it.

    Args:
        input_size, hidden_size, num_layers: as of `RNNBase`.
        nonlinearity: "tanh" or "relu".
        bias, batch_first, dropout, bidirectional: as of `RNNBase`.

    Shape: as of `RNNBase`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        _without_projection(kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise InvalidValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs
        )
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent units: with r and z sigmoids of sums of products with x and h,
    h = (1 - z) tanh(w_in x + b_in + r (w_hn h + b_hn)) + z h.

    Args: those of `RNNBase` without mode and proj_size.

    Shape: as of `RNNBase`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _without_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: with i, f and o sigmoids and n a tanh of sums of products with x and
    h, c = f c + i n and h = o tanh(c), which is projected where there is a `proj_size`.

    Args: those of `RNNBase` without mode.

    Shape: as of `RNNBase`; hx is (h, c), c of shape (layers * directions, B, hidden_size).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _state_sizes(self) -> tuple[tuple[str, int], ...]:
        output = self.proj_size or self.hidden_size
        return (("hidden[0]", output), ("hidden[1]", self.hidden_size))

    def _given_state(self, hx: Any, is_batched: bool) -> tuple[Tensor, ...]:
        hidden, cell = hx
        rank, other = (3, "batched 3-D") if is_batched else (2, "unbatched 2-D")
        if hidden.dim() != rank or cell.dim() != rank:
            raise ShapeError(
                f"For {other} input, hx and cx should also be {rank}-D but got "
                f"({hidden.dim()}-D, {cell.dim()}-D) tensors"
            )
        return (hidden, cell) if is_batched else (hidden.unsqueeze(1), cell.unsqueeze(1))

    def _returned_state(self, state: tuple[Tensor, ...]) -> Any:
        return state
