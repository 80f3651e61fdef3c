"""Numbers of a plan: what C computes from the symbols is what the expressions mean."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynajit.codegen import _device
from dynajit.codegen.compilers import nvrtc
from dynajit.codegen.device import driver as device_driver
from dynajit.codegen.device.words import Words
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import CodegenError
from dynajit.core.types import symint
from dynajit.core.types.symint import Number
from tests.support.gpu.driver_stand_in import Driver, image

pytestmark = pytest.mark.one_python

TELLS = """
typedef long long number;
extern "C" __global__ void tell(number value, number *to) { *to = value; }
"""
A, B = symint.symbol("s0", 2), symint.symbol("s1", 2)


@st.composite
def numbers(draw: Any, depth: int = 3) -> Number:
    """Expressions over two symbols."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([A, B, *range(-3, 12)]))  # type: ignore[no-any-return]
    left, right = draw(numbers(depth - 1)), draw(numbers(depth - 1))  # type: ignore[call-arg]
    divisor = draw(st.integers(1, 9))
    operations = (
        lambda: left + right, lambda: left - right, lambda: left * right,
        lambda: symint.floordiv(left, divisor), lambda: symint.mod(left, divisor),
        lambda: symint.minimum(left, right), lambda: symint.maximum(left, right),
    )  # fmt: skip
    return draw(st.sampled_from(operations))()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def module(driver: Driver | None, driver_folder: Path) -> _device.Module:
    """A kernel that tells its argument."""
    if driver is None:
        major, minor = device_driver.capability(0)
        made = nvrtc.compile_source(TELLS, f"sm_{major}{minor}")
    else:
        made = image(TELLS, driver_folder)
    return _device.Module(device_driver.driver(), made, 0)


def told(module: _device.Module, number: Number, values: tuple[int, int]) -> int:
    """What a plan gives its kernel for a number."""
    words = Words(3, {"s0": 1, "s1": 2})
    one, zero, place = words.of(1), words.of(0), words.of(number)
    kernel = (_device.STEP_KERNEL, "tell", (one, one, one), (1, 1, 1), zero, 0,
              (((place, -1),), ((0, -1),)), 0)  # fmt: skip
    constants, arithmetic = tuple(words.constants), tuple(words.arithmetic)
    plan = _device.Plan(module, words.count, constants, arithmetic, (kernel,), ())
    result = gpu.module().empty(1, np.int64)
    plan.run(0, (result.data.ptr, *values), 0)
    return int(gpu.to_host(result)[0])


@given(number=numbers(), first=st.integers(2, 50), second=st.integers(2, 50))
def test_computed_words_are_what_expressions_mean(
    module: _device.Module, number: Number, first: int, second: int
) -> None:
    expected = symint.substitute(number, {"s0": first, "s1": second})

    assert expected == told(module, number, (first, second))


def test_equal_numbers_share_a_word() -> None:
    words = Words(2, {"s0": 0, "s1": 1})

    assert words.of(A * B + 3) == words.of(3 + B * A)
    assert words.of(7) == words.of(7)
    assert words.of(A) == 0


def test_a_symbol_that_no_argument_shows_is_refused() -> None:
    with pytest.raises(
        CodegenError, match=r"needs the size s1, which no argument shows \(known: s0"
    ):
        Words(1, {"s0": 0}).of(B + 1)


def test_plans_refuse_words_that_do_not_exist(module: _device.Module) -> None:
    with pytest.raises(ValueError, match="has no word 9"):
        _device.Plan(module, 3, ((9, 1),), (), (), ())
    with pytest.raises(ValueError, match="this is no step"):
        _device.Plan(module, 3, (), (), ((17,),), ())


def test_sizes_are_sixty_four_bits(module: _device.Module) -> None:
    assert ctypes.c_int64(1 << 40).value == told(module, A * (1 << 38), (4, 2))
