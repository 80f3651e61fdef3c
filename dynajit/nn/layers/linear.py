"""Linear layers and the layers that only rearrange: Linear, Identity, Flatten, Unflatten."""

import math
from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


class Identity(Module):
    """Returns its input; accepts and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Module):
    """`y = x @ weight.T + bias`.

    Args:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether there is an additive bias.

    Shape: (*, in_features) -> (*, out_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias: Parameter | None = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within 1/sqrt(in_features), as PyTorch's default."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that PyTorch's attention uses for its last projection."""


class Flatten(Module):
    """The dims from `start_dim` to `end_dim` as one."""

    _options_in_repr = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The flattened input."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """Dim `dim` as several of sizes `unflattened_size`."""

    _options_in_repr = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        is_sequence = isinstance(unflattened_size, (tuple, list))
        if not is_sequence or not all(isinstance(n, int) for n in unflattened_size):
            raise ArgumentError(
                f"Unflatten: unflattened_size={unflattened_size!r}.  Expected a tuple of integers."
            )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """The input with one dim split."""
        return input.unflatten(self.dim, self.unflattened_size)
