"""Collectives of the same tensors, called again and again, beside NumPy."""

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.core.process.process_groups import STATE
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

TURNS = 4


def known() -> int:
    """Calls that the default group makes again without looking at the tensors."""
    default: Any = STATE.default
    return len(default.repeats)


def reduced(dtype_name: str, op_name: str) -> list[Any]:
    """In-place sums of one tensor, set anew in each turn; how often it was written."""
    rank, op = dist.get_rank(), getattr(dist.ReduceOp, op_name)
    x = dj.zeros(5, dtype=getattr(dj, dtype_name))
    found, before = [], x._version
    for turn in range(TURNS):
        with dj.no_grad():
            x.copy_(dj.arange(5) % 2 + rank + turn)
        dist.all_reduce(x, op)
        found.append(x.double().tolist())
    return [found, x._version - before]


def scattered() -> list[Any]:
    rank, size = dist.get_rank(), dist.get_world_size()
    output, source = dj.zeros(3), dj.zeros(3 * size)
    found = []
    for turn in range(TURNS):
        source.copy_(dj.arange(3.0 * size) * (rank + 1) + turn)
        dist.reduce_scatter_tensor(output, source)
        found.append(output.tolist())
    return found


def with_other_memory() -> list[Any]:
    """The tensor is given other memory, in all ways, between calls."""
    x = dj.ones(4)
    found = []
    for change in (
        lambda: None,
        lambda: setattr(x, "data", dj.full((4,), 2.0)),
        lambda: x.set_(dj.full((4,), 3.0)),
        lambda: x.resize_(6).fill_(4.0),
        lambda: setattr(x, "data", dj.full((2, 4), 5.0).t()),
        lambda: x.resize_(3).fill_(6.0),
    ):
        change()
        dist.all_reduce(x)
        dist.all_reduce(x)
        found.append(x.tolist())
    return found


def with_new_tensors() -> list[Any]:
    """Tensors that go, whose places others take; nothing is kept of them."""
    before, found = known(), []
    for turn in range(20):
        x = dj.full((3,), float(turn))
        dist.all_reduce(x)
        found.append(x.tolist())
        del x
    return [found, known() - before]


def in_two_ways() -> list[float]:
    """One process calls with the same tensor, the other with new ones."""
    x, found = dj.zeros(2), []
    for turn in range(TURNS):
        x = x if dist.get_rank() == 0 else dj.zeros(2)
        x.fill_(turn + dist.get_rank())
        dist.all_reduce(x)
        found.append(x[0].item())
    return found


def with_other_operations() -> list[Any]:
    x, found = dj.zeros(2), []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG) * TURNS:
        x.fill_(1.0 + dist.get_rank())
        dist.all_reduce(x, op)
        found.append(x[0].item())
        work = dist.all_reduce(x, op, async_op=True)
        assert work is not None
        work.wait()
    group = dist.new_group([0, 1])
    for _ in range(TURNS):
        x.fill_(1.0)
        dist.all_reduce(x, group=group)
    found.append(x[0].item())
    return found


def refused() -> list[str]:
    """What is wrong is told in the second call as in the first."""
    x, texts = dj.zeros(2), []
    dist.all_reduce(x)
    for call in (
        lambda: dist.all_reduce(x, dist.ReduceOp.BAND),
        lambda: dist.all_reduce(x, "sum"),
        lambda: dist.all_reduce([x]),
        lambda: dist.reduce_scatter_tensor(x, x),
    ):
        for _ in range(2):
            try:
                call()
            except (TypeError, ValueError, RuntimeError) as error:
                texts.append(type(error).__name__)
    return texts


def compared() -> None:
    """Calls that differ are told where all are compared, though both were made before."""
    x, y = dj.zeros(2), dj.zeros(3)
    for _ in range(2):
        dist.all_reduce(x)
        dist.all_reduce(y)
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        dist.all_reduce(x if dist.get_rank() else y)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def after_a_failure() -> list[Any]:
    """A group that failed refuses what it made again before."""
    group: Any = dist.new_group([0, 1])
    x = dj.zeros(2)
    for _ in range(TURNS):
        dist.all_reduce(x, group=group)
    known_before = len(group.repeats)
    with patch("atexit.register"):  # the job shall go on
        group.fail(RuntimeError("out of step"))
    try:
        dist.all_reduce(x, group=group)
    except dist.DistBackendError as error:
        return [known_before, "out of step" in str(error)]
    return [known_before, "nothing"]


def test_repeated_collectives_are_what_new_ones_are() -> None:
    sums = [(d, "SUM") for d in ("float32", "float64", "int64", "bfloat16", "complex64", "bool")]
    calls = [partial(reduced, *case) for case in [*sums, ("float32", "MAX"), ("float64", "AVG")]]
    (*of_dtypes, of_parts, of_memory, new, two, others, wrong, failed, told) = on_ranks(
        [*calls, scattered, with_other_memory, with_new_tensors, in_two_ways,
         with_other_operations, refused, after_a_failure, compared], 2,
    )  # fmt: skip

    for (_, name), ranks in zip([*sums, ("", "MAX"), ("", "AVG")], of_dtypes, strict=True):
        is_bool = ranks is of_dtypes[5]
        for found, written in ranks:
            assert 2 * TURNS == written
            for turn, values in enumerate(found):
                parts = np.arange(5) % 2 + turn + np.arange(2)[:, None]
                joined = {"SUM": parts.sum(0), "MAX": parts.max(0), "AVG": parts.mean(0)}[name]
                assert (parts.any(0) if is_bool else joined).tolist() == values
    for rank, found in enumerate(of_parts):
        whole = [np.arange(6.0) * 3 + 2 * turn for turn in range(TURNS)]
        assert [part[3 * rank :][:3].tolist() for part in whole] == found
    shapes = [(4,), (4,), (4,), (6,), (4, 2), (3,)]
    expected = [np.full(shape, 4.0 * (n + 1)).tolist() for n, shape in enumerate(shapes)]
    assert [expected] * 2 == of_memory
    assert [[[[2.0 * turn] * 3 for turn in range(20)], 0]] * 2 == new
    assert [[2.0 * turn + 1 for turn in range(TURNS)]] * 2 == two
    assert [[3.0, 2.0, 1.5] * TURNS + [2.0]] * 2 == others
    errors = ["DTypeError"] * 2 + ["ArgumentError"] * 4 + ["ShapeError"] * 2
    assert [errors] * 2 == wrong
    assert [[1, True]] * 2 == failed
    assert all(isinstance(text, Raised) and "do not call the same" in text.text for text in told)
