"""Attention in several heads as a layer."""

from typing import Any

from dynajit.core.errors import ExpectationError, InvalidValueError
from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.layers.linear import NonDynamicallyQuantizableLinear
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention of queries to keys and values, in heads that each see a part of the features.

    Args:
        embed_dim: features of queries and results, E.
        num_heads: into how many heads they are cut.
        dropout: share of the weights that is dropped in training.
        bias: whether the projections have biases.
        add_bias_kv: whether one learned key and value is added to every sequence.
        add_zero_attn: whether one key and value of zeros is added.
        kdim, vdim: features of keys and values; as queries unless given.
        batch_first: whether tensors lie as (N, L, E) instead of (L, N, E).

    Raises:
        InvalidValueError: `embed_dim` or `num_heads` is not positive.
        ExpectationError: the heads do not divide the features.

    Source: A. Vaswani et al., "Attention Is All You Need", arXiv:1706.03762.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise InvalidValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads != 0:
            raise ExpectationError(
                f"embed_dim must be divisible by num_heads, got embed_dim={embed_dim} and "
                f"num_heads={num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def table(is_there: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(*shape, device=device, dtype=dtype)) if is_there else None

        is_packed = self._qkv_same_embed_dim
        for name, rows, columns, is_there in (
            ("in_proj_weight", 3 * embed_dim, embed_dim, is_packed),
            ("q_proj_weight", embed_dim, embed_dim, not is_packed),
            ("k_proj_weight", embed_dim, self.kdim, not is_packed),
            ("v_proj_weight", embed_dim, self.vdim, not is_packed),
        ):
            self.register_parameter(name, table(is_there, rows, columns))
        self.register_parameter("in_proj_bias", table(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.register_parameter("bias_k", table(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", table(add_bias_kv, 1, 1, embed_dim))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        ):  # fmt: skip
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for vector in (self.bias_k, self.bias_v):
            if vector is not None:
                init.xavier_normal_(vector)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """See `nn.functional.multi_head_attention_forward` for shapes, masks and errors.

        Returns:
            The attended values, and the weights or None.
        """
        return F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            _batch_first=self.batch_first,
        )
