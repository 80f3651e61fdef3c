"""PyTorch programs that call NumPy inside are one graph: the lines that code bases have.

Diffusion schedules, position embeddings, masks, normalisation by arrays of a module.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError


class Schedule(dj.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.betas = np.linspace(1e-4, 0.02, 10)
        self.alphas_bar = np.cumprod(1 - self.betas, axis=0)
        self.mean = np.array([0.5, 0.4])
        self.steps = np.arange(10)[::-1].copy()
        self.scale, self.stride = np.float32(1.5), np.int64(2)


SCHEDULE = Schedule()


def extract(x: Any, t: Any) -> Any:
    found = dj.from_numpy(SCHEDULE.alphas_bar).to(device=t.device)[t].float()
    while len(found.shape) < len(x.shape):
        found = found[..., None]
    return found.expand(x.shape) * x


def timestep_embedding(x: Any, t: Any) -> Any:
    frequencies = dj.exp(-np.log(10000) * dj.arange(0, 4, dtype=dj.float32) / 4)
    angles = t[:, None].float() * frequencies[None]
    return dj.cat([dj.cos(angles), dj.sin(angles)], dim=-1)


def steps(x: Any, t: Any) -> Any:
    for step in SCHEDULE.steps[:3]:
        x = x + dj.tensor(step).float() * 0.1
    return x


def grid(x: Any, t: Any) -> Any:
    a, b = np.meshgrid(np.arange(2, dtype=np.float32), np.arange(2, dtype=np.float32))
    return x[:2] + dj.from_numpy(np.stack([a, b], axis=-1).reshape(-1, 2)[:2])


def positions(x: Any, t: Any) -> Any:
    omega = np.arange(2, dtype=np.float64)
    omega /= 2.0
    omega = 1.0 / 10000**omega
    angles = np.einsum("m,d->md", np.arange(3.0).reshape(-1), omega)
    found = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return dj.from_numpy(found).float().sum() * x


def mask(x: Any, t: Any) -> Any:
    later = np.triu(np.ones((1, 3, 3)), k=1).astype("uint8")
    return (dj.from_numpy(later) == 0).float() + x[0, 0]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "betas": lambda x, t: dj.from_numpy(SCHEDULE.betas)[t].float()[:, None] * x,
    "extract": extract,
    "timestep embedding": timestep_embedding,
    "steps": steps,
    "grid": grid,
    "positions": positions,
    "mask": mask,
    "eye": lambda x, t: x[:, :1] + dj.from_numpy(np.eye(6).flatten().astype(np.float32)),
    "tensor of eye": lambda x, t: dj.tensor(np.eye(2).flatten().astype(np.float32)) + x[0].sum(),
    "arange": lambda x, t: x * dj.tensor(np.arange(x.shape[1])),
    "arange of floats": lambda x, t: x + dj.from_numpy(np.arange(0, x.shape[1], dtype=np.float32)),
    "logarithm": lambda x, t: x * np.log(10000.0) + x / np.sqrt(x.shape[-1]),
    "logarithm of a logarithm": lambda x, t: x * (-math.log(1e4) / 2) + np.exp(-np.log(3.0)),
    "numbers of a module": lambda x, t: x * SCHEDULE.scale + SCHEDULE.stride,
    "an element": lambda x, t: 1.0 - SCHEDULE.betas[3] * x,
    "mean": lambda x, t: (x - dj.as_tensor(SCHEDULE.mean, dtype=x.dtype)) / 0.5,
    "mean as tensor": lambda x, t: x - dj.tensor(SCHEDULE.mean).float(),
    "tensor and array": lambda x, t: x.double() + SCHEDULE.mean,
    "array and tensor": lambda x, t: SCHEDULE.mean * x,
    "tensor by an array without dims": lambda x, t: x / np.array(2.0),
    "constants": lambda x, t: x * np.pi + np.float32(2),
    "product of a shape": lambda x, t: x.reshape(int(np.prod(x.shape))),
    "half of a size": lambda x, t: x[: int(np.ceil(x.shape[0] / 2))],
    "linspace": lambda x, t: x + dj.tensor(np.linspace(0, 1, 2), dtype=dj.float32),
    "zeros": lambda x, t: x + dj.from_numpy(np.zeros((1, 2), dtype=np.float32)),
    "stack": lambda x, t: x @ dj.from_numpy(np.stack([np.ones(2), np.zeros(2)])).float(),
    "there and back": lambda x, t: dj.tensor(x.detach().cpu().numpy() * 2),
    "clip": lambda x, t: dj.from_numpy(np.clip(x.numpy(), 0, 1)),
    "list of numbers": lambda x, t: x + dj.tensor([np.float32(1), np.log(2.0)]),
    "tensors of numbers": lambda x, t: x * dj.tensor(np.float32(3)) + dj.tensor(np.log(2)),
    "relative positions": lambda x, t: dj.tensor(np.arange(3)[:, None] - np.arange(3)) + x[0, 0],
    "an index": lambda x, t: x[np.array([0, 2])],
    "window": lambda x, t: x * dj.from_numpy(np.hanning(4)[1:3]).float(),
    "copied": lambda x, t: x + dj.from_numpy(np.array(SCHEDULE.betas[:2], dtype=np.float32)),
}


def _arguments() -> tuple[Any, Any]:
    return dj.arange(6.0).reshape(3, 2) / 6, dj.tensor([0, 3, 5])


def _assert_same(expected: Any, found: Any) -> None:
    assert expected.dtype is found.dtype and expected.shape == found.shape
    assert np.allclose(expected.numpy(), found.numpy(), equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_inside_is_part_of_the_graph(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dj.compile(program, fullgraph=True, backend="numpy")

    _assert_same(program(*_arguments()), compiled(*_arguments()))


ORDER = np.array([2, 0, 1])


class Permuted(dj.nn.Module):
    """Has arrays of its own: what flows do with the order of features."""

    def __init__(self) -> None:
        super().__init__()
        self.order, self.mean = ORDER.copy(), np.float32([1.0, 2.0, 3.0])

    def forward(self, x: Any) -> Any:
        y = x[:, self.order] - self.mean
        return y + dj.from_numpy(self.mean)


@pytest.mark.parametrize("model", [Permuted(), dj.nn.Sequential(Permuted(), dj.nn.Identity())])
def test_a_compiled_module_reads_the_arrays_of_modules(model: Any) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    found = dj.compile(model, fullgraph=True)(dj.from_numpy(x))

    assert x[:, ORDER].tolist() == found.tolist()


@pytest.mark.parametrize("children", [1, 2])
def test_what_goes_on_within_a_container_reads_the_arrays_of_modules(children: int) -> None:
    class Asking(dj.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x.sum().item()

    model = dj.nn.Sequential(Asking(), *[Permuted() for _ in range(children)])
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    expected = x * x.sum()
    for _ in range(children):
        expected = expected[:, ORDER]

    explained = dj.explain(model)(dj.from_numpy(x))
    assert expected.tolist() == dj.compile(model)(dj.from_numpy(x)).tolist()
    assert "ndarray" not in str(explained)


@pytest.mark.parametrize(
    "key",
    [ORDER, (slice(None), ORDER[:2]), np.array([True, False, True]), (ORDER, ORDER)],
    ids=["rows", "columns", "a mask", "pairs"],
)
@pytest.mark.parametrize("value", [0.0, 7])
def test_items_at_arrays_are_written_in_the_graph(key: Any, value: float) -> None:
    def write(x: Any) -> Any:
        y = x.clone()
        y[key] = value
        return y * 2

    x = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    expected = x.copy()
    expected[key] = value
    found = dj.compile(write, fullgraph=True)(dj.from_numpy(x))

    assert (expected * 2).tolist() == found.tolist()


def test_an_array_that_is_given_is_shared() -> None:
    def shared(array: Any) -> Any:
        return dj.from_numpy(array)

    given = np.arange(3.0)
    found = dj.compile(shared, fullgraph=True)(given)
    given[0] = 7

    assert [7.0, 1.0, 2.0] == found.tolist()


def test_random_numbers_break_and_are_drawn_in_order() -> None:
    def noisy(x: Any) -> Any:
        return x + dj.from_numpy(np.random.rand(2).astype(np.float32))

    compiled = dj.compile(noisy)
    for seed in range(2):
        np.random.seed(seed)
        expected = noisy(dj.ones(2))
        np.random.seed(seed)
        _assert_same(expected, compiled(dj.ones(2)))


NUMBERS = [np.float64(0.1), np.float32(0.1), np.int64(3), np.int8(2), np.bool_(True)]
ARRAYS = [np.array(0.1), np.array(2), np.array([0.1, 2]), np.ones(2, np.float32), np.arange(2)]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.eq,
             operator.pow, operator.floordiv, operator.iadd]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool", "float16"])
def test_operators_of_tensors_and_arrays_give_what_plain_python_gives(dtype: str) -> None:
    captured = 0
    for other in (*NUMBERS, *ARRAYS):
        for function in OPERATORS:
            for is_left in (False, True)[: 1 if function is operator.iadd else 2]:

                def program(a: Any, b: Any, function: Any = function, left: Any = is_left) -> Any:
                    return function(b, a) if left else function(a, b)

                def given(other: Any = other) -> Any:
                    return dj.tensor([1, 2]).to(getattr(dj, dtype)), other.copy()

                try:
                    expected = program(*given())
                except Exception as error:
                    expected = type(error)
                try:
                    found = dj.compile(program, fullgraph=True, backend="numpy")(*given())
                except GraphBreakError:
                    continue
                except Exception as error:
                    assert expected is type(error)
                    continue
                captured += 1
                assert isinstance(expected, dj.Tensor), (other, function, is_left, found)
                _assert_same(expected, found)
        dj.reset()
    assert captured > 40
