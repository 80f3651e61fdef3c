"""Data sets with an index and a length, and ways to combine them."""

import bisect
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from dynajit.core.errors import BoundsError
from dynajit.eager.random import Generator
from dynajit.eager.tensor import Tensor
from dynajit.utils.data.sampler import permutation


class Dataset:
    """Anything with `__getitem__` (and `__len__` for most samplers)."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class TensorDataset(Dataset):
    """Samples are rows of tensors with the same first size.

    Raises:
        ValueError: the first sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            sizes = [tensor.shape[0] for tensor in tensors]
            raise ValueError(
                f"Size mismatch between tensors: the first sizes are {sizes}.  "
                "Expected them to be equal."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class ConcatDataset(Dataset):
    """Several data sets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise BoundsError(f"index {index} is out of range for {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class Subset(Dataset):
    """The samples of a data set at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset]:
    """Split at random into parts of these lengths (or fractions that sum to 1).

    Raises:
        ValueError: the lengths do not sum to the size of the data set.
    """
    sizes = _sizes(lengths, len(dataset))
    if sum(sizes) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = permutation(len(dataset), generator)
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _sizes(lengths: Sequence[float], total: int) -> list[int]:
    if not math.isclose(sum(lengths), 1) or sum(lengths) > 1 or total == 1:
        return [int(length) for length in lengths]
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for place in range(total - sum(sizes)):
        sizes[place % len(sizes)] += 1
    return sizes
