"""Inputs that are written to, in whose arrays other values may live: they are read before."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

pytestmark = pytest.mark.one_python

SIDE = 80  # a value of 25 KB: smaller ones have arrays of their own

Made = Callable[[Any, Any], Any]

MADE: dict[str, Made] = {
    "product": lambda a, b: a @ b,
    "batched product": lambda a, b: (a[None] @ b[None])[0],
    "softmax": lambda a, b: dj.softmax(a * b, -1),
    "running sum": lambda a, b: dj.cumsum(a, 0) * b,
    "sums of rows": lambda a, b: (a @ b) - a.sum(1, keepdim=True),
    "scattered rows": lambda a, b: dj.zeros_like(a).index_add(0, dj.arange(SIDE).flip(0), b),
    "sorted": lambda a, b: a.sort(-1)[0] + b,
    "convolution": lambda a, b: dj.nn.functional.conv2d(a[None, None], b[None, None, :3, :3],
                                                        padding=1)[0, 0],
    "solved": lambda a, b: dj.linalg.solve(a + 40 * dj.eye(SIDE), b),
}  # fmt: skip


def add(d: Any, value: Any) -> None:
    d += value


def scale_and_add(d: Any, value: Any) -> None:
    d.mul_(1.2).add_(value)


def put_sum(d: Any, value: Any) -> None:
    d.copy_(value * 1.5 + d * 1.2)


def put_alone(d: Any, value: Any) -> None:
    d.copy_(value * 2)


def put_turned(d: Any, value: Any) -> None:
    d[:] = value + d.T


def put_half(d: Any, value: Any) -> None:
    d[SIDE // 2 :] += value[: SIDE // 2]


WAYS = (add, scale_and_add, put_sum, put_alone, put_turned, put_half)


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", MADE)
def test_what_an_input_held_is_read_before_another_value_lives_there(
    made: str, way: Callable[[Any, Any], None], dtype: Any
) -> None:
    """Of values that a kernel, a library call or a native row makes, and three calls."""
    dj.manual_seed(0)
    a, b, given = (dj.rand(SIDE, SIDE, dtype=dtype) for _ in range(3))

    def change(d: Any) -> None:
        way(d, MADE[made](a, b))

    compiled = dj.compile(change, fullgraph=True)
    eagerly, by_graph = given.clone(), given.clone()
    for _ in range(3):
        compiled(by_graph)
        change(eagerly)
        dj.testing.assert_close(by_graph, eagerly, rtol=1e-4, atol=1e-4)
