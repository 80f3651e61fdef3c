"""How one batch is fetched from a data set, in this process or in a worker.

Contract: a fetcher is called with the indices of a batch (or one index, where nothing is collated)
and gives the batch; for data sets with an order of their own only the number of indices counts, and
StopIteration says that nothing is left.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Self

from dynajit.utils.data.collate import default_collate
from dynajit.utils.data.dataset import IterableDataset, TensorDataset, samples_at


class BatchIterator:
    """What iterating over a loader gives: PyTorch's `_BaseDataLoaderIter`, to ask for."""

    def __iter__(self) -> Self:
        return self


class MapFetcher:
    """Batches of a data set with an index."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any]) -> None:
        self._dataset = dataset
        self._batched = batched
        self._collate = collate
        # one gather instead of a stack of single rows
        self._whole = type(dataset) is TensorDataset and collate is default_collate

    def __call__(self, index: Any) -> Any:
        if not self._batched:
            return self._collate(self._dataset[index])
        if self._whole and all(type(place) is int for place in index):
            return list(self._dataset[list(index)])
        return self._collate(samples_at(self._dataset, index))


class IterableFetcher:
    """Batches of a data set with an order of its own. Mutable: goes on in the data set."""

    def __init__(
        self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self._samples = iter(dataset)
        self._batched = batched
        self._collate = collate
        self._drop_last = drop_last
        self._ended = False

    def __call__(self, index: Any) -> Any:
        if self._ended:
            raise StopIteration
        if not self._batched:
            return self._collate(next(self._samples))
        batch = list(islice(self._samples, len(index)))
        self._ended = len(batch) < len(index)
        if not batch or (self._ended and self._drop_last):
            raise StopIteration
        return self._collate(batch)


def made_fetcher(
    dataset: Any,
    batched: bool,
    collate: Callable[[Any], Any],
    drop_last: bool,
    own_order: bool | None = None,
) -> Callable[[Any], Any]:
    """The fetcher for a data set; it starts a data set with an order of its own.

    Args:
        own_order: whether it has one; None: its class says.
    """
    if isinstance(dataset, IterableDataset) if own_order is None else own_order:
        return IterableFetcher(dataset, batched, collate, drop_last)
    return MapFetcher(dataset, batched, collate)
