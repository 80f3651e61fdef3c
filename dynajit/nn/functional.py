"""Functions of neural networks with PyTorch's names: `import dynajit.nn.functional as F`.

The functions themselves are `ops.nn_functions` (and `ops.functions` for those that are also free
functions). Here they get the `inplace` argument where PyTorch has one: the result is then written
into the input, which a graph under capture refuses, so that the program falls back to eager.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from dynajit.ops import functions, nn_functions
from dynajit.ops.nn_functions import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_similarity,
    cross_entropy,
    embedding,
    gelu,
    glu,
    group_norm,
    huber_loss,
    kl_div,
    l1_loss,
    layer_norm,
    linear,
    log_softmax,
    logsigmoid,
    mse_loss,
    nll_loss,
    normalize,
    one_hot,
    pad,
    pairwise_distance,
    prelu,
    rms_norm,
    scaled_dot_product_attention,
    smooth_l1_loss,
    softmax,
    softmin,
    softplus,
    softsign,
    tanhshrink,
)


def _with_inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a further argument `inplace`."""

    @wraps(function)
    def wrapper(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        result = function(input, *args, **kwargs)
        return input.copy_(result) if inplace else result

    return wrapper


relu = _with_inplace(functions.relu)
silu = _with_inplace(nn_functions.silu)
mish = _with_inplace(nn_functions.mish)
leaky_relu = _with_inplace(nn_functions.leaky_relu)
elu = _with_inplace(nn_functions.elu)
selu = _with_inplace(nn_functions.selu)
celu = _with_inplace(nn_functions.celu)
relu6 = _with_inplace(nn_functions.relu6)
hardtanh = _with_inplace(nn_functions.hardtanh)
hardsigmoid = _with_inplace(nn_functions.hardsigmoid)
hardswish = _with_inplace(nn_functions.hardswish)
dropout = _with_inplace(nn_functions.dropout)
sigmoid = functions.sigmoid
tanh = functions.tanh

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
]
