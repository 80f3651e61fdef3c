"""Library functions of sizes that vary from call to call: what they decide by a size is guarded.

Every case is compiled once as a whole and called with operands of several sizes, among them some
that coincide with each other and with sizes that mean something to the function.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    """A float64 tensor of this shape."""
    return dj.tensor(RANDOM.standard_normal(shape))


def attention_weights(width: int) -> tuple[Any, ...]:
    """The parameters of multi-head attention."""
    return normal(3 * width, width), normal(3 * width), normal(width, width), normal(width)


def attend(x: Any, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any) -> Any:
    """Self-attention with two heads; the width is that of x."""
    return F.multi_head_attention_forward(
        x, x, x, x.shape[-1], 2, in_weight, in_bias, None, None, False, 0.0, out_weight, out_bias
    )


def unpooled(x: Any) -> Any:
    """Pooled, and put back."""
    values, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(values, places, 2)


Case = tuple[Callable[..., Any], list[tuple[Any, ...]]]

CASES: dict[str, Case] = {
    "cross": (
        lambda x, y: dj.cross(x, y),
        [(normal(n, 3), normal(n, 3)) for n in (5, 4, 3, 7)],
    ),
    "linalg.cross": (
        lambda x, y: dj.linalg.cross(x, y, dim=0),
        [(normal(3, n), normal(3, n)) for n in (5, 4, 3, 7)],
    ),
    "is_same_size": (
        lambda x, y: (x.is_same_size(y), x + 1),
        [(normal(n), normal(m)) for n, m in ((5, 6), (4, 7), (3, 3), (7, 9), (8, 8))],
    ),
    "multi_head_attention": (
        attend,
        [(normal(n, 3, w), *attention_weights(w)) for n, w in ((5, 8), (4, 12), (12, 16), (3, 4))],
    ),
    "cdist": (dj.cdist, [(normal(n, w), normal(4, w)) for n, w in ((5, 8), (4, 3), (7, 7))]),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        [(normal(n, 2, 4, 5), normal(n, 3, 3, 2)) for n in (5, 2, 3)],
    ),
    "affine_grid": (
        lambda theta: F.affine_grid(theta, [theta.shape[0], 1, 3, 4], align_corners=False),
        [(normal(n, 2, 3),) for n in (5, 2, 3)],
    ),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [(normal(2, c, 3, 3),) for c in (4, 8, 12)]),
    "pixel_unshuffle": (
        lambda x: F.pixel_unshuffle(x, 2),
        [(normal(2, 3, n, n + 2),) for n in (4, 8, 12)],
    ),
    "channel_shuffle": (
        lambda x: F.channel_shuffle(x, 2),
        [(normal(2, c, 3, 3),) for c in (4, 8, 12)],
    ),
    "gaussian_nll_loss": (
        lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp()),
        [(normal(n, w), normal(n, w), normal(n, w)) for n, w in ((5, 8), (4, 3), (7, 7))],
    ),
    "gaussian_nll_loss of rows": (
        lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp()),
        [(normal(n, w), normal(n, w), normal(n)) for n, w in ((5, 8), (4, 3), (7, 7))],
    ),
    "embedding_bag": (
        lambda i, w, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"),
        [
            (dj.arange(n * m).reshape(n, m) % 9, normal(9, 4), normal(n, m))
            for n, m in ((5, 8), (4, 3), (7, 7))
        ],
    ),
    "trapezoid": (dj.trapezoid, [(normal(3, n), normal(n)) for n in (5, 3, 7)]),
    "cov": (
        lambda x, w: dj.cov(x, aweights=w.abs()),
        [(normal(3, n), normal(n)) for n in (5, 3, 7)],
    ),
    "scatter": (
        lambda x, i, y: x.scatter(1, i, y),
        [(normal(n, 9), dj.arange(n * 4).reshape(n, 4) % 9, normal(n, 4)) for n in (5, 4, 7)],
    ),
    "conv_transpose": (
        F.conv_transpose1d,
        [(normal(2, 3, n), normal(3, c, 3), normal(c)) for n, c in ((5, 4), (4, 7), (9, 9))],
    ),
    "fold": (
        lambda x: F.fold(x, (4, 5), (2, 2)),
        [(normal(2, c * 4, 12),) for c in (3, 5, 6)],
    ),
    "max_unpool": (unpooled, [(normal(n, 2, 6, 6),) for n in (5, 2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_size_gives_what_eager_execution_gives(name: str) -> None:
    """In one graph, in few versions."""
    function, calls = CASES[name]
    compiled = dj.compile(function, fullgraph=True)
    for operands in (*calls, *calls):
        dj.testing.assert_close(compiled(*operands), function(*operands))
