"""Data sets, samplers and the loader."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
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
        ({"num_workers": -1}, ValueError, "num_workers=0"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"prefetch_factor": 2}, ValueError, "num_workers > 0"),
        ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "non-negative"),
        ({"persistent_workers": True}, ValueError, "num_workers > 0"),
        ({"multiprocessing_context": "spawn"}, ValueError, "num_workers=0"),
        ({"multiprocessing_context": "x", "num_workers": 1}, ValueError, "valid start method"),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "valid context"),
        ({"batch_size": None, "drop_last": True}, ValueError, "disables auto-batching"),
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
    with pytest.raises(AssertionError, match=r"\[3, 4\]"):
        TensorDataset(dj.zeros(3), dj.zeros(4))


def test_arrays_and_strings() -> None:
    """NumPy samples become tensors, strings stay a list; anything else is refused."""
    samples = [(np.ones(2, np.float32), "a"), (np.zeros(2, np.float32), "b")]
    batch = next(iter(DataLoader(samples, batch_size=2)))

    assert [[1.0, 1.0], [0.0, 0.0]] == batch[0].tolist()
    assert ["a", "b"] == list(batch[1])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        next(iter(DataLoader([object()], batch_size=1)))


class Counting(IterableDataset):
    """The numbers below n, in order."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(range(self.n))

    def __len__(self) -> int:
        return self.n


def test_data_sets_with_an_order_of_their_own() -> None:
    """Batches, single samples, chains, lengths; shorter last batches may be left out."""
    chain = Counting(3) + Counting(2)

    assert [[0, 1, 2], [0, 1]] == [b.tolist() for b in DataLoader(chain, batch_size=3)]
    assert [0, 1, 2, 0, 1] == list(DataLoader(chain, batch_size=None))
    assert [[0, 1, 2]] == [b.tolist() for b in DataLoader(chain, batch_size=3, drop_last=True)]
    assert (5, 2, 1, 5) == (
        len(chain),
        len(DataLoader(chain, batch_size=3)),
        len(DataLoader(chain, batch_size=3, drop_last=True)),
        len(DataLoader(chain, batch_size=None)),
    )
    assert [] == list(DataLoader(Counting(0), batch_size=2))


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_data_sets_with_an_order_of_their_own_take_no_other(options: dict[str, Any]) -> None:
    """Nor may they be concatenated, or chained with others."""
    with pytest.raises(ValueError, match="IterableDataset: expected unspecified"):
        DataLoader(Counting(3), **options)
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Counting(3)])
    with pytest.raises(AssertionError, match="IterableDataset"):
        list(ChainDataset([numbers(2)]))
    with pytest.raises(AssertionError, match="empty"):
        ConcatDataset([])


def test_stacked_data_sets() -> None:
    """Tuples or dicts of samples."""
    pairs = StackDataset([1, 2], numbers(2))
    named = StackDataset(a=[1, 2], b=Subset([5, 6, 7], [2, 0]))

    assert (2, (2, 1)) == (len(pairs), (pairs[1][0], pairs[1][1][0].item()))
    assert [{"a": 1, "b": 7}, {"a": 2, "b": 5}] == [named[i] for i in range(2)]
    assert [{"a": 2, "b": 5}, {"a": 1, "b": 7}] == named.__getitems__([1, 0])
    for wrong in (lambda: StackDataset(), lambda: StackDataset([1], [1, 2])):
        with pytest.raises(ValueError, match="dataset"):
            wrong()
    with pytest.raises(ValueError, match="both types are given"):
        StackDataset([1], a=[2])


def test_several_samples_are_asked_for_at_once() -> None:
    """By `__getitems__`, also through subsets."""

    class AtOnce(Dataset):
        asked: list[Any] = []  # noqa: RUF012

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.asked.append(indices)
            return [index * 10 for index in indices]

    loader = DataLoader(Subset(AtOnce(), [3, 4, 5]), batch_size=2)

    assert [[30, 40], [50]] == [batch.tolist() for batch in loader]
    assert [[3, 4], [5]] == AtOnce.asked


def test_batches_of_indices_are_given_as_they_are() -> None:
    """A batch sampler, and a sampler of any indices."""
    letters = {"a": 1, "b": 2}

    assert [[2], [1, 2]] == [
        batch.tolist() for batch in DataLoader(letters, batch_sampler=[["b"], ["a", "b"]])
    ]
    assert [[2, 1]] == [b.tolist() for b in DataLoader(letters, sampler=["b", "a"], batch_size=2)]
    assert [2, 1] == list(DataLoader(letters, sampler=["b", "a"], batch_size=None))


def test_what_samplers_were_made_of_is_fixed() -> None:
    """Other attributes may be set."""
    loader = DataLoader(numbers(3))
    loader.timeout = 3
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, None)


def test_iteration_goes_on_after_an_error() -> None:
    """The sample that raised is passed over."""

    class Second(Dataset):
        def __getitem__(self, index: int) -> int:
            if index == 1:
                raise LookupError("second")
            return index

        def __len__(self) -> int:
            return 3

    batches = iter(DataLoader(Second()))

    assert 0 == next(batches).item()
    with pytest.raises(LookupError, match="second"):
        next(batches)
    assert [2] == [batch.item() for batch in batches]


@pytest.mark.usefixtures("no_gpu")
def test_pinned_memory_is_accepted() -> None:
    """With PyTorch's warning, since there is no GPU."""
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert 2 == len(list(DataLoader(numbers(2), pin_memory=True)))


def test_an_empty_part_of_a_split_is_warned_of() -> None:
    """A sum that is wrong is refused."""
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert [3, 0] == [len(part) for part in random_split(numbers(3), [3, 0])]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(numbers(3), [1, 1])


def test_iterators_have_pytorchs_names_and_take_what_looks_like_a_loader() -> None:
    from dynajit.utils.data import dataloader

    loader = dj.utils.data.DataLoader([1, 2, 3], batch_size=2)
    assert isinstance(iter(loader), dataloader._BaseDataLoaderIter)
    assert loader._dataset_kind == dataloader._DatasetKind.Map

    class Fake:
        """A stream of batches, as a program may make one."""

        dataset = ([1], [2])
        _auto_collation = pin_memory = drop_last = False
        _dataset_kind = dataloader._DatasetKind.Iterable
        _index_sampler = itertools.count()
        collate_fn = staticmethod(lambda batch: batch)
        generator = None

    assert [[1], [2]] == list(dataloader._SingleProcessDataLoaderIter(Fake()))
