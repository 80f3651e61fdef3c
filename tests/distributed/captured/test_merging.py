"""Small collectives of a compiled function travel together where that is asked for."""

import functools
from typing import Any

import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.core.process.process_groups import STATE
from tests.support.channels import Counting
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

MERGING = {"merge_collectives": True}


def one_by_one(x: Any) -> Any:
    found = []
    for place in range(1, 7):
        y = (x * place).sin()[:place]
        dist.all_reduce(y)
        found.append(y)
    return found


def of_several_kinds(x: Any) -> Any:
    """Sums, maxima and a broadcast; one sum needs another's result."""
    z = [x + 1, x * 2]
    works = [dist.all_reduce(y, async_op=True) for y in z]
    largest = x.exp()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    for work in works:
        work.wait()
    given = [x + 3, (x * 5).reshape(2, 3)]
    for y in given:
        dist.broadcast(y, src=1)
    late = z[0] * 2
    dist.all_reduce(late)
    other = x - 1
    dist.all_reduce(other)
    return [*z, largest, *given, late, other]


def step(model: Any, x: Any) -> Any:
    (model(x) ** 2).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
    return [parameter.grad for parameter in model.parameters()]


def trained(is_compiled: bool, options: Any) -> Any:
    dj.manual_seed(0)
    model = dj.nn.Sequential(dj.nn.Linear(6, 5), dj.nn.Tanh(), dj.nn.Linear(5, 3))
    return lambda x: (dj.compile(step, fullgraph=True, options=options) if is_compiled else step)(
        model, x
    )


FUNCTIONS = {"one by one": one_by_one, "of several kinds": of_several_kinds}


def three_ways(name: str) -> Any:
    """(results, calls of the channel) as plain Python, compiled, and compiled with merging."""
    ways = []
    group = STATE.default
    x = (dj.arange(6.0) + dist.get_rank()) / 7
    for options in (None, {}, MERGING):
        if name == "a step":
            call = trained(options is not None, options)
        else:
            function = FUNCTIONS[name]
            call = (
                function
                if options is None
                else dj.compile(function, fullgraph=True, options=options)
            )
        call(x)
        group.channel = counting = Counting(group.channel)
        try:
            results = call(x)
        finally:
            group.channel = counting._channel
        counts = {k: v for k, v in counting.counts.items() if k in ("all_reduce", "broadcast")}
        ways.append(([result.tolist() for result in results], counts))
    return ways


def report() -> str:
    return str(dj.explain(one_by_one, options=MERGING)(dj.arange(6.0)))


EXPECTED = {
    "one by one": ({"all_reduce": 6}, {"all_reduce": 1}),
    "of several kinds": ({"all_reduce": 5, "broadcast": 2}, {"all_reduce": 3, "broadcast": 1}),
    "a step": ({"all_reduce": 4}, {"all_reduce": 1}),
}


@pytest.fixture(scope="module")
def on_two() -> list[Any]:
    return on_ranks([*(functools.partial(three_ways, name) for name in EXPECTED), report], 2)


@pytest.mark.parametrize("place", range(len(EXPECTED)), ids=list(EXPECTED).__getitem__)
def test_merged_collectives_have_the_bits_of_those_that_travel_alone(
    place: int, on_two: list[Any]
) -> None:
    apart, together = list(EXPECTED.values())[place]
    for found in on_two[place]:
        assert not isinstance(found, Raised), found
        plain, compiled, merged = found
        assert (compiled[0], apart) == compiled
        assert (compiled[0], together) == merged
        assert apart == plain[1]


def test_the_report_says_what_travels_together(on_two: list[Any]) -> None:
    for found in on_two[-1]:
        assert "6 collectives and messages, in 1 that are started" in found


def test_merging_is_not_for_code_that_is_compiled_meanwhile() -> None:
    with pytest.raises(dj.errors.ArgumentError, match="not both"):
        dj.compile(one_by_one, options={**MERGING, "async": True})
