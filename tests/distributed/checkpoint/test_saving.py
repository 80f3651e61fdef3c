"""Checkpoints of several processes: written by some, read by others, damaged, half-written."""

import functools
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
import dynajit.distributed.checkpoint as dcp
from dynajit.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from dynajit.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from tests.distributed.sharding.models import adamw, made, sharded_in_place, train
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

FULL = StateDictOptions(full_state_dict=True)


def _arrays(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _arrays(value) for key, value in tree.items()}
    return tree.numpy().copy() if isinstance(tree, dj.Tensor) else tree


def _whole(model: Any, optimizer: Any) -> tuple[Any, Any]:
    state = get_model_state_dict(model, options=FULL)
    steps = get_optimizer_state_dict(model, optimizer, options=FULL)
    return _arrays(dict(state)), _arrays(steps["state"])


def written(folder: str) -> tuple[Any, Any]:
    """A trained model is saved twice; its state, whole."""
    model = sharded_in_place("gpt", True)
    optimizer = adamw(model)
    train("gpt", model, optimizer)
    state, steps = get_state_dict(model, optimizer)
    for epoch in (1, 2):
        dcp.save(
            {"model": state, "optimizer": steps, "epoch": epoch, "names": ["a", "b"]},
            checkpoint_id=folder,
        )
    return _whole(model, optimizer)


class SlowWriter(dcp.FileSystemWriter):
    """Writes when it is let."""

    def __init__(self, path: Any, may_write: threading.Event) -> None:
        super().__init__(path)
        self.may_write = may_write

    def write(self, name: str, chunks: Any) -> Any:
        assert self.may_write.wait(30)
        return super().write(name, chunks)


class BrokenWriter(dcp.FileSystemWriter):
    """Of a disk that is full."""

    def write(self, name: str, chunks: Any) -> Any:
        raise OSError("no space left")


def written_meanwhile(folder: str) -> Any:
    """The program goes on, with collectives and other values, while a thread writes."""
    rank, first = dist.get_rank(), str(Path(folder, "first"))
    x, notes = dj.full((3,), 1.0 + rank), {"epochs": [1]}
    state = {"x": x, "y": dj.arange(5.0), "notes": notes}
    may_write = threading.Event()
    future = dcp.async_save(state, storage_writer=SlowWriter(first, may_write))
    for _ in range(3):
        dist.all_reduce(x)
    notes["epochs"].append(2)
    early = future.done()
    threading.Timer(0.2, may_write.set).start()
    second = dcp.async_save({"x": x}, checkpoint_id=str(Path(folder, "second")))
    is_waited_for = future.done()
    second.result()
    read = {"x": dj.zeros(3), "y": dj.zeros(5), "notes": {"epochs": None}}
    dcp.load(read, checkpoint_id=first)
    later = {"x": dj.zeros(3)}
    dcp.load(later, checkpoint_id=str(Path(folder, "second")))
    kind = BrokenWriter if rank == 1 else dcp.FileSystemWriter
    failed = dcp.async_save(state, storage_writer=kind(str(Path(folder, "third"))))
    text = str(failed.exception(30))
    return early, is_waited_for, _arrays(read), later["x"].tolist(), text


def read(folder: str) -> tuple[Any, ...]:
    """What another model has after the checkpoint was loaded, and a plain one."""
    model = sharded_in_place("gpt", False)
    optimizer = adamw(model)
    state, steps = get_state_dict(model, optimizer)
    given = {"model": state, "optimizer": steps, "epoch": 0, "names": None}
    dcp.load(given, checkpoint_id=folder)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=given["model"],
        optim_state_dict=given["optimizer"],
    )
    plain = made("gpt")
    whole = get_model_state_dict(model, options=FULL)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(plain, whole if dist.get_rank() == 0 else {}, options=options)
    plainly = {"model": made("gpt").state_dict()}
    dcp.load(plainly, checkpoint_id=folder)
    return (
        *_whole(model, optimizer),
        given["epoch"],
        given["names"],
        _arrays(dict(plain.state_dict())),
        _arrays(dict(plainly["model"])),
    )


def _message(call: Any) -> str:
    try:
        call()
    except dcp.CheckpointException as error:
        return str(error)
    return "nothing"


def damaged(folder: str) -> dict[str, str]:
    """What is said of checkpoints that are not whole; parameters are as they were."""
    model = sharded_in_place("gpt", True)
    state = get_model_state_dict(model)
    before = [p.detach().clone() for p in model.parameters()]
    rank, found = dist.get_rank(), {}
    for kind in ("byte", "short", "missing", "metadata", "half", "shape", "name"):
        copy = Path(folder + "-" + kind)
        if rank == 0:
            shutil.copytree(folder, copy)
            _damage(copy, kind)
        dist.barrier()
        given: Any = {"model": state}
        if kind == "shape":
            given = {"model": {"head.weight": dj.ones(3, 3)}}
        if kind == "name":
            given = {"model": {"other": dj.ones(3)}}
        found[kind] = _message(functools.partial(dcp.load, given, checkpoint_id=copy))
    assert all(x.equal(p) for x, p in zip(before, model.parameters(), strict=True))
    return found


def _damage(folder: Path, kind: str) -> None:
    file = max(folder.glob("__*.distcp"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    metadata = folder / ".metadata"
    if kind == "byte":
        data[10] ^= 1
        file.write_bytes(data)
    elif kind == "short":
        file.write_bytes(data[:20])
    elif kind == "missing":
        file.unlink()
    elif kind == "metadata":
        metadata.write_text(metadata.read_text()[:100])
    elif kind == "half":
        metadata.unlink()


def unwritable(folder: str) -> tuple[str, str, int]:
    """A save in which one process fails: what all say, and what is read afterwards."""
    place = Path(folder + "-unwritable")
    dcp.save({"x": dj.tensor([1.0, 2.0]), "n": 1}, checkpoint_id=place)
    bad: Any = {"x": dj.tensor([3.0, 4.0]), "n": 2}
    if dist.get_rank() == 1:
        bad = {"x": dj.tensor([3.0, 4.0]), "n": lambda: None}
    said = _message(functools.partial(dcp.save, bad, checkpoint_id=place))
    others = {"x": dj.zeros(2)} if dist.get_rank() == 1 else {"y": dj.zeros(2)}
    differ = _message(functools.partial(dcp.save, others, checkpoint_id=place))
    given = {"x": dj.zeros(2), "n": 0}
    dcp.load(given, checkpoint_id=place)
    return said, differ, given["n"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four processes write, two read."""
    place = str(tmp_path_factory.mktemp("checkpoints") / "one")
    (first,) = on_ranks([functools.partial(written, place)], 4)
    files = sorted(path.name for path in Path(place).iterdir())
    others = on_ranks([functools.partial(f, place) for f in (read, damaged, unwritable)], 2)
    for by_rank in (first, *others):
        assert not any(isinstance(one, Raised) for one in by_rank), by_rank
    names = ("read", "damaged", "unwritable")
    return {
        "written": first,
        "files": files,
        "folder": place,
        **dict(zip(names, others, strict=True)),
    }


def assert_same(expected: Any, found: Any) -> None:
    """Names and values."""
    assert list(expected) == list(found)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same(value, found[name])
        else:
            np.testing.assert_array_equal(value, found[name], err_msg=name)


def test_another_number_of_processes_reads_what_was_written(results: dict[str, Any]) -> None:
    """Parameters, states of the optimizer, and other objects; plain models, too."""
    model, steps = results["written"][0]
    for state, moments, epoch, names, plain, plainly in results["read"]:
        assert_same(model, state)
        assert_same(steps, moments)
        assert (2, ["a", "b"]) == (epoch, names)
        assert_same(model, plain)
        assert_same(model, plainly)


def test_a_checkpoint_is_one_file_of_each_process_and_one_that_names_them(
    results: dict[str, Any],
) -> None:
    """Those of the save before are gone, and no temporary ones stay."""
    files = results["files"]
    assert ".metadata" == files[0]
    assert ["__0", "__1", "__2", "__3"] == [name[:3] for name in files[1:]]
    assert 4 == len([name for name in files if name.endswith(".distcp")])
    entries = json.loads((Path(results["folder"]) / ".metadata").read_text())["entries"]
    assert [13, 8] == entries["model.head.weight"]["shape"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("byte", "are not those that were written"),
        ("short", "are not those that were written"),
        ("missing", "a file of the checkpoint is missing"),
        ("metadata", "The file is damaged, or another program's"),
        ("half", "It is missing where save() did not end"),
        ("shape", "Expected (3, 3)"),
        ("name", "the checkpoint has no 'model.other'"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_all(
    results: dict[str, Any], kind: str, text: str
) -> None:
    """With the reason; nothing is written into the model."""
    for found in results["damaged"]:
        assert text in found[kind]


def test_a_save_that_fails_leaves_the_checkpoint_before(results: dict[str, Any]) -> None:
    """And all processes say which one failed."""
    for said, differ, number in results["unwritable"]:
        assert "rank 1" in said
        assert "rank 1 has other entries than rank 0" in differ
        assert 1 == number


def test_files_of_one_process_become_checkpoints_and_back(tmp_path: Path) -> None:
    """Without a group."""
    x = dj.arange(6, dtype=dj.bfloat16).reshape(2, 3)
    dj.save({"a": {"x": x}, "n": 3}, tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "other.pt")

    found = dj.load(tmp_path / "other.pt")

    assert ["a.x", "n"] == list(found)
    assert found["a.x"].equal(x)
    assert 3 == found["n"]


def test_a_module_may_be_saved_and_read_itself(tmp_path: Path) -> None:
    """As anything that has `state_dict` and `load_state_dict`; a save may go on beside."""
    model, other = dj.nn.Linear(2, 3), dj.nn.Linear(2, 3)
    dcp.async_save({"model": model}, checkpoint_id=tmp_path).result()

    dcp.load({"model": other}, checkpoint_id=tmp_path)

    assert other.weight.equal(model.weight)
    with pytest.raises(dcp.CheckpointException, match="a checkpoint is there"):
        dcp.save({"model": model}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))


def test_a_thread_writes_copies_while_the_program_goes_on(tmp_path: Path) -> None:
    """A second save waits for the first; what fails in one process fails in the futures of all."""
    (by_rank,) = on_ranks([functools.partial(written_meanwhile, str(tmp_path))], 2)
    for found in by_rank:
        assert not isinstance(found, Raised), found
        early, is_waited_for, read, later, text = found
        assert not early
        assert is_waited_for
        assert [1.0] * 3 == read["x"].tolist() or [2.0] * 3 == read["x"].tolist()
        assert [0.0, 1.0, 2.0, 3.0, 4.0] == read["y"].tolist()
        assert {"epochs": [1]} == read["notes"]
        assert [12.0] * 3 == later
        assert "rank 1: OSError: no space left" in text
