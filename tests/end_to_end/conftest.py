"""What every end-to-end test uses: no eager fallback hides a defect; eager against compiled."""

import gc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import dynajit as dj


@pytest.fixture(autouse=True)
def strict(strict_programs: None) -> None:
    """Every test here runs strictly: see `strict_programs`."""


@pytest.fixture
def no_gc() -> Iterator[None]:
    """Only reference counts free objects."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """("value", result) or ("error", class, text)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "value", function(*args, **kwargs)
    except Exception as error:
        return "error", type(error), str(error)


def assert_same(expected: Any, actual: Any, exact: bool = True) -> None:
    """Equal in class, structure and contents; tensors also in dtype, shape and requires_grad."""
    assert type(expected) is type(actual), (expected, actual)
    if isinstance(expected, dj.Tensor):
        assert expected.dtype is actual.dtype
        assert tuple(expected.shape) == tuple(actual.shape)
        assert expected.requires_grad == actual.requires_grad
        compare = np.testing.assert_array_equal if exact else _close
        compare(actual.detach().numpy(), expected.detach().numpy())
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual), (expected, actual)
        for left, right in zip(expected, actual, strict=True):
            assert_same(left, right, exact)
    elif isinstance(expected, dict):
        assert list(expected) == list(actual)
        for key in expected:
            assert_same(expected[key], actual[key], exact)
    elif isinstance(expected, BaseException):
        for name in ("args", "__cause__", "__context__", "__dict__"):
            assert_same(getattr(expected, name), getattr(actual, name), exact)
        assert (expected.__traceback__ is None) == (actual.__traceback__ is None)
    elif _has_plain_state(expected):
        assert_same(vars(expected), vars(actual), exact)
    elif expected != expected:
        assert actual != actual
    else:
        assert expected == actual


def _has_plain_state(value: Any) -> bool:
    """True for instances that are what their attributes are."""
    if not hasattr(value, "__dict__") or isinstance(value, (type, FunctionType)):
        return False
    return type(value).__eq__ is object.__eq__ or is_dataclass(value)


def _close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def same() -> Callable[..., None]:
    """`same(expected, actual, exact=True)`."""
    return assert_same


@pytest.fixture
def outcome_of() -> Callable[..., tuple[Any, ...]]:
    """`outcome_of(function, *args)`."""
    return outcome
