"""Samplers: in which order a loader visits a data set."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynajit.eager.random import Generator, default_generator


def permutation(n: int, generator: Generator | None = None) -> list[int]:
    """The numbers below n in random order, drawn from the generator's stream.

    One 64-bit value of the stream seeds NumPy's permutation, so the order depends only on the
    generator's state.
    """
    seed, offset = (generator or default_generator).reserve(1)
    order = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), offset])).permutation(n)
    return [int(i) for i in order]


class Sampler:
    """An iterable of indices (or of lists of indices)."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class SequentialSampler(Sampler):
    """Every index in order."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices in random order, once each, or drawn with replacement.

    Args:
        replacement: draw each index independently.
        num_samples: how many to draw; the size of the data set if None.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(data_source)
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator
        if self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.replacement:
            seed, offset = (self.generator or default_generator).reserve(1)
            draw = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), offset]))
            yield from (int(i) for i in draw.integers(0, size, self.num_samples))
            return
        remaining = self.num_samples
        while remaining > 0:
            order = permutation(size, self.generator)[:remaining]
            remaining -= len(order)
            yield from order

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices from another sampler."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        super().__init__()
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)
