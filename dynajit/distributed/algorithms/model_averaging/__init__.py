"""Averages of several processes' models, by PyTorch's path: refused."""

from dynajit.distributed.algorithms.model_averaging import averagers

__all__ = ["averagers"]
