"""Convolution layers: Conv1d to Conv3d, their transposes, Unfold and Fold."""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _per_dim(value: int | Sequence[int], n: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * n


class _Convolution(Module):
    """What all convolution layers share: options, parameters and their start values.

    Shape of the weight: (out_channels, in_channels / groups, *kernel_size); of a transposed
    convolution (in_channels, out_channels / groups, *kernel_size).
    """

    _n: ClassVar[int]
    _is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        output_padding: Any = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_options(in_channels, out_channels, groups, padding, stride, padding_mode)
        n = self._n
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _per_dim(kernel_size, n)
        self.stride = _per_dim(stride, n)
        self.padding: Any = padding if isinstance(padding, str) else _per_dim(padding, n)
        self.dilation = _per_dim(dilation, n)
        self.transposed = self._is_transposed
        self.output_padding = _per_dim(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = in_channels, out_channels
        if not self._is_transposed:
            first, second = second, first
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        if bias:
            self.bias: Parameter | None = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within 1/sqrt(inputs of one output), as PyTorch's default."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs = self.weight.shape[1] * math.prod(self.kernel_size)
            bound = 1 / math.sqrt(inputs) if inputs > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def _padded(self, input: Tensor) -> Tensor:
        """The input with the layer's padding around it, which is not zeros."""
        amounts: list[int] = []
        for d in reversed(range(self._n)):
            if isinstance(self.padding, str):
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                total = 0 if self.padding == "valid" else total
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[d]] * 2
        return F.pad(input, amounts, mode=self.padding_mode)

    def extra_repr(self) -> str:
        """Channels and options that differ from their defaults, for repr."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        zeros, ones = (0,) * self._n, (1,) * self._n
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _check_options(
    in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of 'valid', 'same'"
            )
        steps = stride if isinstance(stride, Sequence) else (stride,)
        if padding == "same" and any(step != 1 for step in steps):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'"
        )


class _Forward(_Convolution):
    """A convolution.

    Args:
        in_channels, out_channels: sizes of dim 1 of input and output.
        kernel_size: size of the window, for every dim or per dim.
        stride, dilation: steps between windows and between their elements.
        padding: elements added on both sides of each dim, "same" or "valid".
        groups: groups of channels that are convolved apart.
        bias: whether there is an additive bias per output channel.
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".

    Shape: (N, in_channels, *sizes) or (in_channels, *sizes) -> out_channels likewise.
    """

    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """The convolved input."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The input convolved with another weight and bias; derived classes override it."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Forward):
    __doc__ = _Forward.__doc__
    _n = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    __doc__ = _Forward.__doc__
    _n = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    __doc__ = _Forward.__doc__
    _n = 3
    _function = staticmethod(F.conv3d)


class _Transposed(_Convolution):
    """A transposed convolution: the gradient of a convolution with respect to its input.

    Args:
        in_channels, out_channels: sizes of dim 1 of input and output.
        kernel_size, stride, padding, dilation: those of the convolution.
        output_padding: elements added to one side of each output dim.
        groups: groups of channels that are convolved apart.
        bias: whether there is an additive bias per output channel.

    Shape: (N, in_channels, *sizes) or (in_channels, *sizes) -> out_channels likewise.
    """

    _is_transposed = True
    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            kind = type(self).__name__
            raise ValueError(f'Only "zeros" padding mode is supported for {kind}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, output_padding, device=device, dtype=dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The transposed convolution; `output_size` chooses among the possible output sizes."""
        extra = self.output_padding
        if output_size is not None:
            extra = self._output_padding(input, output_size)
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        n = self._n
        wanted = tuple(output_size)[-n:]
        if len(output_size) not in (n, input.dim()):
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {n} or "
                f"{input.dim()} elements (got {len(output_size)})"
            )
        sizes = tuple(input.shape)[-n:]
        extra = []
        for d in range(n):
            span = self.dilation[d] * (self.kernel_size[d] - 1) + 1
            least = (sizes[d] - 1) * self.stride[d] - 2 * self.padding[d] + span
            if not least <= wanted[d] < least + self.stride[d]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes of dimension {d} range "
                    f"from {least} to {least + self.stride[d] - 1} (for an input of {sizes})"
                )
            extra.append(wanted[d] - least)
        return tuple(extra)


class ConvTranspose1d(_Transposed):
    __doc__ = _Transposed.__doc__
    _n = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    __doc__ = _Transposed.__doc__
    _n = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    __doc__ = _Transposed.__doc__
    _n = 3
    _function = staticmethod(F.conv_transpose3d)


class Unfold(Module):
    """Windows of (N, C, H, W) as columns (N, C * kh * kw, windows)."""

    _options_in_repr = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Module):
    """Columns (N, C * kh * kw, windows) added up to (N, C, *output_size)."""

    _options_in_repr = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The sum of the windows."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )
