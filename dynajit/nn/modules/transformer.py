"""Transformers by PyTorch's path; defined in `dynajit.nn`. `_get_activation_fn` has users, too."""

from dynajit.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from dynajit.nn.transformer import _activation_of as _get_activation_fn  # noqa: F401

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
