"""Devices parse as in PyTorch."""

import copy
import pickle

import pytest

from dynajit.core.errors import DeviceError
from dynajit.core.types.device import CPU, Device, parse


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, CPU), ("cpu", CPU), ("cpu:0", CPU), ("cuda", Device("cuda")),
        ("cuda:1", Device("cuda", 1)), (2, Device("cuda", 2)),
        (Device("cuda", 3), Device("cuda", 3)),
    ],
)  # fmt: skip
def test_a_device_is_parsed(given, expected):
    assert expected == parse(given)


@pytest.mark.parametrize(
    "arguments",
    [
        ("cpu",), ("cuda",), ("cuda:1",), ("cuda", 1), ("meta",), ("mps",), ("xpu:2",),
        (Device("cuda", 1),),
        ("gpu",), ("cuda:x",), ("cuda:",), ("cuda:-1",), ("cuda:01",), ("cuda:1", 2),
        ("cuda", -1), ("",),
    ],
)  # fmt: skip
def test_the_class_takes_what_pytorch_takes(arguments):
    """A device by its number as PyTorch does where there is a GPU."""
    torch = pytest.importorskip("torch")
    try:
        expected = repr(torch.device(*map(str, arguments[:1]), *arguments[1:]))
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            Device(*arguments)
    else:
        assert expected == repr(Device(*arguments))


def test_a_device_is_one_object_however_it_is_named():
    assert Device("cuda:1") is Device("cuda", 1) is Device(1) is Device(type="cuda", index=1)
    assert Device("cpu:0") is CPU is Device(CPU)
    assert ("cuda", 1) == (Device("cuda:1").type, Device("cuda:1").index)


def test_kind_and_index_may_be_given_apart():
    assert parse("cuda", 1) == Device("cuda", 1)


@pytest.mark.parametrize("text", ["gpu", "cuda:x", "cuda:-1", ""])
def test_other_names_are_refused(text):
    with pytest.raises(DeviceError, match="Expected"):
        parse(text)


def test_devices_print_as_in_pytorch():
    torch = pytest.importorskip("torch")
    for text in ("cpu", "cuda", "cuda:1"):
        assert str(torch.device(text)) == str(parse(text))
        assert repr(torch.device(text)) == repr(parse(text))


def test_equal_devices_are_one_object():
    gpu = parse("cuda:1")

    assert gpu is Device("cuda", 1) is parse(1)
    assert gpu != Device("cuda") != parse("cpu")
    assert gpu is copy.deepcopy(gpu) is pickle.loads(pickle.dumps(gpu))
    assert {gpu: "second"}[parse("cuda", 1)] == "second"
