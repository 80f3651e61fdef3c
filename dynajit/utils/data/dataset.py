"""Data sets with an index and a length, or with an order of their own, and ways to combine them."""

import bisect
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from dynajit.core.errors import BoundsError, InvalidValueError
from dynajit.eager.modes.random import Generator
from dynajit.eager.tensor.tensor import Tensor
from dynajit.utils.data.sampler import permutation


class Dataset:
    """Anything with `__getitem__` (and `__len__` for most samplers)."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class IterableDataset(Dataset):
    """Samples in an order of their own: subclasses define `__iter__`.

    In a loader with workers each has a copy; `get_worker_info()` says which one runs.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Samples are rows of tensors with the same first size.

    Raises:
        AssertionError: the first sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            sizes = [tensor.shape[0] for tensor in tensors]
            raise AssertionError(
                f"Size mismatch between tensors: the first sizes are {sizes}.  "
                "Expected them to be equal."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset):
    """Samples are tuples (or dicts) of the samples of several data sets of one length.

    Raises:
        InvalidValueError: no data set, data sets of different lengths, or both forms at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise InvalidValueError(
                "StackDataset: expected data sets as positional arguments (samples are tuples) or "
                "as keyword arguments (samples are dicts); both types are given."
            )
        self.datasets: Any = args or kwargs
        parts = self._parts()
        if not parts:
            raise InvalidValueError("At least one dataset should be passed")
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise InvalidValueError("Size mismatch between datasets")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, items: Any) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, items, strict=True))
        return tuple(items)

    def __getitem__(self, index: Any) -> Any:
        return self._sample(part[index] for part in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Several samples, each data set asked once where it can be."""
        columns = [samples_at(part, indices) for part in self._parts()]
        if any(len(column) != len(indices) for column in columns):
            raise InvalidValueError(
                "Nested dataset's output size mismatch.  Expected one sample per index."
            )
        return [self._sample(items) for items in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset):
    """Several data sets, one after the other.

    Raises:
        AssertionError: there is none, or one has an order of its own.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            if index < 0:
                raise InvalidValueError(
                    "absolute value of index should not exceed dataset length: "
                    f"{index} of {len(self)}"
                )
            raise BoundsError(f"index {index} is out of range for {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset):
    """Data sets with an order of their own, one after the other.

    Raises:
        AssertionError: on iteration, one has no order of its own.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            _require_iterable(dataset)
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            _require_iterable(dataset)
            total += len(dataset)
        return total


def _require_iterable(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset):
    """The samples of a data set at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Several samples, the data set asked once where it can be."""
        samples: list[Any] = samples_at(self.dataset, [self.indices[i] for i in indices])
        return samples

    def __len__(self) -> int:
        return len(self.indices)


def samples_at(dataset: Any, indices: list[Any]) -> Any:
    """The samples at several indices: by the data set's `__getitems__` if it has one."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if callable(at_once) else [dataset[index] for index in indices]


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
    for place, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {place} is 0. This might result in an empty dataset.",
                stacklevel=2,
            )
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
