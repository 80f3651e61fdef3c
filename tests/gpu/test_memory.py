"""Memory of a GPU: numbers, peaks, errors that change nothing, the record and its pictures."""

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError, OutOfMemoryError

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _fresh_peaks() -> Iterator[None]:
    gc.collect()
    dj.cuda.empty_cache()
    dj.cuda.reset_peak_memory_stats()
    yield
    if gpu.is_loaded():
        dj.cuda.memory._record_memory_history(None)


@pytest.fixture
def little_memory() -> Iterator[int]:
    """16 MiB more than what is taken: more does not fit."""
    _, total = dj.cuda.mem_get_info()
    room = dj.cuda.memory_reserved() + 16 * MIB
    dj.cuda.set_per_process_memory_fraction(room / total)
    yield room
    dj.cuda.set_per_process_memory_fraction(0.0)  # no limit


def of_size(mebibytes: float) -> Any:
    """A tensor of that many MiB."""
    return dj.empty(int(mebibytes * MIB), dtype=dj.uint8, device="cuda")


def test_what_tensors_take_is_counted() -> None:
    """And what they took at most; what is freed stays in the pool until it is emptied."""
    before = dj.cuda.memory_allocated()
    x = of_size(3)
    y = of_size(2)
    assert before + 5 * MIB == dj.cuda.memory_allocated()
    del x
    assert before + 2 * MIB == dj.cuda.memory_allocated()
    assert before + 5 * MIB == dj.cuda.max_memory_allocated()
    assert dj.cuda.memory_reserved() >= before + 5 * MIB
    dj.cuda.reset_peak_memory_stats()
    assert before + 2 * MIB == dj.cuda.max_memory_allocated()
    dj.cuda.empty_cache()
    assert dj.cuda.memory_reserved() < before + 5 * MIB
    assert dj.cuda.memory_reserved() <= dj.cuda.max_memory_reserved()
    del y


def test_peaks_are_those_between_reports() -> None:
    """Of temporaries, too, after many allocations of the same memory."""
    before = dj.cuda.memory_allocated()
    for size in (1, 4, 2, 4, 1, 3, 4, 1):
        of_size(size)
    kept = of_size(1)
    assert before + 4 * MIB == dj.cuda.max_memory_allocated()
    of_size(4)
    assert before + 5 * MIB == dj.cuda.max_memory_allocated()
    del kept


def test_all_numbers_have_pytorchs_names() -> None:
    """Flat and nested."""
    dj.cuda.memory.reset_accumulated_memory_stats()
    before = dj.cuda.memory_stats()
    of_size(1)
    facts = dj.cuda.memory_stats()

    assert MIB == facts["allocated_bytes.all.allocated"] - before["allocated_bytes.all.allocated"]
    assert MIB == facts["allocated_bytes.all.freed"] - before["allocated_bytes.all.freed"]
    assert 1 == facts["allocation.all.allocated"]
    nested = dj.cuda.memory_stats_as_nested_dict()
    assert facts["reserved_bytes.all.peak"] == nested["reserved_bytes"]["all"]["peak"]
    table = dj.cuda.memory_summary()
    assert "cuda:0" in table and "1.00 MiB" in table
    assert len(dj.cuda.memory_summary(abbreviated=True)) < len(table)


def test_devices_count_apart(second_device: str) -> None:
    """Memory of the other one is not this one's."""
    before = [dj.cuda.memory_allocated(i) for i in range(2)]
    x = dj.empty(MIB, dtype=dj.uint8, device=second_device)

    assert [before[0], before[1] + MIB] == [dj.cuda.memory_allocated(i) for i in range(2)]
    del x


def test_errors_of_memory_have_the_sizes(little_memory: int) -> None:
    """What was asked, what there is, who has it, and what to do; they are CuPy's, too."""
    with pytest.raises(OutOfMemoryError) as caught:
        of_size(64)
    text = str(caught.value)
    assert "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity" in text
    assert "Use smaller batches" in text
    assert isinstance(caught.value, dj.cuda.OutOfMemoryError)
    assert isinstance(caught.value, dj.OutOfMemoryError)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, gpu.module().cuda.memory.OutOfMemoryError)
    assert dj.cuda.memory_stats()["num_ooms"] >= 1


def test_nothing_is_changed_where_memory_ends(little_memory: int) -> None:
    """Tensors, versions, gradients and numbers are those from before; the next call works."""
    x = of_size(7).fill_(1)
    weights = dj.full((MIB,), 2.0, device="cuda", requires_grad=True)
    taken, version = dj.cuda.memory_allocated(), x._version
    state = dj.cuda.get_rng_state().tolist()
    for call in (
        lambda: x.repeat(3),
        lambda: x.add_(x.float()),
        lambda: (weights.double().repeat(4) * 2).sum().backward(),
        lambda: x.to(dj.float64),
        lambda: dj.cat([x, x, x]),
    ):
        with pytest.raises(OutOfMemoryError):
            call()
        gc.collect()
        assert taken == dj.cuda.memory_allocated()
    assert (version, 7 * MIB) == (x._version, int(x.cpu().sum(dtype=dj.int64)))
    assert weights.grad is None
    assert state == dj.cuda.get_rng_state().tolist()
    assert 2 == (weights * 1)[0].item()


def test_what_is_kept_for_reuse_goes_before_memory_ends(little_memory: int) -> None:
    """Freed memory of other sizes is given back, and the call tried again."""
    for size in (5, 6, 4):
        of_size(size)
    assert 12 * MIB == of_size(12).nbytes


def test_impossible_sizes_are_refused() -> None:
    """By memory or by shape, with a RuntimeError."""
    with pytest.raises(RuntimeError):
        dj.empty(1 << 50, device="cuda")


def busy() -> None:
    """Some allocations that live for different times."""
    kept = [of_size(2)]
    for i in range(6):
        kept.append(of_size(1 + i % 2))
        if i % 2:
            del kept[0]


def test_the_record_names_who_took_memory() -> None:
    """In the form of PyTorch's."""
    of_size(1)
    dj.cuda.memory._record_memory_history()
    busy()
    (trace, *_) = dj.cuda.memory._snapshot()["device_traces"]
    dj.cuda.memory._record_memory_history(enabled=None)

    assert 7 == sum(entry["action"] == "alloc" for entry in trace)
    assert 7 == sum(entry["action"] == "free_completed" for entry in trace)
    assert {MIB, 2 * MIB} == {entry["size"] for entry in trace}
    first = trace[0]["frames"][0]
    assert (__file__, "of_size") == (first["filename"], first["name"])
    assert "busy" == trace[0]["frames"][1]["name"]
    assert [] == dj.cuda.memory._snapshot()["device_traces"][0]


def test_the_record_keeps_the_last_entries() -> None:
    """As many as asked for."""
    dj.cuda.memory._record_memory_history(max_entries=5)
    busy()

    assert 5 == len(dj.cuda.memory._snapshot(0)["device_traces"][0])


def test_the_record_is_drawn(tmp_path: Path) -> None:
    """As a page, a picture, or for PyTorch's viewer."""
    dj.cuda.memory._record_memory_history()
    busy()
    kept = of_size(3)
    dj.cuda.memory._dump_snapshot(tmp_path / "a.html")
    dj.cuda.memory._dump_snapshot(tmp_path / "a.pickle")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")

    assert 8 == page.count("<polygon")
    assert "3.00 MiB, until the end" in page
    assert f"{Path(__file__).name}:" in page
    assert 15 == len(pickle.loads((tmp_path / "a.pickle").read_bytes())["device_traces"][0])
    with pytest.raises(InvalidValueError, match="html or"):
        dj.cuda.memory.save_timeline(tmp_path / "a.txt")
    pytest.importorskip("matplotlib")
    dj.cuda.memory.save_timeline(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    del kept


def test_an_empty_record_is_not_drawn(tmp_path: Path) -> None:
    """With what to do first."""
    with pytest.raises(InvalidValueError, match="_record_memory_history"):
        dj.cuda.memory.save_timeline(tmp_path / "a.html")


def test_other_uses_of_cupy_are_counted() -> None:
    """Arrays of the program's own."""
    cupy = gpu.module()
    before = dj.cuda.memory_allocated()
    array = cupy.zeros(MIB, cupy.uint8)

    assert before + MIB == dj.cuda.memory_allocated()
    del array
