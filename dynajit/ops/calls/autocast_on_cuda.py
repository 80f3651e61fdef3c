"""What autocast does to tensors of a GPU, by the names of library functions and rows.

Contract: PyTorch's lists for CUDA, as far as the names are here. `FUNCTIONS` is about functions
that have one of the decorators of `ops.calls.autocast`, `ROWS` about rows, whoever calls them.

Source: PyTorch 2.x, "CUDA Ops that can autocast to float16", "... to float32", "... that promote to
the widest input type", "Prefer binary_cross_entropy_with_logits over binary_cross_entropy".
"""

import enum
from typing import Final


class Rule(enum.Enum):
    """What is done to the operands of a call."""

    LOWER = "autocast's dtype"
    FULL = "float32"
    WIDEST = "float32 if an operand has it, else autocast's dtype"
    BANNED = "refused"


_LOWER: Final = (
    "addbmm", "addmm", "addmv", "baddbmm", "bmm", "chain_matmul", "multi_dot", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear", "matmul", "mm",
    "spmm", "prelu", "scaled_dot_product_attention", "multi_head_attention_forward", "vecdot",
)  # fmt: skip
_FULL: Final = (
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cdist", "cosine_similarity",
    "cross_entropy", "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nll_loss",
    "pdist", "poisson_nll_loss", "prod", "renorm", "smooth_l1_loss", "soft_margin_loss",
    "triplet_margin_loss",
)  # fmt: skip
_WIDEST: Final = ("grid_sample", "tensordot", "cross", "bilinear")

FUNCTIONS: Final = {
    **dict.fromkeys(_LOWER, Rule.LOWER),
    **dict.fromkeys(_FULL, Rule.FULL),
    **dict.fromkeys(_WIDEST, Rule.WIDEST),
    "binary_cross_entropy": Rule.BANNED,
}
ROWS: Final = {
    **dict.fromkeys(
        (
            "acos", "asin", "cosh", "sinh", "tan", "exp", "expm1", "log", "log10", "log1p", "log2",
            "pow", "square", "reciprocal", "rsqrt", "erfinv", "softplus", "sum", "prod", "cumsum",
            "cumprod", "softmax", "log_softmax", "layer_norm", "euclidean_norm",
        ),
        Rule.FULL,
    ),
    **dict.fromkeys(("atan2", "scatter_add", "index_put"), Rule.WIDEST),
}  # fmt: skip

MSG_BANNED: Final = (
    "binary_cross_entropy: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
    "unsafe to autocast: a sigmoid in float16 gives 0 and 1, whose logarithms are infinite.  Use "
    "binary_cross_entropy_with_logits or BCEWithLogitsLoss, which contain the sigmoid."
)
