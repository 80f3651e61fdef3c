"""`DistributedSampler`: the share of a data set that one of several processes visits.

Contract: the shares have equal sizes and are disjoint but for padding; all processes must use the
same seed and epoch.
"""

import math
from collections.abc import Iterator
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.process.process_groups import get_rank, get_world_size
from dynajit.eager.modes.random import Generator
from dynajit.utils.data.sampler import Sampler, permutation


class DistributedSampler(Sampler):
    """Every `num_replicas`-th index, from `rank` on.

    Args:
        num_replicas: number of processes, by default that of the group.
        rank: which of them this is, by default as the group says.
        shuffle: in an order drawn from `seed` and the epoch.
        drop_last: leave out the last samples where the shares would differ in size; else the
            first samples are visited again.

    Raises:
        InvalidValueError: `num_replicas` or `rank` is missing and there is no group of processes,
            or the rank does not exist.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__()
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise InvalidValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole + (1 if rest and not drop_last else 0)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            indices = permutation(size, Generator().manual_seed(self.seed + self.epoch))
        else:
            indices = list(range(size))
        if len(indices) < self.total_size and indices:
            indices *= math.ceil(self.total_size / len(indices))
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration have the order of this epoch."""
        self.epoch = epoch
