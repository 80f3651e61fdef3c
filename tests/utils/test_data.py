"""Data sets, samplers and the loader."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset):
    """Item i is (i, i * i) as a dict."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": index, "y": dj.tensor(float(index * index))}


def numbers(count: int) -> TensorDataset:
    """0, 1, ... as a data set."""
    return TensorDataset(dj.arange(count))


def test_batches_cover_the_data_in_order() -> None:
    """The last batch is smaller, or left out."""
    loader = DataLoader(numbers(7), batch_size=3)

    assert [[0, 1, 2], [3, 4, 5], [6]] == [batch.tolist() for (batch,) in loader]
    assert 3 == len(loader)
    assert 2 == len(list(DataLoader(numbers(7), batch_size=3, drop_last=True)))


def test_shuffling_visits_everything_once_and_is_seeded() -> None:
    """The same seed gives the same order; the next epoch another one."""
    dj.manual_seed(3)
    loader = DataLoader(numbers(50), batch_size=50, shuffle=True)
    first, second = (next(batch.tolist() for (batch,) in loader) for _ in range(2))
    dj.manual_seed(3)

    assert list(range(50)) == sorted(first)
    assert first != second
    assert first == next(batch.tolist() for (batch,) in loader)


def test_samples_are_collated_by_structure() -> None:
    """Numbers become int64 tensors, tensors are stacked, dicts keep their keys."""
    batch = next(iter(DataLoader(Squares(), batch_size=4)))

    assert [0, 1, 2, 3] == batch["x"].tolist()
    assert dj.int64 is batch["x"].dtype
    assert [0.0, 1.0, 4.0, 9.0] == batch["y"].tolist()


def test_collate_fn_gets_the_samples() -> None:
    """Its result is the batch."""
    loader = DataLoader(Squares(), batch_size=5, collate_fn=lambda items: [i["x"] for i in items])

    assert [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]] == list(loader)


def test_no_batching_yields_samples() -> None:
    """batch_size=None."""
    assert 10 == len(list(DataLoader(Squares(), batch_size=None)))


def test_combining_data_sets() -> None:
    """Concatenation, subsets, negative indices, random split by fractions."""
    both = ConcatDataset([numbers(3), numbers(2)])
    parts = random_split(numbers(10), [0.75, 0.25], generator=dj.Generator().manual_seed(1))

    assert [0, 1, 2, 0, 1] == [both[i][0].item() for i in range(5)]
    assert 1 == both[-1][0].item()
    assert 2 == Subset(numbers(5), [4, 2])[1][0].item()
    assert [8, 2] == [len(part) for part in parts] or [7, 3] == [len(part) for part in parts]
    assert list(range(10)) == sorted(part[i][0].item() for part in parts for i in range(len(part)))


def test_sampling_with_replacement() -> None:
    """As many as asked for, all within range."""
    drawn = list(RandomSampler(numbers(3), replacement=True, num_samples=100))

    assert 100 == len(drawn)
    assert {0, 1, 2} == set(drawn)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_workers": 2}, NotImplementedError, "num_workers=0"),
        ({"shuffle": True, "sampler": [0]}, ValueError, "mutually exclusive"),
        ({"batch_size": 0}, ValueError, "positive integer"),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "mutually exclusive"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """With PyTorch's errors, or by naming what is not available."""
    with pytest.raises(error, match=message):
        DataLoader(numbers(4), **options)


def test_tensors_of_different_length_are_refused() -> None:
    """The sizes are in the message."""
    with pytest.raises(ValueError, match=r"\[3, 4\]"):
        TensorDataset(dj.zeros(3), dj.zeros(4))


def test_arrays_and_strings() -> None:
    """NumPy samples become tensors, strings stay a list; anything else is refused."""
    samples = [(np.ones(2, np.float32), "a"), (np.zeros(2, np.float32), "b")]
    batch = next(iter(DataLoader(samples, batch_size=2)))

    assert [[1.0, 1.0], [0.0, 0.0]] == batch[0].tolist()
    assert ["a", "b"] == list(batch[1])
    with pytest.raises(TypeError, match="found object"):
        next(iter(DataLoader([object()], batch_size=1)))
