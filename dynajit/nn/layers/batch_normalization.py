"""Normalisation layers with statistics per channel: BatchNorm, InstanceNorm, GroupNorm,
LocalResponseNorm."""

import warnings
from typing import Any, ClassVar

from dynajit.core.process import process_groups
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.layers.normalization import _ScaledAndShifted
from dynajit.nn.module import Module
from dynajit.ops.functions.creation.creation import ones, zeros
from dynajit.ops.functions.shapes.index import cat
from dynajit.ops.rows.networks.batch_normalization import averaging_factor


class _Norm(_ScaledAndShifted):
    """What batch and instance norm share: parameters and running statistics."""

    _version = 2

    #: Accepted numbers of dims, and the name in messages.
    _ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: DType | None,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._add_parameters(num_features, affine, bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked",
            tensor(0, dtype=dtypes.int64, device=device) if tracked else None,
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batch seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Fresh statistics; weight one, bias zero."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._ranks:
            wanted = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *others: Any
    ) -> None:
        """States older than version 2 have no count of batches."""
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats:
            state_dict.setdefault(key, self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def extra_repr(self) -> str:
        """Sizes and flags, for repr."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    """Mean 0 and variance 1 per channel over the batch, times weight plus bias.

    In evaluation the running statistics take the batch's place, where they are tracked.

    Args:
        num_features: size of dim 1.
        eps: added to the (biased) variance.
        momentum: share of each batch in the running statistics; None averages over all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: whether there are running statistics.
        bias: whether there is a bias when `affine`.

    Shape: (N, num_features, *) -> the same.

    Source: Ioffe and Szegedy (2015).
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input; moves the running statistics in training."""
        self._check_input_dim(input)
        factor: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = averaging_factor(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        uses_running = not self.training or self.track_running_stats
        mean = self.running_mean if uses_running else None
        variance = self.running_var if uses_running else None
        return self._normalised(input, mean, variance, by_batch, factor)

    def _normalised(
        self, input: Tensor, mean: Any, variance: Any, by_batch: bool, factor: Any
    ) -> Tensor:
        """By the batch, which moves the running statistics, or by these."""
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, by_batch, factor, self.eps
        )


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes of a group, which may differ in size
    (Chan et al. (1979) for the variance of all from those of parts); any number of dims from 2 on.

    In evaluation, in one process and without groups it normalises over its own batch, as PyTorch's
    does. All processes of a group call it in training equally often, and run backward.

    Args:
        process_group: None for that of all processes.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _normalised(
        self, input: Tensor, mean: Any, variance: Any, by_batch: bool, factor: Any
    ) -> Tensor:
        group = self._several() if by_batch and self.training else None
        if group is None:
            return super()._normalised(input, mean, variance, by_batch, factor)
        rows = process_groups.STATE.rows
        assert rows is not None, "there is a group of several processes"
        wide = input.float() if input.element_size() < 4 else input
        count, total = _moments(rows(_own_moments(wide), group), self.num_features)
        if mean is not None:
            _move(mean, total[0], factor)
            _move(variance, total[1] * (count / (count - 1)), factor)
        shape = (1, self.num_features, *[1] * (input.dim() - 2))
        scale = (total[1] + self.eps).rsqrt().reshape(shape)
        result = (wide - total[0].reshape(shape)) * scale
        if self.weight is not None:
            result = result * self.weight.reshape(shape)
        if self.bias is not None:
            result = result + self.bias.reshape(shape)
        return result.to(input.dtype)

    def _several(self) -> process_groups.ProcessGroup | None:
        """The group, if it has several processes."""
        if not process_groups.is_initialized():
            return None
        group = process_groups.member_of(self.process_group)
        if isinstance(group, process_groups.NonMember) or group.size() == 1:
            return None
        return group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module`, with every batch normalisation in it replaced by one of this class that has the
        same parameters and buffers; the replacement itself where `module` is one."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            converted.weight, converted.bias = module.weight, module.bias
            converted.running_mean = module.running_mean
            converted.running_var = module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


def _own_moments(input: Tensor) -> Tensor:
    """Per channel the mean, and the sum of squared differences from it; then how many there are."""
    dims = [dim for dim in range(input.dim()) if dim != 1]
    count = input.numel() // max(input.shape[1], 1)
    total = input.sum(dims)
    mean = total / max(count, 1)
    shape = [1, -1] + [1] * (input.dim() - 2)
    squares = (input - mean.reshape(shape)).square().sum(dims)
    return cat([mean, squares, total.new_full((1,), count)])


def _moments(rows: Tensor, channels: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """How many elements of a channel all processes have; mean and biased variance of them."""
    counts = rows[:, 2 * channels :]
    count = counts.sum()
    means = rows[:, :channels]
    mean = (counts * means).sum(0) / count
    squares = rows[:, channels : 2 * channels].sum(0)
    between = (counts * (means - mean).square()).sum(0)
    return count, (mean, (squares + between) / count)


def _move(running: Tensor, batch: Tensor, factor: Any) -> None:
    """Give a batch its share in running statistics."""
    if isinstance(factor, Tensor):
        factor = factor.to(running.dtype)
    with no_grad():
        running.lerp_(batch.detach().to(running.dtype), factor)


class _InstanceNorm(_Norm):
    """Mean 0 and variance 1 per instance and channel, times weight plus bias.

    Args:
        num_features: size of the dim of channels.
        eps: added to the (biased) variance.
        momentum: share of each batch in the running statistics.
        affine: whether there are a weight and a bias.
        track_running_stats: whether there are running statistics, used in evaluation.
        bias: whether there is a bias when `affine`.

    Shape: (N, num_features, *sizes) or (num_features, *sizes) -> the same.

    Source: D. Ulyanov et al., "Instance Normalization", arXiv:1607.08022.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input; moves the running statistics in training."""
        self._check_input_dim(input)
        is_single = input.dim() == self._ranks[0]
        channels = input.dim() - self._ranks[0]
        if input.shape[channels] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features "
                    f"({self.num_features}), but got: {input.shape[channels]}."
                )
            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        batch = input.unsqueeze(0) if is_single else input
        result = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return result.squeeze(0) if is_single else result


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _ranks = (4, 5)


class GroupNorm(_ScaledAndShifted):
    """Mean 0 and variance 1 per instance and group of channels, times weight plus bias.

    Args:
        num_groups: groups, a divisor of num_channels.
        num_channels: size of dim 1.
        eps: added to the (biased) variance.
        affine: whether there are a weight and a bias.
        bias: whether there is a bias when `affine`.

    Shape: (N, num_channels, *) -> the same.

    Source: Y. Wu and K. He, "Group Normalization", arXiv:1803.08494.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_parameters(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes and flags, for repr."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """input / (k + alpha * mean of squares over `size` neighbouring channels) ** beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Constants, for repr."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` of images as PyTorch's older layer computes it.

    Args: as of `LocalResponseNorm`. The window is `2 * ((size + 1) // 2) - 1` channels wide, and
        the first channel stays in every later one, as there.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input, (batch, channels, height, width)."""
        channels, reach = input.shape[1], (self.size + 1) // 2
        square = input * input
        wide = F.pad(square, (0, 0, 0, 0, reach - 1, reach - 1))
        total = wide[:, :channels]
        for place in range(1, 2 * reach - 1):
            total = total + wide[:, place : place + channels]
        if channels > reach:
            total = cat([total[:, :reach], total[:, reach:] + square[:, :1]], 1)
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta
