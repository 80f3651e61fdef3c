"""Embeddings by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.embedding import Embedding, EmbeddingBag

__all__ = [
    "Embedding",
    "EmbeddingBag",
]
