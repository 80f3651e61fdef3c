"""Samplers: in which order a loader visits a data set.

Contract: the order is a function of the generator's state; draws move the generator, as every draw
does.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.types import dtypes
from dynajit.eager.modes.random import Generator, default_generator
from dynajit.eager.tensor.creation import as_tensor
from dynajit.eager.tensor.tensor import Tensor

_MASK_64 = (1 << 64) - 1


def draws(generator: Generator | None = None) -> np.random.Generator:
    """NumPy's generator for one purpose, seeded with one value of the stream."""
    seed, offset = (generator or default_generator).reserve(1)
    return np.random.Generator(np.random.Philox(key=[seed & _MASK_64, offset]))


def permutation(n: int, generator: Generator | None = None) -> list[int]:
    """The numbers below n in random order, drawn from the generator's stream.

    One 64-bit value of the stream seeds NumPy's permutation, so the order depends only on the
    generator's state.
    """
    return [int(i) for i in draws(generator).permutation(n)]


def require_positive(name: str, value: Any) -> None:
    """Refuse all but positive integers.

    Raises:
        InvalidValueError: another value.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidValueError(
            f"{name} should be a positive integer value, but got {name}={value}"
        )


def _require_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidValueError(f"{name} should be a boolean value, but got {name}={value}")


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

    Raises:
        ArgumentError: `replacement` is no bool.
        InvalidValueError: `num_samples` is not positive, or the data set is empty.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise ArgumentError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        require_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices are drawn; the data set may have grown."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.replacement:
            drawn = draws(self.generator).integers(0, size, self.num_samples)
            yield from (int(i) for i in drawn)
            return
        remaining = self.num_samples
        while remaining > 0:
            order = permutation(size, self.generator)[:remaining]
            remaining -= len(order)
            yield from order

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices in random order, once each."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__()
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in permutation(len(self.indices), self.generator):
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn in proportion to weights.

    Args:
        weights: one per index, shape (n,); they need not sum to 1.
        num_samples: how many to draw.
        replacement: whether an index may be drawn twice.

    Raises:
        InvalidValueError: wrong options, weights that are not one-dimensional.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive("num_samples", num_samples)
        _require_bool("replacement", replacement)
        self.weights: Tensor = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.dim() != 1:
            raise InvalidValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.numpy()
        if (weights < 0).any() or not np.isfinite(weights).all() or not weights.sum() > 0:
            raise InvalidValueError(
                "WeightedRandomSampler: probability tensor contains either inf, nan or element "
                "< 0, or sums to 0"
            )
        if not self.replacement and self.num_samples > len(weights):
            raise InvalidValueError(
                f"WeightedRandomSampler: cannot draw {self.num_samples} of {len(weights)} without "
                "replacement"
            )
        yield from (int(i) for i in self._drawn(weights))

    def _drawn(self, weights: Any) -> Any:
        random = draws(self.generator)
        if self.replacement:
            return random.choice(len(weights), self.num_samples, p=weights / weights.sum())
        # The first of independent exponential times: drawing in proportion without replacement.
        # Source: Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006.
        with np.errstate(divide="ignore"):
            times = random.standard_exponential(len(weights)) / weights
        return np.argsort(times, kind="stable")[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices from another sampler.

    Raises:
        InvalidValueError: `batch_size` is not positive, `drop_last` no bool.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        super().__init__()
        require_positive("batch_size", batch_size)
        _require_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
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
