"""Operands of products that are views of stored values."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize(
    "reader",
    [
        dj.nn.Conv2d(8, 8, 3, 2, 1),
        dj.nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        dj.nn.AvgPool2d(2),
    ],
    ids=str,
)
def test_operands_are_read_below_a_view_that_is_stored_for_another_reader(reader: Any) -> None:
    """Rows become an image, which a layer reads in its own order, and rows again for a product."""
    norm, linear = dj.nn.LayerNorm(8), dj.nn.Linear(8, 4)

    def branches(x: Any) -> Any:
        rows = norm(x * 2)
        image = rows.reshape(2, 8, 8, 8).permute(0, 3, 1, 2).contiguous()
        return linear(image.flatten(2).transpose(1, 2)), reader(image)

    values = np.random.default_rng(0).standard_normal((2, 64, 8)).astype(np.float32)
    results = []
    for function in (branches, dj.compile(branches, fullgraph=True)):
        x = dj.tensor(values, requires_grad=True)
        first, second = function(x)
        ((first * first).sum() + (second * second).sum()).backward()
        results.append([first.detach().numpy(), second.detach().numpy(), x.grad.numpy()])

    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
