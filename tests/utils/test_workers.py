"""Worker processes: order, seeds, errors, deaths, and that nothing is left behind."""

import gc
import multiprocessing
import os
import pickle
import random
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

SHARED = Path("/dev/shm")


@pytest.fixture(autouse=True)
def workers_are_forked() -> Any:
    """Also from Python 3.14 on, whose own default pickles what a worker gets."""
    default = multiprocessing.get_start_method()
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(default, force=True)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """No process and no shared block outlives a test."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield
    gc.collect()
    assert [] == multiprocessing.active_children()
    assert [] == list(SHARED.glob(f"dj_{os.getpid()}_*"))


def as_it_is(sample: Any) -> Any:
    """A collate function that changes nothing."""
    return sample


class Squares(Dataset):
    """Item i is i * i, from a worker whose number comes along."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index * index, get_worker_info().id


class Large(Dataset):
    """Items of many kilobytes, of many kinds."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        whole = dj.full((300, 30), float(index))
        return {
            "x": whole,
            "again": whole,
            "turned": whole.T,
            "half": dj.full((5000,), index, dtype=dj.bfloat16),
            "array": np.full((3000,), index, np.uint16),
            "texts": np.array(["a", "b"]),
            "small": index,
        }


class Random(Dataset):
    """Random numbers of every source, and the seed."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        numbers = random.random(), float(np.random.rand()), dj.rand(1).item()
        return (info.id, info.seed, *numbers)


def test_batches_come_in_order_from_workers_in_turn() -> None:
    batches = [[b.tolist() for b in batch] for batch in DataLoader(Squares(7), 2, num_workers=3)]

    assert [[0, 1], [4, 9], [16, 25], [36]] == [values for values, _ in batches]
    assert [0, 1, 2, 0] == [workers[0] for _, workers in batches]
    assert get_worker_info() is None


def test_workers_are_started_by_spawn() -> None:
    context = multiprocessing.get_context("spawn")
    loader = DataLoader(
        Large(), None, num_workers=1, multiprocessing_context=context, collate_fn=as_it_is
    )

    assert context is loader.multiprocessing_context
    assert [0, 1, 2] == [sample["x"][0, 0].item() for sample in loader]


def test_the_order_does_not_depend_on_the_number_of_workers() -> None:
    data = TensorDataset(dj.arange(40))
    orders = []
    for workers in (0, 1, 2):
        dj.manual_seed(5)
        loader = DataLoader(data, 8, shuffle=True, num_workers=workers)
        orders.append([[b.tolist() for (b,) in loader] for _ in range(2)])

    assert orders[0] == orders[1] == orders[2]
    assert list(range(40)) == sorted(i for batch in orders[0][0] for i in batch)


def test_large_arrays_come_through_shared_memory() -> None:
    for index, sample in enumerate(DataLoader(Large(), None, num_workers=2, collate_fn=as_it_is)):
        assert sample["x"] is sample["again"]
        assert {float(index)} == set(sample["x"].flatten().tolist())
        assert ((30, 300), dj.bfloat16) == (tuple(sample["turned"].shape), sample["half"].dtype)
        assert (index, (3000,)) == (sample["array"][-1], sample["array"].shape)
        assert ["a", "b"] == sample["texts"].tolist()
        sample["x"].add_(1)
    batch = next(iter(DataLoader(Squares(20_000), 20_000, num_workers=1)))[0]
    assert 19_999**2 == batch[-1].item()


def test_every_worker_has_its_own_seed() -> None:
    def drawn(seed: int, epochs: int = 1) -> list[Any]:
        generator = dj.Generator().manual_seed(seed)
        loader = DataLoader(Random(), None, num_workers=2, generator=generator)
        return [list(loader) for _ in range(epochs)]

    (first, second), (again,), (other,) = drawn(1, 2), drawn(1), drawn(2)

    assert first == again
    assert first[0][1] + 1 == first[1][1]
    assert 12 == len({number for sample in first for number in sample[2:]})
    assert first[0][1] != second[0][1]
    assert first[0][1] != other[0][1]


def test_the_default_generator_seeds_workers() -> None:
    dj.manual_seed(9)
    first = list(DataLoader(Random(), None, num_workers=1))
    dj.manual_seed(9)

    assert first == list(DataLoader(Random(), None, num_workers=1))


class Shares(IterableDataset):
    """Numbers below n: all of them per worker, or each worker its share."""

    def __init__(self, n: int, shared: bool) -> None:
        self.n = n
        self.shared = shared

    def __iter__(self) -> Any:
        info = get_worker_info()
        if not self.shared:
            return iter(range(self.n))
        return iter(range(info.id * 5, self.n, info.num_workers))


@pytest.mark.parametrize(
    ("shared", "size", "workers"),
    [(True, 0, 2), (True, 7, 3), (True, 12, 2), (False, 7, 2), (False, 5, 3)],
)
def test_data_sets_with_an_order_of_their_own_go_as_in_pytorch(
    shared: bool, size: int, workers: int
) -> None:
    data = pytest.importorskip("torch.utils.data")

    class TheirShares(data.IterableDataset):
        def __iter__(self) -> Any:
            info = data.get_worker_info()
            if not shared:
                return iter(range(size))
            return iter(range(info.id * 5, size, info.num_workers))

    options: Any = {"batch_size": 2, "num_workers": workers}
    theirs = [batch.tolist() for batch in data.DataLoader(TheirShares(), **options)]
    ours = [batch.tolist() for batch in DataLoader(Shares(size, shared), **options)]

    assert theirs == ours


def initialized(worker: int) -> None:
    get_worker_info().dataset.size = 2 + worker


def test_workers_are_initialized() -> None:
    class Sized(IterableDataset):
        size = 0

        def __iter__(self) -> Any:
            return iter(range(self.size))

    loader = DataLoader(Sized(), None, num_workers=2, worker_init_fn=initialized)

    assert [0, 0, 1, 1, 2] == list(loader)


class Own(Exception):
    """An error whose constructor wants more than a text."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


class Raising(Dataset):
    """Item 1 raises."""

    def __init__(self, error: Any) -> None:
        self.error = error

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            raise self.error
        return index


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("odd"), ValueError),
        (KeyError("odd"), KeyError),
        (dj.errors.BoundsError("odd"), IndexError),
        (Own(1, 2), RuntimeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_a_worker_raises_is_raised_here(error: Exception, kind: type[Exception]) -> None:
    batches = iter(DataLoader(Raising(error), num_workers=2))

    assert 0 == next(batches).item()
    with pytest.raises(kind) as caught:
        next(batches)
    assert f"Caught {type(error).__name__} in DataLoader worker process 1." in str(caught.value)
    assert "\n  File " in str(caught.value)
    assert "raise self.error" in str(caught.value)
    assert [2, 3] == [batch.item() for batch in batches]


def test_an_error_of_the_initialization_or_the_collation_is_raised_here() -> None:
    def broken(_: Any) -> None:
        raise LookupError("broken")

    for options in ({"worker_init_fn": broken}, {"collate_fn": broken}):
        batches = iter(DataLoader(Squares(4), num_workers=1, **options))
        for _ in range(2):
            with pytest.raises(LookupError, match="broken"):
                next(batches)


def test_what_cannot_be_pickled_is_an_error_here() -> None:
    loader = DataLoader(Squares(2), num_workers=1, collate_fn=lambda batch: lambda: batch)

    errors = (AttributeError, TypeError, RuntimeError, pickle.PicklingError)
    with pytest.raises(errors, match="worker process 0"):
        next(iter(loader))


class Dying(Dataset):
    """Item 2 ends the process."""

    def __init__(self, how: Any) -> None:
        self.how = how

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            self.how()
        return dj.full((5000,), index)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exited() -> None:
    os._exit(3)


@pytest.mark.parametrize(
    ("how", "reason"), [(killed, "killed by signal: SIGKILL"), (exited, "exit code 3")]
)
def test_a_worker_that_dies_is_an_error(how: Any, reason: str) -> None:
    batches = iter(DataLoader(Dying(how), num_workers=2))

    with pytest.raises(RuntimeError, match=rf"worker \(pid.*exited unexpectedly \({reason}\)"):
        list(batches)
    assert [] == list(batches)


class Slow(Dataset):
    """Item 1 takes long."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(60 if index == 1 else 0)
        return index


def test_a_worker_that_is_too_slow_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynajit.utils.data.workers.GRACE_S", 0.2)
    batches = iter(DataLoader(Slow(), num_workers=1, timeout=0.5))

    assert 0 == next(batches).item()
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        next(batches)


def test_batches_may_come_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynajit.utils.data.workers.GRACE_S", 0.2)
    batches = iter(DataLoader(Slow(), num_workers=2, in_order=False, prefetch_factor=1))

    assert [0, 2, 3] == [next(batches).item() for _ in range(3)]
    loader = DataLoader(Squares(20), num_workers=2, in_order=False)
    assert [i * i for i in range(20)] == sorted(values.item() for values, _ in loader)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_loop_that_is_left_early_leaves_nothing(persistent: bool) -> None:
    loader = DataLoader(
        Large(), None, num_workers=2, persistent_workers=persistent, collate_fn=as_it_is
    )
    for _ in loader:
        break
    again = [sample["small"] for sample in loader]
    partly = iter(loader)
    next(partly)

    assert [0, 1, 2] == again


class Who(Dataset):
    """The process that runs, and how often it was asked."""

    asked = 0

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return os.getpid(), self.asked, index


def test_persistent_workers_are_kept() -> None:
    def processes(loader: DataLoader) -> set[int]:
        return {pid for pid, _, _ in loader}

    kept = DataLoader(Who(), None, num_workers=2, persistent_workers=True)
    fresh = DataLoader(Who(), None, num_workers=2)
    first = processes(kept)
    iterator = iter(kept)
    next(iterator)
    third = list(kept)

    assert first == {pid for pid, _, _ in third}
    assert list(range(6)) == [index for _, _, index in third]
    assert not processes(fresh) & processes(fresh)
    assert iter(kept) is iter(kept)


def test_persistent_workers_begin_ordered_data_sets_again() -> None:
    loader = DataLoader(Shares(5, False), 2, num_workers=2, persistent_workers=True)
    epochs = [[batch.tolist() for batch in loader] for _ in range(3)]
    next(iter(loader))

    assert epochs[0] == epochs[1] == epochs[2] == [batch.tolist() for batch in loader]


def test_so_many_batches_are_fetched_ahead(tmp_path: Path) -> None:
    class Noting(Dataset):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> int:
            (tmp_path / str(index)).touch()
            return index

    batches = iter(DataLoader(Noting(), num_workers=2, prefetch_factor=3))
    next(batches)
    end = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 7 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)

    assert 7 == len(list(tmp_path.iterdir()))


def test_models_train_on_batches_of_workers() -> None:
    dj.manual_seed(0)
    x = dj.randn(64, 3)
    data = TensorDataset(x, x @ dj.tensor([[1.0], [-2.0], [0.5]]))
    model = dj.nn.Linear(3, 1)
    optimizer = dj.optim.SGD(model.parameters(), lr=0.1)
    step = dj.compile(lambda a, b: (model(a) - b).square().mean())
    for _ in range(20):
        for a, b in DataLoader(data, 16, shuffle=True, num_workers=1, persistent_workers=False):
            optimizer.zero_grad()
            loss = step(a, b)
            loss.backward()
            optimizer.step()
        if loss.item() < 1e-3:
            break

    assert loss.item() < 1e-3


def test_a_parent_that_is_killed_takes_its_workers_along(tmp_path: Path) -> None:
    def run() -> None:
        batches = iter(DataLoader(Who(), None, num_workers=2, persistent_workers=True))
        (tmp_path / "pids").write_text(" ".join(str(p.pid) for p in batches.processes))
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        run()
    os.waitpid(child, 0)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    end = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)

    assert 2 == len(pids)
    assert [False, False] == [is_alive(pid) for pid in pids]


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_more_workers_than_processors_are_warned_of() -> None:
    count = len(os.sched_getaffinity(0)) + 1
    with pytest.warns(UserWarning, match=f"will create {count} worker processes"):
        DataLoader([1], num_workers=count)
