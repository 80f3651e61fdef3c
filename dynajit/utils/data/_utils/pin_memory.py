"""Batches in pinned memory by PyTorch's inner path; defined in `utils.data.pinning`."""

from dynajit.utils.data.pinning import pin_memory

__all__ = ["pin_memory"]
