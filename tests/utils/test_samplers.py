"""Samplers: what they draw, how often, from which stream."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(seed: int) -> dj.Generator:
    return dj.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "make",
    [
        lambda g: RandomSampler(range(50), generator=g),
        lambda g: RandomSampler(range(50), replacement=True, num_samples=70, generator=g),
        lambda g: SubsetRandomSampler(range(100, 150), generator=g),
        lambda g: WeightedRandomSampler([1.0] * 50, 40, generator=g),
        lambda g: WeightedRandomSampler([1.0] * 50, 40, replacement=False, generator=g),
    ],
    ids=["random", "replacement", "subset", "weighted", "weighted_once"],
)
def test_orders_depend_on_the_generator_alone(make: Any) -> None:
    """The given one, or the default one; the next epoch has another order."""
    sampler = make(seeded(3))
    first, second = list(sampler), list(sampler)
    dj.manual_seed(3)
    by_default = list(make(None))

    assert first == list(make(seeded(3))) == by_default
    assert first != second
    assert first != list(make(seeded(4)))
    assert all(type(index) is int for index in first)
    assert len(sampler) == len(first)


def test_a_random_order_visits_everything_once_per_round() -> None:
    """More samples than there are begin another round."""
    assert list(range(9)) == sorted(RandomSampler(range(9)))
    assert [2, 2, 2, 2] == list(Counter(RandomSampler(range(4), num_samples=8)).values())
    assert 3 == len(set(RandomSampler(range(9), num_samples=3)))
    assert [5, 7, 9] == sorted(SubsetRandomSampler([7, 9, 5]))
    assert [0, 1, 2] == list(SequentialSampler("abc"))


def test_weights_are_probabilities() -> None:
    """Within five standard deviations; what has no weight is never drawn."""
    weights = np.array([1.0, 0.0, 3.0, 6.0])
    drawn = Counter(WeightedRandomSampler(weights, 20_000, generator=seeded(0)))

    assert 0 == drawn[1]
    for index, probability in enumerate(weights / 10):
        deviation = math.sqrt(20_000 * probability * (1 - probability))
        assert abs(drawn[index] - 20_000 * probability) <= 5 * deviation


def test_weights_without_replacement() -> None:
    """The first that is drawn has the weights as probabilities; none comes twice."""
    weights = dj.tensor([1.0, 3.0, 6.0])
    generator = seeded(1)
    firsts = Counter()
    for _ in range(4000):
        drawn = list(WeightedRandomSampler(weights, 2, replacement=False, generator=generator))
        firsts[drawn[0]] += 1
        assert 2 == len(set(drawn))

    for index, probability in enumerate((0.1, 0.3, 0.6)):
        deviation = math.sqrt(4000 * probability * (1 - probability))
        assert abs(firsts[index] - 4000 * probability) <= 5 * deviation


@pytest.mark.parametrize("size", [0, 1, 10, 11, 13])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("replicas", [1, 3, 4])
def test_shares_have_the_sizes_and_places_of_pytorch(
    size: int, drop_last: bool, replicas: int
) -> None:
    """Unshuffled they are equal; shuffled they cover the data set as these do."""
    distributed = pytest.importorskip("torch.utils.data.distributed")
    data = list(range(size))
    shuffled: list[int] = []
    padded: list[int] = []
    for rank in range(replicas):
        options: Any = {"num_replicas": replicas, "rank": rank, "drop_last": drop_last}
        here = DistributedSampler(data, shuffle=False, **options)
        there = distributed.DistributedSampler(data, shuffle=False, **options)
        shuffling = DistributedSampler(data, seed=7, **options)
        shuffled += list(shuffling)
        padded += list(here)

        assert list(there) == list(here)
        assert len(there) == len(here) == len(list(shuffling))
    assert sorted(Counter(padded).values()) == sorted(Counter(shuffled).values())


def test_every_epoch_has_its_own_order() -> None:
    """The same on every rank."""
    sampler = DistributedSampler(range(40), num_replicas=2, rank=1, seed=3)
    first = list(sampler)
    sampler.set_epoch(1)

    assert first != list(sampler)
    assert list(sampler) == list(DistributedSampler(range(40), 2, 1, seed=4))


def test_batches_of_indices() -> None:
    """Of anything that can be iterated."""
    assert [[0, 1], [2]] == list(BatchSampler(iter(range(3)), 2, False))
    assert [[0, 1]] == list(BatchSampler(range(3), 2, True))
    assert (2, 1) == (len(BatchSampler(range(3), 2, False)), len(BatchSampler(range(3), 2, True)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RandomSampler([]), ValueError, "num_samples=0"),
        (lambda: RandomSampler([1], num_samples=-1), ValueError, "num_samples=-1"),
        (lambda: RandomSampler([1], replacement=1), TypeError, "boolean"),
        (lambda: WeightedRandomSampler([1], 0), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([[1]], 1), ValueError, r"1d sequence.*\(1, 1\)"),
        (lambda: WeightedRandomSampler([1], 1, 1), ValueError, "boolean"),
        (lambda: list(WeightedRandomSampler([-1.0, 2], 1)), ValueError, "element < 0"),
        (lambda: list(WeightedRandomSampler([math.nan], 1)), ValueError, "nan"),
        (lambda: list(WeightedRandomSampler([0.0], 1)), ValueError, "sums to 0"),
        (lambda: list(WeightedRandomSampler([1], 2, False)), ValueError, "without replacement"),
        (lambda: BatchSampler([1], 0, False), ValueError, "batch_size=0"),
        (lambda: BatchSampler([1], True, False), ValueError, "batch_size=True"),
        (lambda: BatchSampler([1], 1, 1), ValueError, "drop_last=1"),
        (lambda: DistributedSampler([1], 2, 2), ValueError, "Invalid rank 2"),
        (lambda: DistributedSampler([1]), ValueError, "process group"),
    ],
)
def test_wrong_options_are_refused(make: Any, error: type[Exception], message: str) -> None:
    """With PyTorch's classes."""
    with pytest.raises(error, match=message):
        make()
