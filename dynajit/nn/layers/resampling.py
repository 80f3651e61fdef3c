"""Layers that resample, pad or shuffle, and dropout of channels: each is one function."""

from collections.abc import Callable
from typing import Any, ClassVar

from dynajit.core.errors import ShapeValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.layers.activation import Dropout
from dynajit.nn.module import Module
from dynajit.ops.functions.networks.resampling import padding_amounts


class Upsample(Module):
    """The input with other sizes, see `nn.functional.interpolate`.

    Args:
        size: the new sizes; or
        scale_factor: how often the old ones.
        mode: "nearest", "linear", "bilinear", "trilinear" or "bicubic".
        align_corners: whether first and last elements lie on each other.
        recompute_scale_factor: whether positions follow from the sizes.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resampled input."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Size or factor, and mode, for repr."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of (N, C, H, W) by the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of (N, C, H, W) by two lines, corners aligned."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """(*, C * r * r, H, W) -> (*, C, H * r, W * r)."""

    _options_in_repr = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The shuffled input."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """(*, C, H * r, W * r) -> (*, C * r * r, H, W)."""

    _options_in_repr = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The shuffled input."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """Channels of groups, taken in turn from each."""

    _options_in_repr = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The shuffled input."""
        return F.channel_shuffle(input, self.groups)


class _ChannelDropout(Dropout):
    """Zeroes whole channels with probability `p` in training and scales the others by 1 / (1 - p).

    Raises:
        ValueError: `p` is not in [0, 1].
    """

    _function: ClassVar[Callable[..., Any]]

    def forward(self, input: Any) -> Any:
        """The input, thinned out in training."""
        return self._function(input, self.p, self.training, inplace=self.inplace)


class Dropout1d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    _function = staticmethod(F.dropout1d)


class Dropout2d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    _function = staticmethod(F.dropout2d)


class Dropout3d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    _function = staticmethod(F.dropout3d)


class _Pad(Module):
    """Elements added around the last dims.

    Args:
        padding: amount on every side, or (left, right, top, bottom, ...).
    """

    _n: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = padding_amounts(padding, self._n)

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        if self._mode == "circular" and input.ndim not in (self._n + 1, self._n + 2):
            raise ShapeValueError(
                f"CircularPad{self._n}d: expected {self._n + 1}D or {self._n + 2}D input, got "
                f"{input.ndim}D."
            )
        return F.pad(input, self.padding, mode=self._mode)

    def extra_repr(self) -> str:
        """Amounts, for repr."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Elements of one value added around the last dims.

    Args:
        padding: amount on every side, or (left, right, top, bottom, ...).
        value: what is added.
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Amounts and value, for repr."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Zeros added around the last dims.

    Args:
        padding: amount on every side, or (left, right, top, bottom, ...).
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Amounts, for repr."""
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    _n = 1


class ConstantPad2d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    _n = 2


class ConstantPad3d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    _n = 3


class ZeroPad1d(_ZeroPad):
    __doc__ = _ZeroPad.__doc__
    _n = 1


class ZeroPad2d(_ZeroPad):
    __doc__ = _ZeroPad.__doc__
    _n = 2


class ZeroPad3d(_ZeroPad):
    __doc__ = _ZeroPad.__doc__
    _n = 3


class ReflectionPad1d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 3
    _mode = "replicate"


class CircularPad1d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    __doc__ = _Pad.__doc__
    _n = 3
    _mode = "circular"
