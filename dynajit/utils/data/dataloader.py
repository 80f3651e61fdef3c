"""`DataLoader`: batches of a data set, fetched in this process or by worker processes.

Samples are collated as in PyTorch: tensors are stacked, numbers become tensors, containers are
collated by element. A data set that answers to a list of indices by batches of tensors
(TensorDataset) is indexed once per batch instead of once per sample. The order depends on the
generator only, not on the number of workers.
"""

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError
from dynajit.core.process.processors import available_processors
from dynajit.eager.modes.random import Generator
from dynajit.utils.data.collate import default_collate, default_convert
from dynajit.utils.data.dataset import IterableDataset
from dynajit.utils.data.fetching import BatchIterator, made_fetcher
from dynajit.utils.data.pinning import pin_memory
from dynajit.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draws
from dynajit.utils.data.worker import Task, get_worker_info
from dynajit.utils.data.workers import WorkerIterator

MSG_PINNED: Final = (
    "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
    "won't be used."
)
#: What cannot be changed once the loader is made: samplers were made of it.
FIXED: Final = (
    "batch_size",
    "batch_sampler",
    "sampler",
    "drop_last",
    "dataset",
    "persistent_workers",
)


class _Endless:
    """The sampler of data sets with an order of their own: any number of indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _DatasetKind:
    """Whether samples have indices or an order of their own: numbers to pass on."""

    Map = 0
    Iterable = 1


_BaseDataLoaderIter = BatchIterator
_collate_fn_t: TypeAlias = Callable[[list[Any]], Any]
_worker_init_fn_t: TypeAlias = Callable[[int], None]


def _drawn_seed(loader: Any) -> int:
    """The number that workers' seeds begin with: it is drawn without workers, too."""
    return int(draws(loader.generator).integers(0, 1 << 63))


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches fetched in this process. Mutable: an iterator, which goes on after an error.

    Args:
        loader: a `DataLoader`, or what has its names `dataset`, `collate_fn`, `drop_last`,
            `_auto_collation`, `_index_sampler`, `_dataset_kind` and `pin_memory`.
    """

    def __init__(self, loader: Any) -> None:
        self._indices = iter(loader._index_sampler)
        self._pins = bool(loader.pin_memory) and gpu.is_available()
        _drawn_seed(loader)
        self._fetcher = made_fetcher(
            loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last,
            loader._dataset_kind == _DatasetKind.Iterable,
        )  # fmt: skip

    def __next__(self) -> Any:
        batch = self._fetcher(next(self._indices))
        return pin_memory(batch) if self._pins else batch


class _MultiProcessingDataLoaderIter(WorkerIterator):
    """Batches that workers fetch. Mutable: an iterator.

    Args:
        loader: a `DataLoader`, or what has its names.
    """

    def __init__(self, loader: Any) -> None:
        indices = iter(loader._index_sampler)
        base_seed = _drawn_seed(loader)
        tasks = [
            Task(number, loader.num_workers, base_seed, loader.dataset, loader._auto_collation,
                 loader.collate_fn, loader.drop_last, loader.worker_init_fn,
                 loader._dataset_kind == _DatasetKind.Iterable)
            for number in range(loader.num_workers)
        ]  # fmt: skip
        super().__init__(
            loader.multiprocessing_context or multiprocessing.get_context(),
            tasks,
            ahead=max(loader.prefetch_factor or 0, 1),
            timeout=loader.timeout or None,
            in_order=getattr(loader, "in_order", True),
            persistent=loader.persistent_workers,
            pins=bool(loader.pin_memory) and gpu.is_available(),
        )
        self.start(indices)


class DataLoader:
    """Iterates over batches of a data set.

    Args:
        dataset: has `__getitem__` and `__len__`, or is an IterableDataset.
        batch_size: samples per batch; None yields single samples.
        shuffle: visit in a new random order each time.
        sampler, batch_sampler: own order of indices, or of lists of indices.
        num_workers: processes that fetch batches; 0 fetches in this one.
        collate_fn: makes a batch out of a list of samples.
        pin_memory: put tensors of batches into memory from which a GPU copies by itself, with
            `to(device, non_blocking=True)`; without a GPU it warns.
        drop_last: leave out a last batch that is smaller.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called with the worker's number when it starts.
        multiprocessing_context: a start method such as "spawn", or a context.
        generator: source of the random order and of the workers' seeds.
        prefetch_factor: batches that each worker fetches ahead, 2 by default.
        persistent_workers: keep the workers for the next iteration.
        in_order: give batches in the order of their indices; else as they arrive.

    Worker i seeds Python's, NumPy's and the library's random numbers with one number drawn from
    the generator, plus i.

    Raises:
        ValueError: options that exclude each other.
        RuntimeError: on iteration, a worker died or took too long. What a worker raises is raised
            again, with the worker's traceback in its text.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _require_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        own_order = isinstance(dataset, IterableDataset)
        if own_order:
            _require_no_order(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise InvalidValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise InvalidValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise InvalidValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = _default_sampler(dataset, own_order, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.collate_fn = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        self._iterator: WorkerIterator | None = None
        self._is_made = True
        _warn_of_many_workers(num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_is_made", False):
            raise InvalidValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that workers are started with; None for Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and self.num_workers == 0:
            raise InvalidValueError(
                "multiprocessing_context can only be used with multi-process loading "
                "(num_workers > 0), but got num_workers=0"
            )
        if isinstance(context, str):
            known = multiprocessing.get_all_start_methods()
            if context not in known:
                raise InvalidValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{known}, but got multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        self._context = context

    @property
    def batched(self) -> bool:
        """Whether samples are collated into batches."""
        return self.batch_sampler is not None

    @property
    def _auto_collation(self) -> bool:
        """PyTorch's name of `batched`."""
        return self.batched

    @property
    def _index_sampler(self) -> Any:
        """What gives the indices of batches, or of single samples."""
        return self.batch_sampler if self.batched else self.sampler

    @property
    def _dataset_kind(self) -> int:
        """Whether samples have indices or an order of their own."""
        is_own = isinstance(self.dataset, IterableDataset)
        return _DatasetKind.Iterable if is_own else _DatasetKind.Map

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory and not gpu.is_available():
            warnings.warn(MSG_PINNED, stacklevel=2)
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if self._iterator is not None and self._iterator.processes:
            indices = iter(self._index_sampler)
            _drawn_seed(self)
            self._iterator.restart(indices)
            return self._iterator
        made = _MultiProcessingDataLoaderIter(self)
        if self.persistent_workers:
            self._iterator = made
        return made

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.batch_sampler if self.batched else self.sampler)
        samples = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return samples
        whole, rest = divmod(samples, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def _require_worker_options(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise InvalidValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise InvalidValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise InvalidValueError(
            "prefetch_factor option could only be specified in multiprocessing: let num_workers "
            "> 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise InvalidValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise InvalidValueError("persistent_workers option needs num_workers > 0")


def _require_no_order(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Refuse orders for a data set that has its own."""
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise InvalidValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _default_sampler(dataset: Any, own_order: bool, shuffle: bool, generator: Any) -> Any:
    if own_order:
        return _Endless()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _warn_of_many_workers(num_workers: int) -> None:
    available = available_processors()
    if num_workers > available:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested "
            f"max number of worker in current system is {available}, which is smaller than what "
            "this DataLoader is going to create: it might run slower.",
            stacklevel=3,
        )


__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
