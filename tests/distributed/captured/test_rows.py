"""Rows of all processes in graphs: gradients pass, and gradients of gradients."""

import functools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

nn = dj.nn


def model_of(layer: Any) -> Any:
    dj.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), layer, nn.Tanh(), nn.Linear(4, 1)).double()


def inputs() -> Any:
    return dj.linspace(-1, 2, 30, dtype=dj.float64).reshape(10, 3).sin()


def twice(model: Any, x: Any) -> Any:
    """Gradients of a sum of gradients."""
    parameters = list(model.parameters())
    first = dj.autograd.grad((model(x) ** 2).sum(), parameters, create_graph=True)
    total = sum((g * (place + 1)).sum() for place, g in enumerate(first))
    second = dj.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return [*first, *second]


def on_a_part(way: str) -> Any:
    """What both processes have together, each with its part of a batch."""
    model = model_of(nn.SyncBatchNorm(4))
    x = inputs()[:6] if dist.get_rank() == 0 else inputs()[6:]
    if way == "function":
        found = dj.compile(twice)(model, x)
    else:
        found = twice(dj.compile(model) if way == "module" else model, x)
    found = [gradient.detach().clone() for gradient in found]
    for gradient in found:
        dist.all_reduce(gradient)
    return [gradient.numpy() for gradient in found]


def test_second_derivatives_are_those_of_the_joined_batch() -> None:
    ways = ["plain", "function", "module"]
    expected = [g.detach().numpy() for g in twice(model_of(nn.BatchNorm1d(4)), inputs())]
    for by_rank in on_ranks([functools.partial(on_a_part, way) for way in ways], 2):
        for found in by_rank:
            assert not isinstance(found, Raised), found
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-10)
