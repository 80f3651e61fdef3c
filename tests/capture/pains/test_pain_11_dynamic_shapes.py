"""Pain 11: a compile for every batch size; specialisations without a line."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn


def test_thirty_batch_sizes_need_two_compiles(compile_count: Any) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    compiled = dj.compile(model, fullgraph=True)
    for batch in range(2, 32):
        x = dj.randn(batch, 6)
        np.testing.assert_allclose(
            model(x).detach().numpy(), compiled(x).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    assert compile_count() <= 2


def test_training_on_thirty_batch_sizes_needs_two_compiles(compile_count: Any) -> None:
    layer = nn.Linear(5, 4)

    def loss_of(x: Any) -> Any:
        return (layer(x).tanh() ** 2).mean()

    compiled = dj.compile(loss_of, fullgraph=True)
    for batch in range(2, 32):
        x = dj.randn(batch, 5)
        gradients = []
        for run in (loss_of, compiled):
            layer.zero_grad()
            run(x).backward()
            gradients.append(layer.weight.grad.numpy().copy())
        np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-7)
    assert compile_count() <= 2


def test_a_specialised_size_names_its_line() -> None:
    def function(x: Any) -> Any:
        table = {4: 1.0, 6: 2.0}
        return x * table.get(x.shape[0], 3.0)  # the line

    compiled = dj.compile(function, fullgraph=True)
    for size in (4, 5, 6):
        compiled(dj.ones(size))
    text = str(compiled.report())
    assert f":{function.__code__.co_firstlineno + 2}" in text


def test_mark_dynamic_of_a_size_that_is_specialised_is_an_error_with_the_line() -> None:
    def function(x: Any) -> Any:
        return x * [0.0, 1.0, 2.0, 3.0][x.shape[0]]  # the line

    x = dj.ones(3)
    dj.mark_dynamic(x, 0)
    with pytest.raises(dj.errors.DynajitError, match=str(function.__code__.co_firstlineno + 1)):
        dj.compile(function, fullgraph=True)(x)
