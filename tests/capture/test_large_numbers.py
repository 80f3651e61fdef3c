"""Python numbers that reach a launch: as tensors, and beyond what generated code computes with."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.entry import cache

BEYOND = (2**63, -(2**63) - 1, 2**70, 2**400)


def end_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives: class and text of its error, or the result."""
    try:
        return function(*arguments).tolist()
    except Exception as error:
        return type(error), str(error)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, n: x + n,
    "product of integers": lambda x, n: x.long() * n,
    "square": lambda x, n: x * (n * n),
    "full": lambda x, n: dj.full((2,), n),
    "tensor": lambda x, n: x + dj.tensor(n),
    "tensor of several": lambda x, n: x + dj.tensor([n, 2]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_beyond_int64_are_as_in_plain_python(name: str) -> None:
    """They wrapped around in silence."""
    function = FUNCTIONS[name]
    compiled = dj.compile(function)
    x = dj.tensor([1.0, 2.0])
    for number in (3, 5, *BEYOND, 7, 2**62, 2**40):
        assert end_of(function, x, number) == end_of(compiled, x, number), number


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**63, 2**64 - 1, -1])
def test_seeds_of_all_64_bits_draw_the_same_numbers_compiled(seed: int) -> None:
    """They are integers without a sign."""

    def draw(x: Any) -> Any:
        return x + dj.rand(5)

    compiled, x = dj.compile(draw, fullgraph=True), dj.zeros(5)
    dj.manual_seed(seed)
    expected = [draw(x), draw(x)]
    dj.manual_seed(seed)
    for wanted in expected:
        assert dj.equal(wanted, compiled(x))


TENSORS: dict[str, Callable[..., Any]] = {
    "a number": lambda x, n: x * dj.tensor(n),
    "a list": lambda x, n: x * dj.tensor([n, n + n]),
    "nested": lambda x, n: x * dj.tensor([[n, 1.5], (2.5, n)]),
    "of a dtype": lambda x, n: x * dj.tensor(n, dtype=dj.float64),
    "as_tensor": lambda x, n: x * dj.as_tensor([n]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_a_number_that_differs_in_every_call_is_compiled_once(name: str) -> None:
    """The number is an argument of the graph."""
    function = TENSORS[name]
    compiled = dj.compile(function, fullgraph=True)
    x = dj.tensor([1.0, -2.0])
    for number in range(40):
        expected = function(x, number * 0.5)
        found = compiled(x, number * 0.5)
        assert dj.equal(expected, found) and expected.dtype is found.dtype
    assert 1 == cache.cache_of(compiled).compile_count


def test_a_tensor_of_a_size_that_varies_is_compiled_twice() -> None:
    """For one size, and for all."""

    def scaled(x: Any) -> Any:
        return x / dj.tensor(x.shape[0])

    compiled = dj.compile(scaled, fullgraph=True)
    for size in range(2, 30):
        x = dj.ones(size, 2)
        assert dj.equal(scaled(x), compiled(x))
    assert 2 == cache.cache_of(compiled).compile_count


def test_a_tensor_of_another_dtype_relies_on_the_number() -> None:
    """Of a size that varies, too."""
    compiled = dj.compile(lambda x: dj.tensor(x.shape[0], dtype=dj.uint8) + x, fullgraph=True)
    for size in (2, 3, 4, 5):
        x = dj.ones(size, dtype=dj.uint8)
        assert [size + 1] * size == compiled(x).tolist()
