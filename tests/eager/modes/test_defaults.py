"""The default dtype and device are those of new tensors, as in PyTorch."""

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj

CREATED: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda t: t.zeros(2),
    "empty": lambda t: t.empty(2),
    "rand": lambda t: t.rand(2),
    "normal": lambda t: t.normal(0, 1, (2,)),
    "eye": lambda t: t.eye(2),
    "a full float": lambda t: t.full((2,), 1.0),
    "a full integer": lambda t: t.full((2,), 1),
    "linspace": lambda t: t.linspace(0, 1, 3),
    "arange of floats": lambda t: t.arange(0.0, 2.0),
    "arange of integers": lambda t: t.arange(2),
    "a window": lambda t: t.hann_window(4),
    "frequencies": lambda t: t.fft.fftfreq(4),
    "a float": lambda t: t.tensor(2.0),
    "floats and integers": lambda t: t.tensor([1, 2.5]),
    "nothing": lambda t: t.tensor([]),
    "an integer": lambda t: t.tensor(2),
    "a number of NumPy": lambda t: t.tensor(np.float32(2)),
    "an array": lambda t: t.as_tensor(np.ones(2, "f")),
    "Tensor of sizes": lambda t: t.Tensor(2),
    "Tensor of data": lambda t: t.Tensor([1, 2]),
    "FloatTensor": lambda t: t.FloatTensor(2),
    "new_tensor": lambda t: t.arange(3).new_tensor(1.0),
    "a layer": lambda t: t.nn.Linear(2, 2).weight,
    "statistics": lambda t: t.nn.BatchNorm1d(2).running_mean,
    "a distribution": lambda t: t.distributions.Normal(0, 1).loc,
    "a draw": lambda t: t.distributions.Uniform(0, 1).sample(),
    "collated": lambda t: t.utils.data.default_collate([1.0, 2.0]),
}
COMPUTED: dict[str, Callable[[Any], Any]] = {
    "times a float": lambda x: x * 1.5,
    "times a complex number": lambda x: x * 1j,
    "a quotient": lambda x: x / 2,
    "a root": lambda x: x.sqrt(),
    "a power": lambda x: x**0.5,
    "a power of a number": lambda x: 2.0**x,
    "logsumexp": lambda x: x.logsumexp(0),
    "atan2": lambda x: x.atan2(x),
    "a comparison": lambda x: x > 1.5,
    "times float32": lambda x: x * x.float(),
    "float32 times a float": lambda x: x.float() * 2.0,
    "a mean in float64": lambda x: x.mean(dtype=float),
    "a conversion": lambda x: x.to(float),
}


@pytest.fixture(autouse=True)
def _float32_again() -> Iterator[None]:
    yield
    dj.set_default_dtype(dj.float32)
    dj.set_default_device(None)


def names(function: Callable[[Any], Any], argument: Callable[[Any], Any]) -> list[str]:
    """What the default dtypes make of a function, in PyTorch and here."""
    torch = pytest.importorskip("torch")
    found = []
    for library in (torch, dj):
        try:
            for dtype in ("float64", "bfloat16", "float32"):
                library.set_default_dtype(getattr(library, dtype))
                result = function(argument(library))
                found.append(str(result.dtype).rpartition(".")[2])
        finally:
            library.set_default_dtype(library.float32)
    return found


@pytest.mark.parametrize("name", CREATED)
def test_new_tensors_have_the_default_dtype_where_pytorch_has_it(name: str) -> None:
    found = names(CREATED[name], lambda library: library)
    assert found[:3] == found[3:]


@pytest.mark.parametrize("name", COMPUTED)
def test_integers_become_the_default_dtype_where_floats_are_needed(name: str) -> None:
    found = names(COMPUTED[name], lambda library: library.arange(3))
    assert found[:3] == found[3:]


def test_values_are_computed_in_the_default_dtype() -> None:
    """Not in float32, and converted then."""
    dj.set_default_dtype(dj.float64)
    x = dj.arange(1, 9)
    assert np.array_equal(x.sqrt().numpy(), np.sqrt(np.arange(1, 9)))
    assert np.array_equal((x * 0.1).numpy(), np.arange(1, 9) * 0.1)
    assert 0.1 == dj.tensor(0.1).item()


def test_texts_leave_out_the_default_dtype() -> None:
    torch = pytest.importorskip("torch")
    texts = []
    for library in (torch, dj):
        library.set_default_dtype(library.float64)
        try:
            made = [library.zeros(2), library.zeros(2, dtype=library.float32), library.zeros(0)]
            made += [library.tensor(1j), library.tensor(1j, dtype=library.complex64)]
            texts.append([repr(x).replace("torch.", "dynajit.") for x in made])
        finally:
            library.set_default_dtype(library.float32)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_optimizers_count_their_steps_as_in_pytorch(dtype: str) -> None:
    found = []
    for name in ("torch", "dynajit"):
        library = pytest.importorskip(name)
        library.set_default_dtype(getattr(library, dtype))
        try:
            weight = library.nn.Parameter(library.ones(2))
            optimizer = library.optim.Adam([weight])
            weight.sum().backward()
            optimizer.step()
        finally:
            library.set_default_dtype(library.float32)
        state = optimizer.state[weight]
        found.append([str(state[key].dtype).rpartition(".")[2] for key in ("step", "exp_avg")])
    assert found[0] == found[1]


def test_limits_are_those_of_the_default_dtype() -> None:
    assert "float32" == dj.finfo().dtype
    dj.set_default_dtype(dj.bfloat16)
    assert "bfloat16" == dj.finfo().dtype
    assert "float64" == dj.finfo(float).dtype


def test_the_types_of_python_are_dtypes_of_64_bits() -> None:
    x = dj.ones(2)
    for python, dtype in ((float, dj.float64), (complex, dj.complex128), (int, dj.int64)):
        made = (
            dj.zeros(2, dtype=python), dj.tensor([1], dtype=python), dj.full((2,), 1, dtype=python),
            dj.empty(2, dtype=python), dj.as_tensor([1], dtype=python), x.to(python),
            x.to(dtype=python), x.sum(dtype=python), x.new_zeros(2, dtype=python),
        )  # fmt: skip
        assert [dtype] * len(made) == [one.dtype for one in made]
    assert dj.nn.Linear(2, 2).to(float).weight.dtype is dj.float64


def test_complex_numbers_of_16_bit_floats_are_refused() -> None:
    dj.set_default_dtype(dj.float16)
    with pytest.raises(NotImplementedError, match="complex numbers"):
        dj.tensor(1j)


@pytest.mark.parametrize("dtype", [dj.int64, dj.complex64, "float32", float, None])
def test_only_floats_are_default_dtypes(dtype: Any) -> None:
    with pytest.raises(TypeError, match="only floating-point types"):
        dj.set_default_dtype(dtype)
    assert dj.get_default_dtype() is dj.float32


def test_a_device_is_the_default_within_its_block() -> None:
    """Blocks nest; the outer default holds again after an error."""
    meta, cpu = dj.device("meta"), dj.device("cpu")
    with meta as entered:
        assert entered is meta
        with cpu, cpu:
            assert dj.zeros(1).device == cpu == dj.get_default_device()
        assert dj.zeros(1).device == meta == dj.get_default_device()
    with pytest.raises(ValueError), meta:
        raise ValueError
    assert dj.get_default_device() == cpu


MADE_ON_THE_DEVICE: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda t, x: t.zeros(2),
    "empty": lambda t, x: t.empty(2),
    "full": lambda t, x: t.full((2,), 1),
    "rand": lambda t, x: t.rand(2),
    "randperm": lambda t, x: t.randperm(2),
    "arange": lambda t, x: t.arange(2),
    "linspace": lambda t, x: t.linspace(0, 1, 2),
    "eye": lambda t, x: t.eye(2),
    "tril_indices": lambda t, x: t.tril_indices(2, 2),
    "hann_window": lambda t, x: t.hann_window(3),
    "fftfreq": lambda t, x: t.fft.fftfreq(3),
    "tensor": lambda t, x: t.tensor([1.0]),
    "tensor of a tensor": lambda t, x: t.tensor(x),
    "as_tensor of a tensor": lambda t, x: t.as_tensor(x),
    "as_tensor of an array": lambda t, x: t.as_tensor(np.ones(2)),
    "asarray": lambda t, x: t.asarray([1.0]),
    "Linear": lambda t, x: t.nn.Linear(2, 2),
    "from_numpy": lambda t, x: t.from_numpy(np.ones(2)),
    "Tensor": lambda t, x: t.Tensor(2),
    "Tensor of data": lambda t, x: t.Tensor([1.0]),
    "FloatTensor": lambda t, x: t.FloatTensor(2),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "new_zeros": lambda t, x: x.new_zeros(2),
    "new_tensor": lambda t, x: x.new_tensor([1.0]),
    "normal": lambda t, x: t.normal(0.0, 1.0, (2,)),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", MADE_ON_THE_DEVICE)
def test_functions_heed_the_default_device_where_pytorch_does(name: str) -> None:
    """What they make is on "meta"."""
    torch, make = pytest.importorskip("torch"), MADE_ON_THE_DEVICE[name]
    x = torch.ones(2)
    with torch.device("meta"):
        made = make(torch, x)
        made = getattr(made, "weight", made)
    own = dj.ones(2)
    with dj.device("meta"):
        found = make(dj, own)
        found = getattr(found, "weight", found)
    assert found.device.type == made.device.type


def test_threads_have_default_devices_of_their_own() -> None:
    found = []
    with dj.device("meta"):
        thread = threading.Thread(target=lambda: found.append(dj.zeros(1).device.type))
        thread.start()
        thread.join()
    assert ["cpu"] == found


def test_the_default_device_outlives_an_autocast_block() -> None:
    with dj.autocast("cpu"):
        dj.set_default_device("cpu")
    assert importlib.import_module("dynajit.core.types.device").chosen() == dj.device("cpu")
    assert not dj.is_autocast_enabled("cpu")
