"""A launch that refuses its values after it began a collective: the others take part once."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.core.process.begun import BEGUN
from dynajit.core.process.process_groups import STATE
from dynajit.distributed.captured import rows
from tests.support.channels import Counting
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python


def looked_up_after_a_sum(x: Any, index: Any, seen: list[Any]) -> Any:
    y = x * 2
    dist.all_reduce(y)
    seen.append(y)
    z = x[index] * y
    dist.all_reduce(z)
    return z


def looked_up_by_a_sum(x: Any, index: Any, seen: list[Any]) -> Any:
    """No check of the index can come before the collective."""
    place = index.clone()
    dist.all_reduce(place, dist.ReduceOp.MAX)
    return x[place]


def after_several(x: Any, index: Any, seen: list[Any]) -> Any:
    y, z = x + 1, x.reshape(2, 2) * 3
    dist.all_reduce_coalesced([y, z], dist.ReduceOp.SUM)
    parts = [dj.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, y)
    dist.broadcast(z, src=1)
    dist.barrier()
    part = x.new_empty(2)
    dist.reduce_scatter_tensor(part, y)
    dist.reduce(y, dst=0)
    turned = dj.empty_like(x)
    dist.all_to_all_single(turned, x)
    work = dist.all_reduce(x.clone(), async_op=True)
    if dist.get_rank() == 0:
        dist.send(turned, 1)
    else:
        dist.recv(turned, 0)
    seen += [y, z, *parts, part, turned]
    w = x[index]
    work.wait()
    return w


def label_out_of_range(x: Any, index: Any, seen: list[Any]) -> Any:
    """A compiled function that the plain run calls has a launch of its own."""
    y = inner(x)
    seen.append(y)
    return y[index]


@dj.compile
def inner(x: Any) -> Any:
    y = x + 3
    dist.all_reduce(y, dist.ReduceOp.AVG)
    return y * 2


def merged(x: Any, index: Any, seen: list[Any]) -> Any:
    """One message of the launch stands for several calls of the plain run."""
    parts = [x + 1, (x * 2)[:3], x.reshape(2, 2).sin()]
    for part in parts:
        dist.all_reduce(part)
    place = index.clone()
    dist.all_reduce(place, dist.ReduceOp.MAX)
    seen += parts
    return x[place]


FUNCTIONS = [looked_up_after_a_sum, looked_up_by_a_sum, after_several, label_out_of_range, merged]


def refused(place: int, is_compiled: bool, who: tuple[int, ...]) -> Any:
    """What a function does whose index is out of range in some processes, and what comes then."""
    function: Callable[..., Any] = FUNCTIONS[place]
    options = {"merge_collectives": function is merged}
    call = dj.compile(function, fullgraph=True, options=options) if is_compiled else function
    rank, group = dist.get_rank(), STATE.default
    x = dj.arange(4.0) + rank + 1
    call(x, dj.tensor([1, 0, 3, 2]), [])
    group.channel = counting = Counting(group.channel)
    index, seen = dj.tensor([1, 0, 7 if rank in who else 3, 2]), []
    try:
        call(x, index, seen)
        text = ""
    except IndexError as error:
        text = type(error).__name__
        if rank in who and len(who) == 1 and function is looked_up_after_a_sum:
            dist.all_reduce(dj.zeros(4))  # what the other process asks for
    finally:
        group.channel = counting._channel
    after = dj.ones(2) * (rank + 1)
    dist.all_reduce(after)
    left = len(BEGUN.handed_over), len(rows._STARTED)
    started = {k: v for k, v in counting.counts.items() if not k.endswith("_again")}
    counts = {k: v for k, v in started.items() if k != "split"}
    return text, [value.tolist() for value in seen], after.tolist(), left, counts


CASES = [(place, who) for place in range(len(FUNCTIONS)) for who in ((0,), (0, 1))]


@pytest.fixture(scope="module")
def on_two() -> list[Any]:
    calls = [
        functools.partial(refused, place, is_compiled, who)
        for place, who in CASES
        for is_compiled in (False, True)
    ]
    return on_ranks(calls, 2)


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: FUNCTIONS[CASES[i][0]].__name__)
def test_a_group_is_in_step_after_a_launch_that_refuses_its_values(
    case: int, on_two: list[Any]
) -> None:
    for plain, compiled in zip(on_two[2 * case], on_two[2 * case + 1], strict=True):
        assert not isinstance(plain, Raised), plain
        assert not isinstance(compiled, Raised), compiled
        assert compiled[0] == plain[0]
        for expected, found in zip(plain[1], compiled[1], strict=True):
            np.testing.assert_allclose(found, expected)
        assert [3.0, 3.0] == plain[2] == compiled[2]
        assert (0, 0) == compiled[3]
        if FUNCTIONS[CASES[case][0]] is merged:
            assert {"all_reduce": 4} == plain[4]
            assert {"all_reduce": 2} == compiled[4]
        else:
            assert plain[4] == compiled[4]
