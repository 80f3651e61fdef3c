"""What tests ask of loops in graphs."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import dynajit as dj

_LOOP = re.compile(r"rows\['loop(_\d+)?'\]")


def loops_of(function: Callable[..., Any], *args: Any) -> int:
    """How many loops the graphs of one call have, those in bodies of others included."""
    found = dj.explain(function)(*args)
    return sum(len(_LOOP.findall(str(graph))) for graph in found.graphs)


def assert_same(expected: Any, found: Any) -> None:
    """Results are equal, of the same classes, dtypes and strides; the same ones are one object, and
    the same ones share memory."""
    assert _seen(expected) == _seen(found)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(_array(b), _array(a), rtol=2e-5, atol=1e-6)


def _array(result: Any) -> np.ndarray:
    return np.asarray(result.detach() if isinstance(result, dj.Tensor) else result)


def _seen(results: Any) -> Any:
    arrays = [*map(_array, results)]
    one = [[a is b for a in results] for b in results]
    shared = [[np.shares_memory(a, b) for a in arrays] for b in arrays]
    return [*map(type, results)], [(a.dtype, a.strides) for a in arrays], one, shared
