"""Collectives within compiled functions: one graph, in order, and other work goes on meanwhile."""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.core.process.process_groups import STATE
from dynajit.distributed.channels.channel import Request
from tests.support.ranks import Raised, on_ranks

nn = dj.nn


def averaged(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y / dist.get_world_size()


def several(x: Any) -> Any:
    y, z = x + 1, x.reshape(2, 2).t() * 3
    dist.all_reduce_coalesced([y, z])
    return y, z


def gathered(x: Any) -> Any:
    parts = [dj.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x * 3)
    whole = x.new_empty(dist.get_world_size() * len(x))
    dist.all_gather_into_tensor(whole, x)
    return dj.cat(parts) * 2 + whole


def scattered(x: Any) -> Any:
    output = x.new_empty(len(x) // dist.get_world_size())
    dist.reduce_scatter_tensor(output, x * x)
    dist.broadcast(output, src=0)
    dist.barrier()
    return output + dist.get_rank()


def waited(x: Any) -> Any:
    y, z = x + 1, (x * 3).exp()
    works = [dist.all_reduce(y, async_op=True), dist.all_reduce(z, dist.ReduceOp.MAX, None, True)]
    w = z.new_zeros(4) + x
    for work in reversed(works):
        work.wait()
    return y * 3 + z + w


def left_open(x: Any) -> Any:
    """What is started in one graph is waited for in another."""
    y = x + 1
    work = dist.all_reduce(y, async_op=True)
    dj.graph_break()
    work.wait()
    return y * 2


def exchanged(x: Any) -> Any:
    output = dj.empty_like(x)
    dist.all_to_all_single(output, x * 2)
    return output + 1


def unread(x: Any) -> Any:
    """Every process takes part in a collective whose result nobody reads."""
    dist.all_reduce(x.clone())
    y = x * 2
    dist.all_reduce(y)
    return y


def by_sub_group(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, group=SUB_GROUPS[0])
    return y


def reduced(x: Any) -> Any:
    """The sum is in one process; what the others hold stays."""
    y, z = x * 2, x + 1
    dist.reduce(y, dst=1)
    work = dist.reduce(z, dst=0, op=dist.ReduceOp.MAX, async_op=True)
    w = x.exp()
    work.wait()
    return y + 1, z * w


def collected(x: Any) -> Any:
    is_root = dist.get_rank() == 1
    parts = [dj.empty_like(x) for _ in range(dist.get_world_size())] if is_root else None
    dist.gather(x * 3, parts, dst=1)
    return parts[0] - parts[1] if parts is not None else x


def dealt(x: Any) -> Any:
    output = x.new_empty(2)
    rows = [x[:2] * 5, x[2:] + 1] if dist.get_rank() == 0 else None
    dist.scatter(output, rows, src=0)
    return output * 2


def passed_on(x: Any) -> Any:
    """Messages in both directions, and one that nobody waits for."""
    rank = dist.get_rank()
    arrived = dj.empty_like(x)
    if rank == 0:
        dist.send(x * 2, 1)
        sender = dist.recv(arrived, 1)
    else:
        sender = dist.recv(arrived, 0)
        dist.send(arrived + x, 0)
    dist.isend(x + 3, 1 - rank, tag=7)
    late = dist.irecv(dj.empty_like(x), 1 - rank, tag=7)
    late.wait()
    return arrived, late.result()[0] * 2 + sender


def exchanged_in_a_batch(x: Any) -> Any:
    other, arrived = 1 - dist.get_rank(), dj.empty_like(x)
    messages = [dist.P2POp(dist.isend, x * 3, other), dist.P2POp(dist.irecv, arrived, other)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return arrived + 1


def told(x: Any) -> Any:
    """Objects, and a message of whoever sends first: graphs end there."""
    found = [None] * 2
    dist.all_gather_object(found, {"rank": dist.get_rank()})
    words = ["a", dist.get_rank()] if dist.get_rank() == 1 else [None, None]
    dist.broadcast_object_list(words, src=1)
    arrived = dj.empty_like(x)
    if dist.get_rank() == 0:
        sender = dist.recv(arrived)
    else:
        sender = dist.isend(x * 2, 0).wait()
    return x * sum(each["rank"] for each in found) + words[1], x.exp() * 0 + sender


FUNCTIONS = [
    averaged, several, gathered, scattered, waited, left_open, exchanged, unread, by_sub_group,
    reduced, collected, dealt, passed_on, exchanged_in_a_batch, told,
]  # fmt: skip
SUB_GROUPS: list[Any] = []


def plain_and_compiled(place: int) -> tuple[Any, Any, Any]:
    """What a function gives: as it is, then twice compiled."""
    function = FUNCTIONS[place]
    SUB_GROUPS[:] = [dist.new_group([0, 1])]
    compiled = dj.compile(function, fullgraph=function not in (left_open, told))
    given = [dj.arange(4.0) + dist.get_rank() + 1 for _ in range(3)]
    calls = (function, compiled, compiled)
    return tuple(values(call(x)) for call, x in zip(calls, given, strict=True))


def reasons_of_breaks() -> str:
    return str(dj.explain(told)(dj.arange(4.0)))


def values(result: Any) -> Any:
    return [x.tolist() for x in (result if isinstance(result, tuple) else (result,))]


class Slow(Request):
    """A transfer that takes a while longer."""

    def __init__(self, request: Request, until: float) -> None:
        self._request, self._until = request, until

    def test(self) -> bool:
        return self._request.test() and time.monotonic() >= self._until


class SlowLink:
    """A channel whose sums take `delay` seconds."""

    def __init__(self, channel: Any, delay: float) -> None:
        self._channel, self._delay = channel, delay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def all_reduce(self, array: Any, op: Any) -> Request:
        return Slow(self._channel.all_reduce(array, op), time.monotonic() + self._delay)


def training(is_compiled: bool, overlaps: bool = True) -> tuple[Callable[[], Any], Any]:
    """A step of an MLP of 8 layers that averages its gradients, and its parameters."""
    dj.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.Tanh())]
    model = nn.Sequential(*layers).double()
    optimizer = dj.optim.AdamW(model.parameters(), 1e-2)
    works: list[Any] = []

    def start(parameter: Any) -> None:
        works.append(dist.all_reduce(parameter.grad, dist.ReduceOp.AVG, async_op=True))

    for parameter in model.parameters():
        if overlaps:
            parameter.register_post_accumulate_grad_hook(start)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        for parameter in () if overlaps else model.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        for work in works:
            work.wait()
        works.clear()
        optimizer.step()
        return loss.detach()

    call = dj.compile(step, fullgraph=True) if is_compiled else step
    dj.manual_seed(dist.get_rank() + 1)
    batches = [dj.randn(2, 8, 32, dtype=dj.float64) for _ in range(4)]

    def trained() -> list[float]:
        return [call(x, y).item() for x, y in batches]

    return trained, model


def trained_in_both_ways() -> Any:
    """Losses and parameters, eager and compiled."""
    found = []
    for is_compiled in (False, True):
        trained, model = training(is_compiled)
        losses = trained()
        found.append((losses, [p.detach().numpy() for p in model.parameters()]))
    return found


def seconds_of_steps() -> list[float]:
    """A step's median seconds: plain, sums one after the other at its end; the same text compiled;
    compiled, each sum started by a hook."""
    group = STATE.default
    channel, medians = group.channel, []
    try:
        for is_compiled, overlaps in ((False, False), (True, False), (True, True)):
            group.channel = SlowLink(channel, 0.005)
            trained, _ = training(is_compiled, overlaps)
            trained()
            times = []
            for _ in range(5):
                begin = time.monotonic()
                trained()
                times.append((time.monotonic() - begin) / 4)
            medians.append(sorted(times)[2])
    finally:
        group.channel = channel
    return medians


@pytest.fixture(scope="module")
def on_two() -> list[Any]:
    calls = [functools.partial(plain_and_compiled, place) for place in range(len(FUNCTIONS))]
    return on_ranks([*calls, trained_in_both_ways, reasons_of_breaks, seconds_of_steps], 2)


@pytest.mark.parametrize("place", range(len(FUNCTIONS)), ids=lambda i: FUNCTIONS[i].__name__)
def test_compiled_functions_give_what_plain_ones_do(place: int, on_two: list[Any]) -> None:
    for found in on_two[place]:
        assert not isinstance(found, Raised), found
        plain, first, second = found
        assert plain == first == second


def test_what_ends_a_graph_says_why(on_two: list[Any]) -> None:
    first, second = on_two[len(FUNCTIONS) + 1]
    for text in (first, second):
        for name in ("all_gather_object", "broadcast_object_list"):
            assert f"{name} is disabled: objects travel as pickles" in text
    assert "which process sends is known when its message is there" in first
    assert "no graph has started what is waited for" in first
    assert "with self._lock" not in first


def test_a_whole_training_step_is_one_graph_with_its_sums(on_two: list[Any]) -> None:
    by_rank = on_two[len(FUNCTIONS)]
    parameters = []
    for (eager_losses, eager), (losses, compiled) in by_rank:
        np.testing.assert_allclose(losses, eager_losses, rtol=1e-12)
        for expected, found in zip(eager, compiled, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
        parameters.append(compiled)
    for ours, others in zip(*parameters, strict=True):
        np.testing.assert_array_equal(ours, others)


def test_sums_go_on_while_a_compiled_step_computes(on_two: list[Any]) -> None:
    """16 sums of 5 ms, one after the other or all at once: no timing of a machine is near."""
    for found in on_two[-1]:
        assert not isinstance(found, Raised), found
        apart, *overlapped = found
        assert apart > 0.08
        assert max(overlapped) < 0.6 * apart
