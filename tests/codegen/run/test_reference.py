"""`verify=True` beside float64: the first row that is far from it, and none where none is."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import PrecisionWarning

VERIFY = {"verify": True}


def told(function: Callable[..., Any], *args: Any) -> list[str]:
    """What a verified call warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dj.compile(function, options=VERIFY)(*args)
    assert all(w.category is PrecisionWarning for w in caught)
    return [str(w.message) for w in caught]


def test_the_first_operation_that_loses_its_digits_is_named() -> None:
    """With the line, an element, and what float64 gives for it."""

    def f(x: Any) -> Any:
        y = x * 2
        z = (y + 1e8) - 1e8
        return (z * 3).sum()

    x = dj.tensor([0.25, 1.0])
    (text,) = told(f, x)

    assert "sub of" in text and "(float32) is the first value that diverges from float64" in text
    assert "z = (y + 1e8) - 1e8" in text
    assert "at [1] it is 0.0, float64 gives 2.0." in text


@pytest.mark.parametrize("dtype", [dj.float32, dj.float16, dj.bfloat16])
def test_an_overflow_is_named(dtype: Any) -> None:
    """Float64 has more range."""
    (text,) = told(lambda x: dj.log(dj.exp(x)), dj.full((3,), 200.0, dtype=dtype))

    assert "exp of" in text and "it is inf, float64 gives 7.2" in text


def test_casts_are_followed() -> None:
    """A value that is rounded to 16 bits on its way is not what float64 computes with."""
    (text,) = told(lambda x: (x.to(dj.float16) - 1.0).to(dj.float32) * 2, dj.full((4,), 1.0003))

    assert "(float16)" in text and "at [0] it is 0.0" in text


def test_what_keeps_its_digits_is_not_told_of() -> None:
    """Stable formulas, infinities of the program's own, integers, composites, random numbers."""
    layer = dj.nn.Sequential(dj.nn.Linear(6, 8), dj.nn.LayerNorm(8), dj.nn.GELU())
    x = dj.randn(5, 6)
    mask = dj.tensor([True, False, True, False, False])

    def masked(x: Any) -> Any:
        return x.masked_fill(mask[:, None], -float("inf")).log_softmax(0).argmax(0)

    for function in (
        lambda x: layer(x).sum(),
        lambda x: dj.expm1(x * 1e-6),
        masked,
        lambda x: (x + dj.rand(5, 6)).var(1),
        lambda x: dj.nn.functional.scaled_dot_product_attention(x, x, x),
        lambda x: (x.double() + 1e16) - 1e16,
    ):
        assert [] == told(function, x)


def test_backward_is_followed_as_well() -> None:
    """Its rows have lines, too."""
    x = dj.full((3,), 60.0, requires_grad=True)

    def f(x: Any) -> Any:
        return (dj.exp(x) * dj.exp(x)).sum()

    with pytest.warns(PrecisionWarning, match="float64 gives"):
        dj.compile(f, options=VERIFY)(x).backward()


def test_it_is_told_once_per_program() -> None:
    """Later calls compute as often, and say nothing new."""
    compiled = dj.compile(lambda x: (x + 1e8) - 1e8, options=VERIFY)
    with pytest.warns(PrecisionWarning):
        compiled(dj.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [0.0] * 3 == compiled(dj.ones(3)).tolist()


def test_symbolic_sizes_and_views_are_followed() -> None:
    """By the numbers of the call."""
    compiled = dj.compile(
        lambda x: x.reshape(-1, 2).mean(0, keepdim=True).expand(3, 2) + x.shape[0],
        dynamic=True,
        options=VERIFY,
    )
    for size in (4, 6):
        assert (3, 2) == compiled(dj.randn(size)).shape
