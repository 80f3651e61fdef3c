"""Checkpoints that were made to harm: sizes that are not true, and attributes in place of methods.

What `load` refuses is a FileFormatError, before memory is taken for it.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import FileFormatError, OutOfMemoryError
from dynajit.eager.files import reading as checkpoint_reading
from dynajit.eager.files import serialization
from dynajit.serialization import safe_globals


def saved(what: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    dj.save(what, file, **options)
    return file.getvalue()


def load(content: bytes) -> Any:
    return dj.load(io.BytesIO(content))


def rewritten(content: bytes, change: Callable[[str, bytes], tuple[bytes, int]]) -> bytes:
    """A zip file with other entries: (name, bytes) -> (bytes, how they are compressed)."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data, kind = change(name, old.read(name))
            new.writestr(name, data, kind)
    return file.getvalue()


@pytest.mark.parametrize("count", [0, 1, 11, 13, 10_000_000])
def test_a_compressed_entry_has_the_bytes_of_its_storage(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is not read at all."""

    def change(name: str, data: bytes) -> tuple[bytes, int]:
        return (bytes(count) if "/data/" in name else data), zipfile.ZIP_DEFLATED

    content = rewritten(saved(dj.ones(3)), change)
    monkeypatch.setattr(checkpoint_reading, "_fill", None)

    with pytest.raises(FileFormatError, match=f" {count} bytes"):
        load(content)


def test_a_compressed_file_is_read() -> None:
    content = rewritten(saved(dj.ones(3)), lambda name, data: (data, zipfile.ZIP_DEFLATED))

    assert [1.0] * 3 == load(content).tolist()


def test_a_compressed_pickle_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    content = rewritten(saved(dj.ones(3)), lambda name, data: (data, zipfile.ZIP_DEFLATED))
    monkeypatch.setattr(checkpoint_reading, "LARGEST_PICKLE", 10)

    with pytest.raises(FileFormatError, match=r"data.pkl' of the file says that it has"):
        load(content)


def sized(content: bytes, size: int) -> bytes:
    """A zip file in which entries of 12 bytes say that they have another size."""
    return content.replace((12).to_bytes(4, "little") * 2, size.to_bytes(4, "little") * 2)


@pytest.mark.parametrize("size", [11, 13, 1 << 20, (1 << 32) - 2])
def test_an_entry_that_says_another_size_is_refused(size: int) -> None:
    with pytest.raises(FileFormatError):
        load(sized(saved(dj.ones(3)), size))


def test_entries_that_lie_in_one_another_are_refused() -> None:
    """Each would be a copy of the same bytes of the file."""
    content = saved([dj.ones(1000), dj.zeros(1000)])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        first, second = (i for i in archive.infolist() if "/data/" in i.filename)
        last = archive.infolist()[-1].header_offset

    class Archive(zipfile.ZipFile):
        def getinfo(self, name: str) -> zipfile.ZipInfo:
            info = super().getinfo(name)
            if "/data/" in name:
                info.file_size = info.compress_size = last
            return info

    assert (4000, 4000) == (first.file_size, second.file_size)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(FileFormatError, match=r"in one ano|Overlapped"),
    ):
        patch.setattr(zipfile, "ZipFile", Archive)
        patch.setattr(checkpoint_reading, "_fill", lambda entry, data: None)
        load(content)


class _Skipping(pickle._Unpickler):  # type: ignore[name-defined, misc]
    """Goes through a pickle of a checkpoint."""

    def persistent_load(self, identity: Any) -> Any:
        return None

    def find_class(self, module: str, name: str) -> Any:
        return lambda *arguments: None


def old(parts: list[Any], after: bytes) -> bytes:
    """A file of the older kind with other bytes behind the pickle of the object."""
    content = saved(parts, _use_new_zipfile_serialization=False)
    file = io.BytesIO(content)
    for _ in range(4):
        _Skipping(file).load()
    return content[: file.tell()] + after


def test_a_storage_without_bytes_is_refused() -> None:
    """It would be memory of whoever had it before."""
    keys = pickle.dumps([], 2)

    with pytest.raises(FileFormatError, match="no bytes of the storages"):
        load(old([dj.ones(3)], keys + bytes(1000)))


def test_storages_are_no_larger_than_the_file_together() -> None:
    parts = [dj.zeros(200) for _ in range(6)]

    with pytest.raises(FileFormatError, match="more than the file"):
        load(old(parts, bytes(1000)))


@pytest.mark.parametrize("cut", [1, 5, 9, 17, 20])
def test_a_file_of_the_older_kind_that_ends_early_is_refused(cut: int) -> None:
    content = saved([dj.ones(3)], _use_new_zipfile_serialization=False)

    with pytest.raises(FileFormatError):
        load(content[:-cut])


def test_without_memory_load_says_how_much_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(size: int, dtype: Any) -> Any:
        raise MemoryError(f"Unable to allocate {size}")

    content = saved(dj.ones(300))
    monkeypatch.setattr(checkpoint_reading.np, "empty", refuse)
    with pytest.raises(OutOfMemoryError, match=r"300 elements of float32 \(1200 bytes\)"):
        load(content)


def test_memory_that_ends_elsewhere_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise MemoryError("Unable to allocate 1. TiB for an array with shape (9,)")

    monkeypatch.setattr(serialization, "read_zip", refuse)
    with pytest.raises(OutOfMemoryError, match=r"not enough memory.*1\. TiB"):
        load(saved(dj.ones(3)))


# ---------------------------------------------------------------------------------------------
# attributes

METHODS = [
    name
    for name in dir(dj.Tensor)
    if callable(getattr(dj.Tensor, name, None)) and not isinstance(vars(object).get(name), type)
]
WORDS = ["__deepcopy__", "__setstate__", "__dict__", "__class__", "__torch_function__", "__array__",
         "__reduce_ex__", "__unheard_of__"]  # fmt: skip


def with_attribute(made: Any, name: str) -> bytes:
    """A file with an object that has such an attribute."""
    made.__dict__["q" * 8] = "hostile"
    before, after = b"X\x08\0\0\0qqqqqqqq", name.encode()
    after = b"X" + len(after).to_bytes(4, "little") + after

    def change(entry: str, data: bytes) -> tuple[bytes, int]:
        assert "pkl" not in entry or before in data
        return data.replace(before, after), zipfile.ZIP_STORED

    return rewritten(saved({"a": made}), change)


@pytest.mark.parametrize(("make", "names"), [
    (lambda: dj.ones(3), ["numpy", "sum", "backward", "cpu"]),
    (lambda: dj.nn.Parameter(dj.ones(3)), ["numpy", "sum", "backward", "cpu"]),
    (OrderedDict, ["items", "keys", "update", "move_to_end"]),
], ids=["tensor", "parameter", "ordered dict"])  # fmt: skip
def test_a_file_puts_nothing_in_place_of_methods(make: Callable[[], Any], names: Any) -> None:
    for name in (*names, *WORDS):
        content = with_attribute(make(), name)
        with pytest.raises(FileFormatError, match=f"attribute '{name}'"):
            load(content)


def test_no_method_of_tensors_is_hidden() -> None:
    assert len(METHODS) > 300
    for name in METHODS:
        with pytest.raises(FileFormatError):
            load(with_attribute(dj.ones(1), name))


def test_attributes_of_programs_are_loaded() -> None:
    tensor, names = dj.ones(3), OrderedDict(a=dj.ones(1))
    tensor.__dict__.update(tag="mine", _is_initialized=True)
    names._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    found = load(saved([tensor, names]))

    assert {"tag": "mine", "_is_initialized": True} == found[0].__dict__
    assert {"": {"version": 1}} == found[1]._metadata


class Layer(dj.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


@dataclass
class Options:
    activation: Any = len  # a function that is no method
    size: int = 3

    def describe(self) -> str:
        return "options"


def test_classes_that_are_declared_safe_keep_their_methods() -> None:
    with safe_globals([Layer, Options]):
        for made, name in ((Layer(), "forward"), (Layer(), "eval"), (Options("relu"), "describe")):
            content = with_attribute(made, name)
            with pytest.raises(FileFormatError, match=f"attribute '{name}'"):
                load(content)
        assert Options("relu", 4) == load(saved(Options("relu", 4)))
        assert not load(saved(Layer().eval())).training
