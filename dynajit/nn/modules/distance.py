"""Distances by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.distance import CosineSimilarity, PairwiseDistance

__all__ = [
    "CosineSimilarity",
    "PairwiseDistance",
]
