"""Norms of gradients and their clipping agree with PyTorch."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def with_gradients(library: Any) -> list[Any]:
    rng, made = np.random.default_rng(3), []
    for columns in (1, 2, 3):
        parameter = library.ones(2, columns, dtype=library.float64, requires_grad=True)
        parameter.grad = library.tensor(rng.standard_normal((2, columns)))
        made.append(parameter)
    made.append(library.ones(2, requires_grad=True))  # without a gradient
    return made


def arrays(parameters: list[Any]) -> list[np.ndarray]:
    return [each.grad.numpy() for each in parameters if each.grad is not None]


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, math.inf, "inf", -math.inf])
def test_norms_and_clipped_gradients(order: Any) -> None:
    found = []
    for library in (torch, dj):
        utils, clipped, scaled = library.nn.utils, *(with_gradients(library) for _ in range(2))
        norms = [utils.clip_grad_norm_(clipped, 1.0, norm_type=order)]
        norms.append(utils.get_total_norm([each.grad for each in clipped if each.grad is not None]))
        utils.clip_grads_with_norm_(scaled, 0.3, library.tensor(2.0))
        found.append([*(each.numpy() for each in norms), *arrays(clipped), *arrays(scaled)])
    for actual, expected in zip(found[1], found[0], strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_norms_of_nothing_and_of_what_is_not_finite() -> None:
    for library in (torch, dj):
        assert library.nn.utils.get_total_norm([]).item() == 0.0
        with pytest.raises(RuntimeError, match="non-finite"):
            library.nn.utils.get_total_norm(library.tensor(math.nan), error_if_nonfinite=True)
