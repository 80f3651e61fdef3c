"""Results that are views: what is computed, and what is taken after the launch."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.outputs import split_views


def built(function):
    builder = Builder("g")
    x = builder.placeholder("x", TensorType((4, 6), dtypes.float32))
    return split_views(builder.finish(function(x)))


@pytest.mark.parametrize(
    "reshaped", [lambda y: y.reshape(-1), lambda y: y.reshape(3, 8).reshape(24)]
)
def test_a_computed_value_in_another_shape_is_computed_as_that(reshaped):
    assert built(lambda x: [reshaped(x + 1)]).is_trivial


@pytest.mark.parametrize(
    "outputs",
    [
        lambda x: [(x + 1).permute(1, 0)],
        lambda x: [x.reshape(-1)],
        lambda x: (lambda y: [y, y.reshape(-1)])(x + 1),
        lambda x: (lambda y: [y.reshape(-1), y.reshape(2, 12)])(x + 1),
    ],
)
def test_what_shares_memory_or_has_other_strides_is_taken_afterwards(outputs):
    assert not built(outputs).is_trivial


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x],
        lambda x: [x, x + 1],
        lambda x: (lambda y: [y, x, y, x * 3])(x + 1),
        lambda x: (lambda y: [x, y.reshape(-1), 7, y])(x + 1),
        lambda x: (lambda y: [y[1:], x, x.permute(1, 0), y])(x + 1),
        lambda x: [3, 4.5],
    ],
)
def test_outputs_are_taken_all_at_once_as_one_by_one(function):
    """From results and inputs, which may be any sequences."""
    split = built(function)
    inputs = (dj.ones(4, 6),)
    results = [dj.full((4, 6), float(number)) for number in range(len(split.graph.outputs))]

    taken = split.taker()(results, inputs)

    assert isinstance(taken, tuple)
    assert len(taken) == len(split.recipes)
    for output, recipe in zip(taken, split.recipes, strict=True):
        expected = recipe.take(results, inputs)
        if recipe.views:
            assert output.shape == expected.shape
            assert output.stride() == expected.stride()
            assert output._storage is expected._storage
        else:
            assert output is expected


def test_two_shapes_of_one_result_share_memory():
    def both(x):
        y = x * 2
        return y.reshape(-1), y.reshape(2, 12)

    flat, wide = dj.compile(both)(dj.tensor(np.ones((4, 6), np.float32)))
    flat[0] = 7.0

    assert wide[0, 0].item() == 7.0


def test_a_reshaped_result_has_the_gradient_of_its_root():
    x = dj.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), requires_grad=True)

    y = dj.compile(lambda x: x.exp().reshape(-1))(x)
    (y * y).sum().backward()

    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-5)
