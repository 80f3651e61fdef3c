"""Batch normalisation of evaluation, taken into the layer in front of it.

Contract: in evaluation `bn(layer(x))` scales and shifts each channel by fixed numbers, so a layer
with other weights gives the same. Modules are copied, not changed; weights keep the dtype and the
`requires_grad` of those they come from.
"""

import copy
from typing import Any

from dynajit.core.errors import ExpectationError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.ops.functions.creation.creation import ones_like, zeros_like
from dynajit.ops.functions.elements.elementwise import rsqrt

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that does what it and the batch normalisation behind it do.

    Args:
        conv: a convolution in evaluation.
        bn: a batch normalisation in evaluation, with running statistics.
        transpose: conv is a transposed convolution.

    Raises:
        ExpectationError: one of them is in training, or bn has no running statistics.
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch normalisation behind it.

    Args:
        conv_w: weight, (C, *), of a transposed convolution (*, C, *).
        conv_b: bias (C), or None: no bias.
        bn_rm, bn_rv: running mean and variance (C).
        bn_eps: what is added to the variance.
        bn_w, bn_b: scale and shift (C), or None: 1 and 0.
        transpose: the convolution is transposed.
    """
    channel = 1 if transpose else 0
    shape = [-1 if d == channel else 1 for d in range(conv_w.ndim)]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer that does what it and the batch normalisation behind it do.

    Args:
        linear: a linear layer in evaluation.
        bn: a batch normalisation in evaluation, with running statistics, of as many features or 1.

    Raises:
        ExpectationError: one of them is in training, bn has no running statistics or other
            features.
    """
    _check(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise ExpectationError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight (C, N) and bias (C) of a linear layer with a batch normalisation behind it; see
    `fuse_conv_bn_weights`."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _check(layer: Module, bn: Any) -> None:
    if layer.training or bn.training:
        raise ExpectationError(
            "Fusion only for eval!  The layer or the batch normalisation is in training, where it "
            "takes statistics from its input.  Call eval() on both."
        )
    if bn.running_mean is None or bn.running_var is None:
        raise ExpectationError(
            "bn.running_mean and bn.running_var must not be None: without them the batch's own "
            "statistics are used."
        )


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    """`(x - mean) / sqrt(variance + eps) * scale + shift` of each channel as weight and bias."""
    old = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * rsqrt(variance + eps)
    new = (weight * factor.reshape(shape)).to(weight.dtype)
    moved = ((old - mean) * factor + shift).to(weight.dtype if bias is None else bias.dtype)
    return Parameter(new, weight.requires_grad), Parameter(moved, old.requires_grad)
