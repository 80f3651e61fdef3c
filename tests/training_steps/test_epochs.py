"""Epochs within one compiled function: training as people write it is one loop of the graph.

Contract: weights, gradients, states of optimizers, versions, losses and errors are those of eager
execution, called twice; what the loop leaves can be differentiated again.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn, optim
from dynajit.core.errors import AutogradError
from tests.support.loops import loops_of
from tests.training_steps.comparing import in_doubles

BATCHES = 14


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with in_doubles():
        yield


def tensor_of(value: Any) -> Any:
    """All that can be seen of a tensor."""
    grad = value.grad if value.is_leaf else None
    kept = None if grad is None else (grad.numpy(), grad._version, grad.requires_grad)
    flags = value._version, value.requires_grad, value.is_leaf, type(value)
    return value.detach().numpy().copy(), flags, kept


def seen(value: Any) -> Any:
    """All that can be seen of arguments and results."""
    if isinstance(value, nn.Module):
        return [seen([*value.parameters()]), seen([*value.buffers()])]
    if isinstance(value, optim.Optimizer):
        return seen(value.state_dict())
    if isinstance(value, dj.Tensor):
        return tensor_of(value)
    if isinstance(value, dict):
        return [(key, seen(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    return value if isinstance(value, (int, float, str, type(None))) else type(value)


def assert_near(expected: Any, found: Any) -> None:
    assert type(expected) is type(found)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            assert_near(one, other)
    elif isinstance(expected, (float, np.ndarray)):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-11)
    else:
        assert expected == found


def played(call: Callable[..., Any], args: list[Any]) -> Any:
    """What two calls give and leave, and gradients of what they give."""
    found = []
    for _ in range(2):
        results = refused_or(call, *args)
        found += [seen(results), seen(args)]
        for x in results if isinstance(results, (list, tuple)) else [results]:
            if isinstance(x, dj.Tensor) and x.requires_grad and not x.is_leaf:
                found.append(refused_or((x * x).sum().backward))
        found.append(seen(args))
    return found


def refused_or(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except AutogradError:
        return "refused"


def assert_like_eager(function: Callable[..., Any], make: Callable[..., list[Any]]) -> None:
    assert_near(played(function, make()), played(dj.compile(function), make()))


def assert_is_loop(function: Callable[..., Any], make: Callable[..., list[Any]]) -> None:
    """One graph, which does not grow with the number of batches, but for their rows."""
    few, many = (dj.explain(function)(*make(count)).graphs for count in (200, 300))
    assert len(few) == len(many) == 1
    assert operations_of(few[0]) == operations_of(many[0])
    assert "rows['loop" in str(few[0])


def operations_of(graph: Any) -> int:
    return sum(node.op is not None and node.op.name != "select" for node in graph.nodes)


# ---------------------------------------------------------------------------------------------
# leaves that are written by hand


def leaves(count: int = BATCHES) -> list[Any]:
    dj.manual_seed(3)
    w, b = dj.randn(8, requires_grad=True), dj.zeros(1, requires_grad=True)
    return [w, b, dj.randn(count, 10, 8), dj.randn(count, 10)]


def loss_of(w: Any, b: Any, x: Any, y: Any) -> Any:
    return ((x @ w + b - y) ** 2).mean()


def gradients_set_to_none(w, b, xs, ys):
    losses = []
    for x, y in zip(xs, ys, strict=True):
        loss = loss_of(w, b, x, y)
        loss.backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b.sub_(0.1 * b.grad)
        w.grad, b.grad = None, None
        losses.append(loss.item())
    return losses


def gradients_dropped_first(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        w.grad, b.grad = None, None
        loss = loss_of(w, b, x, y)
        loss.backward()
        with dj.no_grad():
            w.add_(w.grad, alpha=-0.1)
            b -= 0.1 * b.grad
    return loss


def gradients_zeroed(w, b, xs, ys):
    total = 0.0
    for x, y in zip(xs, ys, strict=True):
        loss = loss_of(w, b, x, y)
        loss.backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            w.grad.zero_()
            b.grad.zero_()
        total += loss.item()
    return total


def through_data(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()
        w.data -= 0.1 * w.grad
        b.data.add_(b.grad, alpha=-0.1)
        w.grad, b.grad = None, None


def gradients_add_up(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()


def detached_and_zeroed(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        for p in (w, b):
            if p.grad is not None:
                p.grad = p.grad.detach()
                p.grad.zero_()
        loss_of(w, b, x, y).backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad


def not_all_are_used(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        ((x @ w - y) ** 2).mean().backward()
        for p in (w, b):
            if p.grad is not None:
                with dj.no_grad():
                    p -= 0.1 * p.grad
                p.grad = None


def differentiated_behind_it(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
        w.grad, b.grad = None, None
    ((w**3).sum() + b.sum()).backward()
    return (w * b).sum()


def micro_batches(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        for k in range(10):
            (loss_of(w, b, x[k : k + 1], y[k : k + 1]) / 10).backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
        w.grad, b.grad = None, None


def momentum_of_the_turn_before(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        before = w.grad
        w.grad, b.grad = None, None
        loss_of(w, b, x, y).backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            if before is not None:
                w -= 0.01 * before


def kept_gradients(w, b, xs, ys):
    kept = []
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()
        kept.append(w.grad)
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
        w.grad, b.grad = None, None
    return kept


def a_leaf_made_here(w, b, xs, ys):
    v = w.detach().clone().requires_grad_()
    for x, y in zip(xs, ys, strict=True):
        loss_of(v, b, x, y).backward()
        with dj.no_grad():
            v -= 0.1 * v.grad
        v.grad = None
    return v


def frozen_here(w, b, xs, ys):
    b.requires_grad_(False)
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b += 0.01
        w.grad = None


def hooks_on_results(w, b, xs, ys):
    total = 0.0
    for x, y in zip(xs, ys, strict=True):
        h = x @ w
        h.retain_grad()
        h.register_hook(lambda g: g * 0.5)
        ((h + b - y) ** 2).mean().backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
        w.grad, b.grad = None, None
        total += h.grad.abs().sum().item()
    return total


def beside_another_history(w, b, xs, ys):
    h = xs[0] * w
    for _ in range(xs.shape[0]):
        loss_of(w, b, xs[0], ys[0]).backward()
        h = h * 0.9 + b.grad
        w.grad, b.grad = None, None
    return h


def truncated_histories(w, b, xs, ys):
    h, total = dj.zeros(8), 0.0
    for x in xs:
        h = h.detach()
        for k in range(3):
            h = dj.tanh(h * w + x[k])
        loss = (h * h).mean()
        loss.backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        total += loss.item()
    return h, total


def a_kept_history(w, b, xs, ys):
    h = w * 1.0
    for x in xs:
        before = h
        h = dj.tanh(h.detach() * w + x.mean(0))
        (h * h).sum().backward(retain_graph=True)
        with dj.no_grad():
            b -= 0.1
        w.grad = None
        w.data *= 0.99
    return before, h


def passed_a_second_time(w, b, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        loss = loss_of(w, b, x, y)
        loss.backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    loss.backward()


def losses_with_a_history(w, b, xs, ys):
    losses = []
    for x, y in zip(xs, ys, strict=True):
        loss = loss_of(w, b, x, y)
        loss.backward()
        with dj.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        losses.append(loss)
    return losses[0].detach(), len(losses)


def written_with_a_history(w, b, xs, ys):
    v = w * 1.0
    for x in xs:
        v.mul_(0.99)
        v += x.mean(0)
    return v


def a_history_from_in_front(w, b, xs, ys):
    penalty = (w * w).sum()
    for x, y in zip(xs, ys, strict=True):
        (loss_of(w, b, x, y) + penalty).backward()
        w.grad = None


LOOPS = [
    gradients_set_to_none, gradients_dropped_first, gradients_zeroed, through_data,
    gradients_add_up, detached_and_zeroed, not_all_are_used, differentiated_behind_it,
    micro_batches, momentum_of_the_turn_before, a_leaf_made_here, frozen_here, hooks_on_results,
    beside_another_history, truncated_histories,
]  # fmt: skip
OTHERS = [
    kept_gradients, passed_a_second_time, losses_with_a_history, written_with_a_history,
    a_history_from_in_front, a_kept_history,
]  # fmt: skip


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS])
def test_leaves_end_as_in_eager_execution(function) -> None:
    assert_like_eager(function, leaves)


@pytest.mark.parametrize("function", LOOPS)
def test_leaves_that_turns_write_are_handed_on(function) -> None:
    assert_is_loop(function, leaves)


@pytest.mark.parametrize("function", [losses_with_a_history, written_with_a_history])
def test_what_gradients_pass_is_not_handed_on_in_memory(function) -> None:
    assert loops_of(function, *leaves()) == 0


def by_any_number(w, b, xs, ys, count):
    w = w.detach().requires_grad_()
    for k in range(count):
        (slope,) = dj.autograd.grad(loss_of(w, b, xs[k], ys[k]), w)
        w = (w - 0.1 * slope).detach().requires_grad_()
    return w


def test_leaves_are_handed_on_where_the_number_of_turns_varies() -> None:
    compiled = dj.compile(by_any_number)
    for count in (12, 13, 9, 14):
        args = leaves()
        assert_near(seen(by_any_number(*args, count)), seen(compiled(*args, count)))


# ---------------------------------------------------------------------------------------------
# optimizers


def network(make: Callable[[Any], Any], count: int = BATCHES) -> list[Any]:
    dj.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)
    )
    model[3].bias.requires_grad_(False)
    return [model, make(model), dj.randn(count, 10, 8), dj.randint(0, 3, (count, 10))]


def epoch(model, optimizer, xs, ys):
    model.train()
    total, losses = 0.0, []
    for x, y in zip(xs, ys, strict=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(x)
        losses.append(loss.item())
    return total / len(xs), losses


def zeroed_epoch(model, optimizer, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def epoch_by_closures(model, optimizer, xs, ys):
    for x, y in zip(xs, ys, strict=True):

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)  # noqa: B023
            loss.backward()
            return loss

        optimizer.step(closure)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda m: optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda m: optim.Adam(m.parameters(), lr=0.01),
    "AdamW": lambda m: optim.AdamW(m.parameters(), lr=0.01),
    "RMSprop": lambda m: optim.RMSprop(m.parameters(), lr=0.01),
    "Adagrad": lambda m: optim.Adagrad(m.parameters(), lr=0.1),
    "groups": lambda m: optim.SGD(
        [{"params": m[0].parameters()}, {"params": m[3].parameters(), "lr": 0.01}], lr=0.1
    ),
    "a part": lambda m: optim.SGD(m[3].parameters(), lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_epoch_ends_as_in_eager_execution(name) -> None:
    assert_like_eager(epoch, lambda: network(OPTIMIZERS[name]))


@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam", "a part"])
def test_an_epoch_is_one_loop(name) -> None:
    assert_is_loop(epoch, lambda count: network(OPTIMIZERS[name], count))


@pytest.mark.parametrize("function", [zeroed_epoch, epoch_by_closures])
def test_other_ways_to_write_an_epoch_are_one_loop(function) -> None:
    def make(count: int = BATCHES) -> list[Any]:
        return network(OPTIMIZERS["momentum"], count)

    assert_like_eager(function, make)
    assert_is_loop(function, make)


def accumulated(w, b, xs, ys):
    for i in range(len(xs)):
        (loss_of(w, b, xs[i], ys[i]) / 4).backward()
        if (i + 1) % 4 == 0:
            with dj.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
            w.grad, b.grad = None, None


def accumulated_and_zeroed(w, b, xs, ys):
    total = 0.0
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        loss = loss_of(w, b, x, y) / 3
        loss.backward()
        total += loss.item()
        if not (i + 1) % 3:
            with dj.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
                w.grad.zero_()
                b.grad.zero_()
    return total, loss.detach()


def zeroed_when_it_begins(w, b, xs, ys):
    for i in range(len(xs)):
        if i % 2 == 0:
            w.grad, b.grad = None, None
        loss_of(w, b, xs[i], ys[i]).backward()
        if i % 2 == 1:
            with dj.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad


def by_a_counter_of_its_own(w, b, xs, ys):
    step, updates = 0, 0
    for x, y in zip(xs, ys, strict=True):
        loss_of(w, b, x, y).backward()
        step += 1
        if step % 3 == 0:
            with dj.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
            w.grad, b.grad = None, None
            updates += 1
    return step, updates


def written_in_two_rhythms(w, b, xs, ys):
    for i in range(len(xs)):
        loss_of(w, b, xs[i], ys[i]).backward()
        if i % 2:
            with dj.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        if i % 3 == 1:
            with dj.no_grad():
                b -= 0.1 * b.grad
            b.grad = None


ACCUMULATED = [
    accumulated, accumulated_and_zeroed, zeroed_when_it_begins, by_a_counter_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("count", [5, 29, 40, 43, 58])
@pytest.mark.parametrize("function", [*ACCUMULATED, written_in_two_rhythms])
def test_gradients_accumulate_as_in_eager_execution(function, count) -> None:
    assert_like_eager(function, lambda: leaves(count))


@pytest.mark.parametrize("function", ACCUMULATED)
def test_steps_every_few_turns_leave_a_loop_whole(function) -> None:
    for count in (60, 84):
        assert loops_of(function, *leaves(count)) == 1


def accumulating_epoch(model, optimizer, xs, ys):
    total, losses = 0.0, []
    optimizer.zero_grad()
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        total += loss.item()
        losses.append(loss.item())
        if (i + 1) % 4 == 0 or i + 1 == len(xs):
            optimizer.step()
            optimizer.zero_grad()
    return total, losses, i


@pytest.mark.parametrize("count", [30, 41])
@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam", "groups"])
def test_optimizers_may_step_every_few_turns(name, count) -> None:
    assert_like_eager(accumulating_epoch, lambda: network(OPTIMIZERS[name], count))
    assert loops_of(accumulating_epoch, *network(OPTIMIZERS[name], count)) == 1


class Tied(nn.Module):
    """A parameter that is used twice, and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.out.weight = self.table.weight
        self.unused = nn.Parameter(dj.zeros(3))

    def forward(self, x: Any) -> Any:
        return self.out(self.table(x))


def tied(count: int = BATCHES) -> list[Any]:
    dj.manual_seed(1)
    model = Tied()
    batches = dj.randint(0, 7, (2, count, 10))
    return [model, optim.AdamW(model.parameters(), lr=0.01), batches[0], batches[1]]


def test_tied_weights_are_one_leaf() -> None:
    assert_like_eager(epoch, tied)
    assert_is_loop(epoch, tied)


def adversaries(count: int = BATCHES) -> list[Any]:
    dj.manual_seed(1)
    maker = nn.Linear(4, 8)
    judge = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizers = optim.Adam(maker.parameters(), lr=0.01), optim.SGD(judge.parameters(), lr=0.01)
    return [maker, judge, *optimizers, dj.randn(count, 10, 8), dj.randn(count, 10, 4)]


def duel(maker, judge, of_maker, of_judge, xs, zs):
    for x, z in zip(xs, zs, strict=True):
        of_judge.zero_grad()
        loss = -F.logsigmoid(judge(x)).mean() - F.logsigmoid(-judge(maker(z).detach())).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        other = -F.logsigmoid(judge(maker(z))).mean()
        other.backward()
        of_maker.step()
    return loss.detach(), other.detach()


def test_two_optimizers_take_turns() -> None:
    assert_like_eager(duel, adversaries)
    assert_is_loop(duel, adversaries)


# ---------------------------------------------------------------------------------------------
# places that no turn reads


class Logger:
    """Keeps what a step was, in places that a turn puts new things into."""

    def __init__(self) -> None:
        self.last, self.history = None, []

    def note(self, value: Any, keeps: bool) -> None:
        if keeps:
            self.history = [self.last]
        self.last = value


def noted(x, logger, keeps, count):
    for _ in range(count):
        x = x * 0.9
        logger.note(x.sum(), keeps)
    return x


def listed(x, logger, keeps, count):
    for k in range(count):
        x = x * 0.9
        logger.note([k, 2 * k], keeps)
    return x


@pytest.mark.parametrize("function", [noted, listed])
@pytest.mark.parametrize("keeps", [False, True])
def test_what_was_in_a_place_is_left_out_only_if_nobody_has_it(function, keeps) -> None:
    found = []
    for call in (function, dj.compile(function)):
        logger = Logger()
        result = call(dj.ones(3), logger, keeps, 12)
        found.append(seen([result, logger.last, logger.history]))
    assert_near(*found)


def read_in_the_last_turn(x, logger, count, of_lists):
    found = None
    for k in range(count):
        if k == count - 1:
            found = logger.last
        x = x * 0.9
        logger.note([k] if of_lists else x.sum(), False)
    return x, found


@pytest.mark.parametrize("of_lists", [False, True])
def test_what_the_last_turn_alone_reads_is_handed_on(of_lists) -> None:
    found = []
    for call in (read_in_the_last_turn, dj.compile(read_in_the_last_turn)):
        logger = Logger()
        found.append(seen([*call(dj.ones(3), logger, 12, of_lists), logger.last]))
    assert_near(*found)


def history_of_the_last_turn(w, b, xs, ys):
    h = w * 1.0
    for k in range(xs.shape[0]):
        if k < xs.shape[0] - 1:
            h = h.detach()
        h = dj.tanh(h * w + xs[k].mean(0))
        if k < xs.shape[0] - 2:
            (h * h).sum().backward()
        w.grad = None
    return h


def test_a_history_that_the_last_turn_alone_lets_pass_is_kept() -> None:
    assert_like_eager(history_of_the_last_turn, leaves)
