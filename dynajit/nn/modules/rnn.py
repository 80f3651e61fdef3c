"""Recurrent layers by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.recurrent import (
    GRU,
    LSTM,
    RNN,
    RNNBase,
)
from dynajit.nn.recurrent_cells import (
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNCellBase,
)

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
]
