"""`DataLoader`: batches of a data set, in this process.

Samples are collated as in PyTorch: tensors are stacked, numbers become tensors, containers are
collated by element. A data set that answers to a list of indices by batches of tensors
(TensorDataset) is indexed once per batch instead of once per sample.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dynajit.core.errors import ArgumentError, UnsupportedError
from dynajit.eager.creation import as_tensor, tensor
from dynajit.eager.random import Generator
from dynajit.eager.tensor import Tensor
from dynajit.ops.functions import stack
from dynajit.utils.data.dataset import TensorDataset
from dynajit.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


def default_collate(batch: list[Any]) -> Any:
    """One batch out of samples of equal structure.

    Raises:
        ArgumentError: the samples hold something that cannot be batched.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch, 0)
    if isinstance(first, (np.ndarray, np.generic)):
        return as_tensor(np.stack([np.asarray(item) for item in batch]))
    if isinstance(first, (bool, int, float)):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(items)) for items in zip(*batch, strict=True)))
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(list(items)) for items in zip(*batch, strict=True)]
        return columns if isinstance(first, list) else tuple(columns)
    raise ArgumentError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first).__name__}.  Give the DataLoader a collate_fn."
    )


class DataLoader:
    """Iterates over batches of a data set.

    Args:
        dataset: has `__getitem__` and `__len__`.
        batch_size: samples per batch; None yields single samples.
        shuffle: visit in a new random order each time.
        sampler, batch_sampler: own order of indices, or of lists of indices.
        collate_fn: makes a batch out of a list of samples.
        drop_last: leave out a last batch that is smaller.
        generator: source of the random order.
        num_workers: only 0 (loading in this process).

    Raises:
        ValueError: options that exclude each other.
        UnsupportedError: num_workers > 0.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if num_workers:
            raise UnsupportedError(
                f"DataLoader(num_workers={num_workers}): only loading in this process is "
                "available.  Use num_workers=0."
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                "and drop_last"
            )
        self.dataset = dataset
        self.batch_size = None if batch_sampler is not None else batch_size
        self.num_workers = num_workers
        self.drop_last = drop_last
        self.generator = generator
        self.sampler = sampler
        if sampler is None and batch_sampler is None:
            choose = RandomSampler(dataset, generator=generator) if shuffle else None
            self.sampler = choose or SequentialSampler(dataset)
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.collate_fn = collate_fn

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                sample = self.dataset[index]
                yield sample if self.collate_fn is None else self.collate_fn(sample)
            return
        whole = self.collate_fn is None and type(self.dataset) is TensorDataset
        for indices in self.batch_sampler:
            if whole:
                yield list(self.dataset[list(indices)])
            else:
                collate = self.collate_fn or default_collate
                yield collate([self.dataset[index] for index in indices])

    def __len__(self) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
