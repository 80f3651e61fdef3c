"""Single steps of recurrent networks: RNNCell, LSTMCell, GRUCell.

Contract: as PyTorch's; the program writes the loop over time. Whole sequences are in
`nn.layers.recurrent`, the formulas in `ops.functions.networks.recurrent`.
"""

import math
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.ops.functions.creation.creation import zeros
from dynajit.ops.functions.networks.recurrent import (
    gru_cell,
    lstm_cell,
    rnn_relu_cell,
    rnn_tanh_cell,
)


class RNNCellBase(Module):
    """What cells share: parameters and checks.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether there are biases.
        num_chunks: sums per feature of the state.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        size = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(size, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(size, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            table = Parameter(empty(size, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, table)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within 1/sqrt(hidden_size), all parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_rank(self, x: Tensor, what: str) -> None:
        if x.dim() not in (1, 2):
            raise InvalidValueError(
                f"{self._get_name()}: Expected {what} to be 1D or 2D, got {x.dim()}D instead"
            )

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        """The state (B, H) after a step, from an input (B, input_size)."""
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """(B, input_size), (B, H) -> (B, H), or all without B; no state is zeros.

        Raises:
            InvalidValueError: wrong numbers of dims.
            ShapeError: sizes do not fit.
        """
        self._check_rank(input, "input")
        if hx is not None:
            self._check_rank(hx, "hidden")
        is_batched = input.dim() == 2
        rows = input if is_batched else input.unsqueeze(0)
        if hx is None:
            hx = zeros(rows.shape[0], self.hidden_size, dtype=rows.dtype, device=rows.device)
        elif not is_batched:
            hx = hx.unsqueeze(0)
        state = self._step(rows, hx)
        return state if is_batched else state.squeeze(0)

    def extra_repr(self) -> str:
        """Sizes, and settings other than the defaults, for repr."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        if nonlinearity != "tanh":
            parts.append(f"nonlinearity={nonlinearity}")
        return ", ".join(parts)


class RNNCell(RNNCellBase):
    """One step of `RNN`.

    Args:
        input_size, hidden_size, bias: as of `RNNCellBase`.
        nonlinearity: "tanh" or "relu".

    Shape: (B, input_size), (B, H) -> (B, H), or all without B.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        if self.nonlinearity == "tanh":
            return rnn_tanh_cell(input, hx, *self._weights())
        if self.nonlinearity == "relu":
            return rnn_relu_cell(input, hx, *self._weights())
        raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")


class GRUCell(RNNCellBase):
    """One step of `GRU`.

    Args: those of `RNNCellBase` without num_chunks.

    Shape: (B, input_size), (B, H) -> (B, H), or all without B.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def _step(self, input: Tensor, hx: Tensor) -> Tensor:
        return gru_cell(input, hx, *self._weights())


class LSTMCell(RNNCellBase):
    """One step of `LSTM` without a projection.

    Args: those of `RNNCellBase` without num_chunks.

    Shape: (B, input_size), ((B, H), (B, H)) -> hidden and cell, (B, H) each, or all without B.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The hidden state and the cell after a step; no state is zeros.

        Raises:
            InvalidValueError: wrong numbers of dims.
            ShapeError: sizes do not fit.
        """
        self._check_rank(input, "input")
        if hx is not None:
            for number, part in enumerate(hx):
                self._check_rank(part, f"hx[{number}]")
        is_batched = input.dim() == 2
        rows = input if is_batched else input.unsqueeze(0)
        if hx is None:
            none = zeros(rows.shape[0], self.hidden_size, dtype=rows.dtype, device=rows.device)
            hx = (none, none)
        elif not is_batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = lstm_cell(rows, hx, *self._weights())
        return (hidden, cell) if is_batched else (hidden.squeeze(0), cell.squeeze(0))
