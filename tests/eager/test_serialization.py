"""Files: what is kept, what is refused, what a damaged file does."""

import io
import json
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from dynajit.core import dtypes
from dynajit.core.errors import ArgumentError, FileFormatError
from dynajit.eager.creation import empty, tensor
from dynajit.eager.serialization import load, save
from dynajit.eager.tensor import Size


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_every_dtype_is_kept(dtype: dtypes.DType, tmp_path: Path) -> None:
    x = tensor([[1, 0, 1]], dtype=dtype)
    save(x, tmp_path / "x")
    again = load(tmp_path / "x")

    assert (x.tolist(), x.dtype, x.shape) == (again.tolist(), again.dtype, again.shape)
    again.zero_()


def test_a_state_dict_is_kept_in_order(tmp_path: Path) -> None:
    state = OrderedDict(
        [("b.weight", tensor([[1.0]], requires_grad=True)), ("a", tensor(2)), ("e", empty(0, 3))]
    )
    save(state, tmp_path / "s.safetensors")
    again = load(tmp_path / "s.safetensors")

    assert (OrderedDict, ["b.weight", "a", "e"], True, (0, 3)) == (
        type(again),
        list(again),
        again["b.weight"].requires_grad,
        again["e"].shape,
    )


def test_nests_of_plain_values_are_kept() -> None:
    nest = {
        "state": {0: {"step": 3, "m": tensor([1.0])}, 1: (1.5, None, True, "text")},
        "groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1]}],
        "special": [float("inf"), -0.0, 1 << 80],
        "dtype": dtypes.bfloat16,
        "size": Size((2, 3)),
    }
    file = io.BytesIO()
    save(nest, file)
    file.seek(0)
    again = load(file)

    assert [1.0] == again["state"][0].pop("m").tolist()
    nest["state"][0].pop("m")
    assert nest == again
    assert (tuple, Size) == (type(again["state"][1]), type(again["size"]))


def test_the_file_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    save({"layer": {"weight": tensor([1.0, 2.0]).expand(2, 2).T}}, tmp_path / "x")

    assert [[1.0, 1.0], [2.0, 2.0]] == load_file(tmp_path / "x")["layer.weight"].tolist()


def test_any_safetensors_file_is_read_as_a_dict(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(2, np.float32)}, tmp_path / "x")

    assert [1.0, 1.0] == load(tmp_path / "x")["a"].tolist()


def test_a_subclass_of_dict_comes_back_plain() -> None:
    class StateDict(dict):
        pass

    file = io.BytesIO()
    save(StateDict(a=tensor(1)), file)
    file.seek(0)

    assert dict is type(load(file))


def test_names_that_collide_are_kept_apart() -> None:
    file = io.BytesIO()
    save({"a.b": tensor(1), "a": {"b": tensor(2)}}, file)
    file.seek(0)
    again = load(file)

    assert (1, 2) == (again["a.b"].item(), again["a"]["b"].item())


@pytest.mark.parametrize(
    "value", [object(), {"f": [print]}, {1, 2}, {(1, 2): 3}, np.zeros(2)], ids=str
)
def test_other_objects_are_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"save: .* is of type"):
        save(value, tmp_path / "x")

    assert [] == list(tmp_path.iterdir())


def damaged(change) -> io.BytesIO:
    file = io.BytesIO()
    save({"a": tensor([1.0, 2.0])}, file)
    return io.BytesIO(change(file.getvalue()))


def with_nest(nest: str):
    def change(data: bytes) -> bytes:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        header["__metadata__"]["dynajit"] = nest
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:-3],
        lambda data: b"\x80\x04" + data,
        lambda data: data.replace(b"F32", b"F99"),
        with_nest("{"),
        with_nest('{"tensor": "missing", "requires_grad": false}'),
        with_nest('{"code": "print(1)"}'),
        with_nest('{"number": "__import__"}'),
        with_nest("{}"),
    ],
    ids=[
        "empty",
        "short",
        "cut",
        "pickle",
        "dtype",
        "json",
        "missing",
        "kind",
        "number",
        "nothing",
    ],
)
def test_a_damaged_file_is_a_clear_error(change) -> None:
    with pytest.raises(FileFormatError, match=r"load\('file'\)"):
        load(damaged(change))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    save(tensor(1), tmp_path / "x")
    with pytest.raises(ArgumentError):
        save(object(), tmp_path / "x")

    assert (1, 1) == (load(tmp_path / "x").item(), len(list(tmp_path.iterdir())))
