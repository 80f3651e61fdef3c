"""Normalisation over the last dims: LayerNorm and RMSNorm."""

from typing import Any

from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.ops.calls.arguments import is_integer


def _as_shape(size: int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    given: Any = size  # integers are more than int
    return (given,) if is_integer(given) else tuple(given)


class _ScaledAndShifted(Module):
    """What normalisations share: a weight and a bias, or neither."""

    def _add_parameters(
        self,
        shape: int | tuple[int, ...],
        has_weight: bool,
        has_bias: bool,
        device: Any,
        dtype: DType | None,
    ) -> None:
        for name, present in (("weight", has_weight), ("bias", has_weight and has_bias)):
            table = empty(shape, device=device, dtype=dtype) if present else None
            self.register_parameter(name, Parameter(table) if table is not None else None)

    def reset_parameters(self) -> None:
        """Weight one, bias zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_ScaledAndShifted):
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the last dims.

    Args:
        normalized_shape: sizes of the dims that are normalised together.
        eps: added to the (biased) variance.
        elementwise_affine: whether there are a weight and a bias.
        bias: whether there is a bias when `elementwise_affine`.

    Shape: (*, *normalized_shape) -> the same.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_parameters(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and flags, for repr."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """`x / sqrt(mean(x ** 2) + eps) * weight` over the last dims.

    Args:
        normalized_shape: sizes of the dims that are normalised together.
        eps: added to the mean square; the dtype's machine epsilon if None.

    Source: Zhang and Sennrich (2019).
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The normalised input."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape and flags, for repr."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
