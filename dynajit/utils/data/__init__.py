"""Data sets, samplers and the loader, by PyTorch's names."""

from dynajit.utils.data.dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from dynajit.utils.data.loader import DataLoader, default_collate
from dynajit.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "random_split",
]
