"""PyTorch's private `_C._nn`: where pickles look for functions of networks such as `gelu`.

Contract: the very functions of `nn.functional` that PyTorch takes from there. Called by users, and
by `pickle`.
"""

from dynajit.nn.functional import (
    avg_pool2d,
    avg_pool3d,
    gelu,
    linear,
    logsigmoid,
    one_hot,
    scaled_dot_product_attention,
    softplus,
    softshrink,
)

log_sigmoid = logsigmoid

__all__ = [
    "avg_pool2d",
    "avg_pool3d",
    "gelu",
    "linear",
    "log_sigmoid",
    "one_hot",
    "scaled_dot_product_attention",
    "softplus",
    "softshrink",
]
