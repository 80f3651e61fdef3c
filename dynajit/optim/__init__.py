"""Optimisers with PyTorch's names, options and state dicts."""

from dynajit.optim.adam import Adam, AdamW
from dynajit.optim.optimizer import Optimizer
from dynajit.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
