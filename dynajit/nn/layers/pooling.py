"""Pooling layers: each is one function of `nn.functional`."""

from collections.abc import Callable
from typing import Any, ClassVar

from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.module import Module
from dynajit.ops.calls.arguments import is_integer


class _Pool(Module):
    """What pools share: the function they are."""

    _function: ClassVar[Callable[..., Any]]


class _MaxPool(_Pool):
    """The largest element of each window.

    Args:
        kernel_size: size of the windows.
        stride: step between windows; `kernel_size` if None.
        padding: elements of -inf added on both sides of each dim.
        dilation: step between the elements of a window.
        return_indices: whether to give (values, positions).
        ceil_mode: whether a last window may hang over the end.

    Shape: (N, C, *sizes) or (C, *sizes) -> the same with other sizes.
    """

    _options_in_repr = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The pooled input."""
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip


class _MaxUnpool(_Pool):
    """Elements put back where a maximum pool found them; zero elsewhere.

    Args:
        kernel_size, stride, padding: those of the pool.
    """

    _options_in_repr = ("kernel_size", "stride", "padding")
    _n: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = _per_dim(kernel_size, self._n)
        self.stride = _per_dim(stride if stride is not None else kernel_size, self._n)
        self.padding = _per_dim(padding, self._n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """The larger tensor."""
        return self._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


def _per_dim(value: Any, n: int) -> tuple[int, ...]:
    return (value,) * n if is_integer(value) else tuple(value)


class _AvgPool(_Pool):
    """The mean of each window.

    Args:
        kernel_size: size of the windows.
        stride: step between windows; `kernel_size` if None.
        padding: zeros added on both sides of each dim.
        ceil_mode: whether a last window may hang over the end.
        count_include_pad: whether the padding counts as elements.
        divisor_override: divides the sums in place of the count.

    Shape: (N, C, *sizes) or (C, *sizes) -> the same with other sizes.
    """

    _options_in_repr = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L) or (C, L)."""

    _options_in_repr = ("kernel_size", "stride", "padding")
    _function = staticmethod(F.avg_pool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _per_dim(kernel_size, 1)
        self.stride = _per_dim(stride if stride is not None else kernel_size, 1)
        self.padding = _per_dim(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class _LPPool(_Pool):
    """(sum of x ** p) ** (1 / p) of each window.

    Args:
        norm_type: p.
        kernel_size: size of the windows.
        stride: step between windows; `kernel_size` if None.
        ceil_mode: whether a last window may hang over the end.
    """

    _options_in_repr = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return self._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveAvgPool(_Pool):
    """Means of as many windows as the output shall have elements.

    Args:
        output_size: a number for all dims, or one per dim; None keeps a dim.
    """

    _options_in_repr = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return self._function(input, self.output_size)


class _AdaptiveMaxPool(_Pool):
    """Largest elements of as many windows as the output shall have elements.

    Args:
        output_size: a number for all dims, or one per dim; None keeps a dim.
        return_indices: whether to give (values, positions).
    """

    _options_in_repr = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The pooled input."""
        return self._function(input, self.output_size, self.return_indices)


class MaxPool1d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool3d)


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _n = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _n = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _n = 3
    _function = staticmethod(F.max_unpool3d)


class AvgPool2d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _function = staticmethod(F.avg_pool3d)


class LPPool1d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool3d)


class _FractionalMaxPool(_Pool):
    """The largest element of each window; the places of the windows are partly random.

    Args:
        kernel_size: size of the windows.
        output_size: how many windows there are per dim.
        output_ratio: instead of it, a share of the input's sizes, within (0, 1).
        return_indices: whether to give (values, positions).
        _random_samples: a buffer of numbers within [0, 1) that fix the places; drawn if None.

    Raises:
        ValueError: neither a size nor a ratio, both, or a ratio out of range.

    Shape: (N, C, *sizes) or (C, *sizes) -> the same with other sizes.
    """

    _n: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = self._per_dim(kernel_size)
        if any(width <= 0 for width in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self._per_dim(output_size)
        self.output_ratio = None if output_ratio is None else self._per_dim(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if not all(0 < ratio < 1 for ratio in self.output_ratio or ()):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _per_dim(self, value: Any) -> tuple[Any, ...]:
        is_one = isinstance(value, float) or is_integer(value)
        return (value,) * self._n if is_one else tuple(value)

    def forward(self, input: Tensor) -> Any:
        """The pooled input."""
        return self._function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    _n = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    _n = 3
    _function = staticmethod(F.fractional_max_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _function = staticmethod(F.adaptive_max_pool3d)
