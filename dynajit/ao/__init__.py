"""What PyTorch does to finished models, by its path: quantization, which is refused."""

from dynajit.ao import quantization

__all__ = ["quantization"]
