"""Functions of neural networks with PyTorch's names: `import dynajit.nn.functional as F`.

The functions themselves are in `ops.functions.networks.nn`, `ops.functions.networks.loss` and their
kin (and in `ops.functions` those that are also free functions). Here they get the `inplace`
argument where
PyTorch has one: the result is then written into the input; and the argument `out`.
"""

from dynajit.core.process import late
from dynajit.nn.attention.projections import (  # noqa: F401
    _canonical_mask,
    _in_projection,
    _in_projection_packed,
    _none_or_dtype,
)
from dynajit.nn.ctc import ctc_loss
from dynajit.nn.lookups import embedding, embedding_bag
from dynajit.nn.statistics import batch_norm, instance_norm
from dynajit.nn.writing import in_place, with_inplace
from dynajit.ops.calls.library_calls import publish
from dynajit.ops.functions.elements import elementwise as elementwise_functions
from dynajit.ops.functions.networks import nn as nn_functions
from dynajit.ops.functions.networks import noise as noise_functions
from dynajit.ops.functions.networks import resampling as resampling_functions
from dynajit.ops.functions.networks.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    unfold,
)
from dynajit.ops.functions.networks.fractional_pooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from dynajit.ops.functions.networks.grid import affine_grid, grid_sample
from dynajit.ops.functions.networks.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from dynajit.ops.functions.networks.margin_losses import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    triplet_margin_with_distance_loss,
)
from dynajit.ops.functions.networks.multihead_attention import multi_head_attention_forward
from dynajit.ops.functions.networks.nn import (
    cosine_similarity,
    gelu,
    glu,
    group_norm,
    hardshrink,
    layer_norm,
    linear,
    log_softmax,
    logsigmoid,
    normalize,
    one_hot,
    pad,
    pairwise_distance,
    prelu,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from dynajit.ops.functions.networks.noise import gumbel_softmax
from dynajit.ops.functions.networks.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from dynajit.ops.functions.networks.resampling import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from dynajit.ops.functions.reductions.pair import bilinear, pdist
from dynajit.ops.rows.networks.batch_normalization import local_response_norm
from dynajit.ops.table.overriding import (  # noqa: F401
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    publish_overridable,
)

relu = with_inplace(elementwise_functions.relu)
silu = with_inplace(nn_functions.silu, saves_input=True)
mish = with_inplace(nn_functions.mish, saves_input=True)
leaky_relu = with_inplace(nn_functions.leaky_relu, saves_input=True)
elu = with_inplace(nn_functions.elu, saves_input=True)
selu = with_inplace(nn_functions.selu, saves_input=True)
celu = with_inplace(nn_functions.celu)
relu6 = with_inplace(nn_functions.relu6, saves_input=True)
hardtanh = with_inplace(nn_functions.hardtanh, saves_input=True)
hardsigmoid = with_inplace(nn_functions.hardsigmoid, saves_input=True)
hardswish = with_inplace(nn_functions.hardswish, saves_input=True)
dropout = with_inplace(nn_functions.dropout)
dropout1d = with_inplace(resampling_functions.dropout1d)
dropout2d = with_inplace(resampling_functions.dropout2d)
dropout3d = with_inplace(resampling_functions.dropout3d)
threshold = with_inplace(nn_functions.threshold, saves_input=True)
rrelu = with_inplace(noise_functions.rrelu, saves_input=True)
alpha_dropout = with_inplace(noise_functions.alpha_dropout)
feature_alpha_dropout = with_inplace(noise_functions.feature_alpha_dropout)
relu_ = in_place(relu)
leaky_relu_ = in_place(leaky_relu)
elu_ = in_place(elu)
selu_ = in_place(selu)
celu_ = in_place(celu)
hardtanh_ = in_place(hardtanh)
threshold_ = in_place(threshold)
rrelu_ = in_place(rrelu)
sigmoid = elementwise_functions.sigmoid
tanh = elementwise_functions.tanh

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# The ones that write into `out`, or take NumPy's names of arguments.
publish(
    globals(),
    (
        "avg_pool2d",
        "avg_pool3d",
        "cosine_similarity",
        "gelu",
        "hardshrink",
        "linear",
        "logsigmoid",
        "normalize",
        "pairwise_distance",
        "pdist",
        "softplus",
        "softshrink",
    ),
)
publish_overridable(globals(), __all__)

late.show(
    __name__,
    also=(
        "handle_torch_function",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    ),
)
