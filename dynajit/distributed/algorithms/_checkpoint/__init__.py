"""Modules whose activations are computed again, by PyTorch's path."""

from dynajit.distributed.algorithms._checkpoint import checkpoint_wrapper

__all__ = ["checkpoint_wrapper"]
