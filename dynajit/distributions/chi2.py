"""The chi-squared distribution, by PyTorch's path."""

from dynajit.distributions.gamma import Chi2

__all__ = ["Chi2"]
