"""Files: what is kept, what is refused, what a damaged file does."""

import io
import json
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    FileFormatError,
    InvalidValueError,
    UnsafeFileError,
)
from dynajit.core.types import dtypes
from dynajit.eager.files.serialization import load, safe_globals, save
from dynajit.eager.tensor.creation import empty, tensor
from dynajit.eager.tensor.tensor import Size

BOTH = pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])


def again(value: Any, new: bool = True, **options: Any) -> Any:
    """`value` written and read."""
    file = io.BytesIO()
    save(value, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    return load(file, **options)


@BOTH
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_every_dtype_is_kept(dtype: dtypes.DType, new: bool) -> None:
    x = tensor([[1, 0, 1]], dtype=dtype)
    read = again(x, new)

    assert (x.tolist(), x.dtype, x.shape) == (read.tolist(), read.dtype, read.shape)
    read.zero_()


@BOTH
def test_a_state_dict_is_kept_in_order(new: bool) -> None:
    state = OrderedDict(
        [("b.weight", tensor([[1.0]], requires_grad=True)), ("a", tensor(2)), ("e", empty(0, 3))]
    )
    read = again(state, new)

    assert (OrderedDict, ["b.weight", "a", "e"], True, (0, 3)) == (
        type(read),
        list(read),
        read["b.weight"].requires_grad,
        read["e"].shape,
    )


@BOTH
def test_nests_of_plain_values_are_kept(new: bool) -> None:
    nest = {
        "state": {0: {"step": 3}, 1: (1.5, None, True, "text")},
        "groups": [{"lr": 1e-3, "betas": (0.9, 0.999), (1, 2): [0, 1]}],
        "special": [float("inf"), -0.0, 1 << 80, 2 + 1j, b"\xff", {1, 2}, Counter("aab")],
        "dtypes": [dtypes.bfloat16, dtypes.bool_, dtypes.bfloat16],
        "size": Size((2, 3)),
        "device": dj.device("cpu"),
    }
    read = again(nest, new)

    assert nest == read
    assert (tuple, Size) == (type(read["state"][1]), type(read["size"]))


@BOTH
def test_views_share_their_memory_again(new: bool) -> None:
    x = dj.arange(12.0).reshape(3, 4)
    read = again({"x": x, "t": x.T, "row": x[1], "step": x[:, ::2], "same": x}, new)
    read["x"][1, 2] = -1

    assert read["x"] is read["same"]
    assert -1 == read["t"][2, 1].item() == read["row"][2].item() == read["step"][1, 1].item()
    assert ((1, 4), 4, (4, 2)) == (
        read["t"].stride(),
        read["row"].storage_offset(),
        read["step"].stride(),
    )


def test_a_write_to_a_view_is_counted_for_all_that_share_its_memory() -> None:
    x = dj.arange(4.0)
    read = again([x, x[1:]])
    weight = dj.ones(3, requires_grad=True)
    result = (weight * read[1]).sum()
    read[0].zero_()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_memory_that_no_strides_describe_is_kept_by_value() -> None:
    backwards = dj.from_numpy(np.arange(3.0)).flip(0)
    numbers = np.frombuffer(bytes(9), np.uint8)[1:].view(np.int64)

    assert [2, 1, 0] == again(backwards).tolist()
    assert [0] == again(dj.Tensor._from_array(numbers)).tolist()
    assert [0, 2] == again(dj.Tensor._from_array(np.arange(4)[::2])).tolist()
    assert [3, 2] == again(dj.Tensor._from_array(np.arange(4)[:1:-1])).tolist()


def test_one_memory_by_two_dtypes_is_refused() -> None:
    x = dj.ones(2)

    with pytest.raises(DTypeError, match="view the same data as different types"):
        save([x, x.view(dj.int32)], io.BytesIO())


@BOTH
def test_parameters_modules_and_attributes_are_kept(new: bool) -> None:
    module = dj.nn.Sequential(dj.nn.Linear(2, 3), dj.nn.BatchNorm1d(3))
    module[0].weight.tag = "first"
    frozen = dj.nn.Parameter(dj.ones(2), requires_grad=False)
    state, weight, same = again([module.state_dict(), module[0].weight, frozen], new)
    whole = again(module, new, weights_only=False)

    assert (dj.nn.Parameter, "first", True) == (type(weight), weight.tag, weight.requires_grad)
    assert not same.requires_grad
    assert module.state_dict()._metadata == state._metadata
    assert [] == module.load_state_dict(state).missing_keys
    assert module[0].weight.tolist() == whole[0].weight.tolist()


def test_a_subclass_of_tensor_comes_back_where_files_may_do_all() -> None:
    read = again(dj.ones(2).as_subclass(Tagged), weights_only=False)

    assert (Tagged, [1, 1]) == (type(read), read.tolist())
    with pytest.raises(UnsafeFileError, match="Tagged"):
        again(dj.ones(2).as_subclass(Tagged))


class Tagged(dj.Tensor):
    """A tensor class of a program."""


class Settings:
    """A class of a program."""

    def __init__(self) -> None:
        self.rate = 2


def test_classes_declared_safe_are_read() -> None:
    with pytest.raises(UnsafeFileError, match=r"Weights only load failed.*Settings"):
        again(Settings())
    with safe_globals([Settings]):
        assert 2 == again(Settings()).rate
    with pytest.raises(pickle.UnpicklingError):
        again(Settings())

    dj.serialization.add_safe_globals([Settings])
    assert [Settings] == dj.serialization.get_safe_globals()
    assert 2 == again([Settings()])[0].rate
    dj.serialization.clear_safe_globals()
    assert [] == dj.serialization.get_safe_globals()


def pickled_as(function: Any, *arguments: Any) -> Any:
    """An object whose pickle calls `function`."""
    made = type("Call", (), {"__reduce__": lambda self: (function, arguments)})
    return made()


@BOTH
@pytest.mark.parametrize("function", [eval, print, getattr, pickle.loads, np.zeros], ids=str)
def test_a_file_of_weights_calls_nothing_else(function: Any, new: bool) -> None:
    with pytest.raises(UnsafeFileError, match="weights_only=False if you trust"):
        again(pickled_as(function, "1"), new)


@pytest.mark.parametrize(
    "text",
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb.",
        b"ctorch\nSize\n(N}X\x01\x00\x00\x00aK\x01stb.",
        b"\x80\x02]K\x01\x85R.",
        b"\x80\x02X\x01\x00\x00\x00a)\x81.",
        b"(ibuiltins\nlist\n.",
        b"\x80\x02\x82\x01.",
        b"cos\nsystem\n(X\x02\x00\x00\x00lst R.",
    ],
    ids=["function", "class", "call", "new", "inst", "extension", "system"],
)
def test_hostile_pickles_are_refused(text: bytes) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", text)
    file.seek(0)

    with pytest.raises(UnsafeFileError):
        load(file)


def with_tensor(*place: Any) -> io.BytesIO:
    """A file whose tensor of 4 bytes has this offset, these sizes and strides."""
    file, changed = io.BytesIO(), io.BytesIO()
    save(dj.ones(1), file)
    start = b"K\x00K\x01\x85"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(changed, "w") as copy:
        for info in archive.infolist():
            data = archive.read(info)
            if info.filename.endswith("data.pkl"):
                at = data.index(start)
                end = data.index(b"\x89", at)
                body = b"".join(pickle.dumps(item, 2)[2:-1] for item in place)
                data = data[:at] + body + data[end:]
            copy.writestr(info.filename, data)
    changed.seek(0)
    return changed


@pytest.mark.parametrize(
    "place",
    [(1, (1,), (1,)), (0, (2,), (1,)), (0, (1 << 40,), (1,)), (-1, (1,), (1,)), (0, (1,), (1, 1)),
     (0, (1.5,), (1,)), (0, (2,), (-1,)), (True, (1,), (1,))],
    ids=str,
)  # fmt: skip
def test_a_tensor_beyond_its_storage_is_refused(place: Any) -> None:
    assert [1, 1, 1] == load(with_tensor(0, (3,), (0,))).tolist()
    with pytest.raises(FileFormatError, match="a tensor of the file"):
        load(with_tensor(*place))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:-3],
        lambda data: data[: len(data) // 2],
        lambda data: b"\x80\x63" + data,
        lambda data: data.replace(b"data.pkl", b"date.pkl"),
        lambda data: data.replace(b"FloatStorage", b"FloatStoragf"),
        lambda data: data.replace(b"archive/data/0", b"archive/data/9"),
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "short", "cut", "half", "pickle", "entry", "storage", "missing", "zeros"],
)
@BOTH
def test_a_damaged_file_is_a_clear_error(change: Any, new: bool) -> None:
    file = io.BytesIO()
    save({"a": tensor([1.0, 2.0])}, file, _use_new_zipfile_serialization=new)
    changed = change(file.getvalue())
    if changed == file.getvalue():
        pytest.skip("this kind of file has no such part")

    with pytest.raises(FileFormatError, match=r"load\('file'\)|Weights only"):
        load(io.BytesIO(changed))


@BOTH
def test_every_cut_and_many_changes_end_in_an_answer_or_a_file_error(new: bool) -> None:
    file = io.BytesIO()
    save({"a": dj.ones(3), "n": [1, "x", (2.5,)]}, file, _use_new_zipfile_serialization=new)
    data = file.getvalue()
    draw = np.random.default_rng(0)
    for end in draw.integers(0, len(data) - 1, 60):
        with pytest.raises(FileFormatError):
            load(io.BytesIO(data[:end]))
    for place in draw.integers(0, len(data), 300):
        changed = bytearray(data)
        changed[place] ^= 1 << int(draw.integers(8))
        try:
            load(io.BytesIO(bytes(changed)))
        except (FileFormatError, DeviceError):
            continue


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    save(tensor(1), tmp_path / "x")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        save(lambda: None, tmp_path / "x")

    assert (1, 1) == (load(tmp_path / "x").item(), len(list(tmp_path.iterdir())))


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    save(tensor(1), tmp_path / "link")
    save(tensor(1), "/dev/null")

    assert (tmp_path / "link").is_symlink()
    assert 1 == load(str(tmp_path / "x")).item()
    assert Path("/dev/null").is_char_device()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="pickle_module"):
        save(1, tmp_path / "x", pickle_module=json)
    with pytest.raises(ArgumentError, match="'write' attribute"):
        save(1, 5)
    with pytest.raises(ArgumentError, match="expected a path or a file"):
        load(5)
    with pytest.raises(ArgumentError, match="pickle_module"):
        load(tmp_path / "x", pickle_module=pickle)
    with pytest.raises(InvalidValueError, match="mmap"):
        load(io.BytesIO(), mmap=True)
    with pytest.raises(ArgumentError, match="map_location"):
        load(io.BytesIO(), map_location=1.5)


@pytest.mark.parametrize(
    "place",
    ["cpu", dj.device("cpu"), {"cuda:0": "cpu"}, lambda s, l: s, lambda s, l: None],
    ids=["text", "device", "dict", "function", "nothing"],
)
def test_locations_may_be_mapped_to_the_cpu(place: Any) -> None:
    assert [1.0] == again(tensor([1.0]), map_location=place).tolist()


def on_a_gpu() -> io.BytesIO:
    """A file whose storage was on a GPU."""
    file = io.BytesIO()
    save({"a": tensor([1.0])}, file, _use_new_zipfile_serialization=False)
    return io.BytesIO(file.getvalue().replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))


@pytest.mark.usefixtures("no_gpu")
def test_what_lay_on_a_gpu_needs_a_place() -> None:
    for place in ("cpu", {"cuda:0": "cpu"}, lambda s, l: s):
        assert [1.0] == load(on_a_gpu(), map_location=place)["a"].tolist()
    for place in (None, {"cuda:1": "cpu"}, lambda s, l: None):
        with pytest.raises(DeviceError, match="Attempting to deserialize object on a CUDA device"):
            load(on_a_gpu(), map_location=place)
    with pytest.raises(DeviceError):
        load(on_a_gpu(), map_location="cuda")


def test_mapped_storages_are_read_and_not_written_back(tmp_path: Path) -> None:
    save({"x": dj.arange(6.0).reshape(2, 3), "e": dj.empty(0)}, tmp_path / "x")
    read = load(tmp_path / "x", mmap=True)
    read["x"].add_(1)

    assert [[1, 2, 3], [4, 5, 6]] == read["x"].tolist()
    assert [[0, 1, 2], [3, 4, 5]] == load(tmp_path / "x")["x"].tolist()


def safetensors_file(header: Any, content: bytes) -> io.BytesIO:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + content)


def test_safetensors_files_are_read_as_a_dict(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.ones((2, 1), np.float32), "b": np.array(3), "e": np.empty((0, 2), bool)}
    numpy.save_file(arrays, tmp_path / "x", metadata={"format": "pt"})
    read = load(tmp_path / "x")

    assert {k: v.tolist() for k, v in arrays.items()} == {k: v.tolist() for k, v in read.items()}
    assert (dj.float32, dj.int64, (0, 2)) == (read["a"].dtype, read["b"].dtype, read["e"].shape)


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        ({"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}, bytes(4)),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, bytes(3)),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, bytes(4)),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}, bytes(4)),
        ({"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}, bytes(4)),
        ({"shape": [1]}, bytes(4)),
        (5, b""),
    ],
    ids=["dtype", "cut", "shape", "negative", "before", "keys", "kind"],
)
def test_a_wrong_safetensors_header_is_a_clear_error(entry: Any, content: bytes) -> None:
    with pytest.raises(FileFormatError, match=r"load\('file'\)"):
        load(safetensors_file({"a": entry}, content))


@pytest.mark.parametrize("header", [b"{", b"{]", b'{"a": 1}'], ids=str)
def test_a_safetensors_header_that_is_no_header_is_a_clear_error(header: bytes) -> None:
    with pytest.raises(FileFormatError, match=r"load\('file'\)"):
        load(safetensors_file(header, b""))
