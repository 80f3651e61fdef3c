"""Simulated quantization has PyTorch's values, gradients and refusals."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.one_python

RANGES = ((0, 255), (-128, 127), (-5, 20), (3, 3))
DTYPES = ("float32", "float64", "float16", "bfloat16")
PER_TENSOR, PER_CHANNEL = "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"


def values(*shape: int) -> np.ndarray:
    """Random values, halves of steps, and what no range holds."""
    random = np.random.default_rng(0)
    array = (random.standard_normal(shape) * 3).astype(np.float32)
    array.reshape(-1)[:8] = 0.25, 0.35, 0.05, -0.15, np.nan, np.inf, -np.inf, -0.0
    return array


def both(name: str, array: np.ndarray, dtype: str, *arguments: Any) -> list[list[Any]]:
    """(result, gradient of the sum of its squares) of dynajit, and of PyTorch."""
    found = []
    for m in (dj, torch):
        x = m.from_numpy(array.copy()).to(getattr(m, dtype)).requires_grad_()
        given = [m.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        result = getattr(m, name)(x, *given)
        (result.to(m.float32) * 2.0).sum().backward()
        assert str(result.dtype).split(".")[-1] == dtype
        found.append([t.detach().to(m.float64).numpy() for t in (result, x.grad)])
    return found


def assert_same(found: list[list[Any]]) -> None:
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ends", RANGES)
def test_one_scale(ends: tuple[int, int], dtype: str) -> None:
    array, scale, zero_point = values(4, 33), 0.1, ends[0] if ends == (3, 3) else 3

    assert_same(both(PER_TENSOR, array, dtype, scale, zero_point, *ends))
    tensors = np.array(scale, np.float32), np.array(zero_point, np.int32)
    assert_same(both(PER_TENSOR, array, dtype, *tensors, *ends))


@pytest.mark.parametrize("zero", ["int32", "float32"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_scale_for_each_channel(axis: int, dtype: str, zero: str) -> None:
    array = np.nan_to_num(values(3, 4, 5), nan=0.5, posinf=7.0, neginf=-7.0)
    count = array.shape[axis]
    scales = np.linspace(0.05, 0.4, count, dtype=np.float32)
    zero_points = (np.arange(count) + (0.3 if zero == "float32" else 0)).astype(zero)

    assert_same(both(PER_CHANNEL, array, dtype, scales, zero_points, axis, -5, 20))


def test_compiled_it_is_one_graph_with_the_same_values() -> None:
    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return dj.fake_quantize_per_channel_affine(x, scale, zero_point, 1, -8, 7).relu()

    arguments = dj.from_numpy(values(6, 4)), dj.rand(4) + 0.1, dj.tensor([0, 1, -2, 3]).int()
    compiled = dj.compile(function, fullgraph=True)

    np.testing.assert_array_equal(compiled(*arguments).numpy(), function(*arguments).numpy())


CHANNELS = np.array([0.1, 0.2], np.float32), np.array([1, 2], np.int32)

BAD_CALLS = {
    "zero point outside": (PER_TENSOR, 0.1, 30, -5, 20),
    "no range": (PER_TENSOR, 0.1, 3, 20, -5),
    "two scales": (PER_TENSOR, CHANNELS[0], CHANNELS[1], -5, 20),
    "a number beside a tensor": (PER_TENSOR, CHANNELS[0][:1], 3, -5, 20),
    "too few scales": (PER_CHANNEL, *CHANNELS, 1, -5, 20),
    "a scale without dims": (PER_CHANNEL, np.float32(0.1), CHANNELS[1], 0, -5, 20),
    "double scales": (PER_CHANNEL, CHANNELS[0].astype(float), CHANNELS[1], 0, -5, 20),
    "long zero points": (PER_CHANNEL, CHANNELS[0], CHANNELS[1].astype(np.int64), 0, -5, 20),
    "one zero point outside": (PER_CHANNEL, CHANNELS[0], CHANNELS[1] * 20, 0, -5, 20),
    "no such dim": (PER_CHANNEL, *CHANNELS, 5, -5, 20),
    "a dim from behind": (PER_CHANNEL, *CHANNELS, -2, -5, 20),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused_with_pytorchs_classes(name: str) -> None:
    function, *arguments = BAD_CALLS[name]
    classes = []
    for m in (dj, torch):
        given = [
            m.from_numpy(np.array(a)) if isinstance(a, (np.ndarray, np.generic)) else a
            for a in arguments
        ]
        with pytest.raises(Exception) as caught:
            getattr(m, function)(m.zeros(2, 3), *given)
        classes.append(caught.type)
    assert issubclass(classes[0], classes[1])


def test_integers_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="int64"):
        dj.fake_quantize_per_tensor_affine(dj.arange(3), 0.1, 3, -5, 20)
