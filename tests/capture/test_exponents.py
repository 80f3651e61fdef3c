"""A power whose exponent is a number of the program is the product or root of eager code."""

import numpy as np
import pytest

import dynajit as dj


class Power(dj.nn.Module):
    """x to a power that the module holds."""

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self.exponent = exponent

    def forward(self, x):
        return x**self.exponent


def values() -> dj.Tensor:
    """Positive floats."""
    draw = np.random.default_rng(3)
    return dj.from_numpy(draw.uniform(0.5, 3, 5000).astype(np.float32))


@pytest.mark.parametrize("exponent", [2, 2.0, 3, -1, 0.5, -0.5, 1, 4, 4.0, -7, 11.0], ids=str)
def test_bits_are_those_of_eager_code(exponent):
    model, x = Power(exponent), values()
    np.testing.assert_array_equal(dj.compile(model)(x).numpy(), model(x).numpy())


def test_an_exponent_may_change():
    """From a product to a power, and back."""
    model, x = Power(2), values()
    compiled = dj.compile(model, fullgraph=True)
    for exponent in (2, 3, 4, 5, 2.5, 7.5, 2, 0.5, -3):
        model.exponent = exponent
        np.testing.assert_allclose(compiled(x).numpy(), model(x).numpy(), rtol=1e-6)


def test_other_exponents_stay_numbers_of_the_call():
    model, x = Power(4.5), values()
    compiled = dj.compile(model)
    compiled(x)
    before = dj.compile_stats()["graphs"]
    for exponent in (5.5, 6.25, 7.75):
        model.exponent = exponent
        compiled(x)
    assert dj.compile_stats()["graphs"] == before


def test_whole_numbers_of_the_program_may_change_without_another_graph():
    model, x = Power(4), values()
    compiled = dj.compile(model)
    compiled(x)
    before = dj.compile_stats()["graphs"]
    for exponent in (5, 6, -4):
        model.exponent = exponent
        np.testing.assert_array_equal(compiled(x).numpy(), model(x).numpy())
    assert dj.compile_stats()["graphs"] == before
