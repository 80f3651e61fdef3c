"""The default dtype is float32, and nothing else is accepted silently."""

from typing import Any

import pytest

import dynajit as dj


def test_the_default_dtype_is_float32() -> None:
    """As that of new tensors."""
    dj.set_default_dtype(dj.float32)

    assert dj.get_default_dtype() is dj.float32 is dj.zeros(1).dtype


@pytest.mark.parametrize(
    ("dtype", "error", "message"),
    [
        (dj.float64, NotImplementedError, "new tensors are float32"),
        (dj.int64, TypeError, "only floating-point types"),
        ("float32", TypeError, "only floating-point types"),
    ],
)
def test_other_defaults_are_refused(dtype: Any, error: type[Exception], message: str) -> None:
    """By name."""
    with pytest.raises(error, match=message):
        dj.set_default_dtype(dtype)
    assert dj.get_default_dtype() is dj.float32
