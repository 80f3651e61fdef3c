"""PyTorch's private `_C._nn`: where pickles look for functions of networks such as `gelu`.

Contract: the very functions of `nn.functional` that PyTorch takes from there.
"""

from typing import Any

from dynajit.core.types.device import parse
from dynajit.core.types.dtypes import DType
from dynajit.nn import module
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


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, DType | None, bool, Any]:
    """What `Module.to` was asked for: (device or None, dtype or None, non_blocking, memory format).

    Raises:
        ArgumentError: a dtype that no module can have.
    """
    memory_format = kwargs.pop("memory_format", None)
    device, dtype, non_blocking = module._parse_to(args, kwargs)
    return None if device is None else parse(device), dtype, non_blocking, memory_format


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
