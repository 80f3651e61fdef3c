"""Rates that turns of a training loop change: schedules, and rates computed of the counter.

Contract: training is one loop of the graph, and what it leaves is what eager execution leaves:
numbers of schedules and optimizers to the last bit, parameters and states up to the order in which
kernels add up.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn, optim
from dynajit.optim import lr_scheduler as schedules
from tests.support.loops import loops_of
from tests.training_steps.comparing import differences, in_doubles


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with in_doubles():
        yield


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01),
}

#: Of an optimizer, and of how many steps there will be.
SCHEDULES: dict[str, Callable[[Any, int], Any]] = {
    "StepLR": lambda o, n: schedules.StepLR(o, 5, 0.5),
    "MultiStepLR": lambda o, n: schedules.MultiStepLR(o, [4, 9, 9, 13], 0.7),
    "ConstantLR": lambda o, n: schedules.ConstantLR(o, 0.3, 9),
    "LinearLR": lambda o, n: schedules.LinearLR(o, 0.3, total_iters=7),
    "ExponentialLR": lambda o, n: schedules.ExponentialLR(o, 0.95),
    "PolynomialLR": lambda o, n: schedules.PolynomialLR(o, n, 1.5),
    "CosineAnnealingLR": lambda o, n: schedules.CosineAnnealingLR(o, n // 2, 1e-3),
    "LambdaLR": lambda o, n: schedules.LambdaLR(o, lambda e: 0.95**e),
    "MultiplicativeLR": lambda o, n: schedules.MultiplicativeLR(o, lambda e: 1 - 0.1 / (1 + e)),
    "OneCycleLR": lambda o, n: schedules.OneCycleLR(o, 0.1, total_steps=n + 1),
    "OneCycleLR, three phases": lambda o, n: schedules.OneCycleLR(
        o, 0.1, total_steps=n + 1, three_phase=True, cycle_momentum=False, anneal_strategy="linear"
    ),
}


def training(optimizer: str, schedule: str | None, count: int, epochs: int = 1) -> list[Any]:
    """A model, its optimizer and schedule, and batches."""
    dj.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    found = OPTIMIZERS[optimizer](model.parameters())
    plan = None if schedule is None else SCHEDULES[schedule](found, count * epochs)
    return [model, found, plan, dj.rand(count, 5, 4), dj.rand(count, 5, 2)]


def epoch(model, optimizer, schedule, xs, ys):
    rates = []
    for i in range(len(xs)):
        loss = ((model(xs[i]) - ys[i]) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def in_param_groups(model, optimizer, schedule, xs, ys):
    for i in range(len(xs)):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.95**i
        ((model(xs[i]) - ys[i]) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def warmed_up(model, optimizer, schedule, xs, ys):
    base, warm = 0.1, 5
    for i in range(len(xs)):
        if i < warm:
            lr = base * (i + 1) / warm
        else:
            lr = base * 0.5 * (1 + math.cos(math.pi * (i - warm) / len(xs)))
        for group in optimizer.param_groups:
            group["lr"] = lr
        ((model(xs[i]) - ys[i]) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return lr


def by_hand(model, optimizer, schedule, xs, ys):
    base, decay = 0.1, 0.03
    for i in range(len(xs)):
        lr = base / (1 + i * decay)
        ((model(xs[i]) - ys[i]) ** 2).mean().backward()
        with dj.no_grad():
            for w in model.parameters():
                w -= lr * w.grad
                w.grad = None
    return lr


def halved_where_it_grows(model, optimizer, schedule, xs, ys):
    best = float("inf")
    for i in range(len(xs)):
        loss = ((model(xs[i]) - ys[i]) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() > best:
            optimizer.param_groups[0]["lr"] *= 0.5
        best = min(best, loss.item())
    return best


def assert_trains_alike(
    function: Callable[..., Any], make: Callable[[], list[Any]], epochs: int = 1
) -> None:
    """What each call gives and leaves."""
    eager, compiled = make(), make()
    call = dj.compile(function)
    for _ in range(epochs):
        assert function(*eager) == call(*compiled)
        for expected, found in zip(eager[:3], compiled[:3], strict=True):
            if expected is None:
                continue
            states = [
                {k: v for k, v in held.state_dict().items() if k != "lr_lambdas"}
                for held in (expected, found)
            ]
            if isinstance(expected, schedules.LRScheduler):
                assert states[0] == states[1]
            assert not differences(*states, 1e-10)
        assert eager[1].param_groups[0]["lr"] == compiled[1].param_groups[0]["lr"]
        assert type(compiled[1].param_groups[0]["lr"]) is float


#: Each schedule, and each optimizer.
PAIRS = [
    *[(name, "SGD") for name in SCHEDULES],
    *[(name, other) for name in ("StepLR", "OneCycleLR") for other in OPTIMIZERS if other != "SGD"],
]


@pytest.mark.parametrize(("schedule", "optimizer"), PAIRS)
def test_a_schedule_leaves_what_eager_execution_leaves(schedule, optimizer) -> None:
    assert_trains_alike(epoch, lambda: training(optimizer, schedule, 20))


@pytest.mark.parametrize("count", [9, 25])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_epochs_that_follow_each_other_go_on_with_the_schedule(schedule, count) -> None:
    assert_trains_alike(epoch, lambda: training("SGD", schedule, count, 3), 3)


@pytest.mark.parametrize(("schedule", "optimizer"), PAIRS)
def test_training_with_a_schedule_is_one_loop(schedule, optimizer) -> None:
    for count in (20, 61):
        assert loops_of(epoch, *training(optimizer, schedule, count)) == 1


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("function", [in_param_groups, warmed_up, by_hand])
def test_rates_that_follow_the_counter_leave_a_loop_whole(function, optimizer) -> None:
    for count in (20, 61):
        assert_trains_alike(function, lambda n=count: training(optimizer, None, n))
        assert loops_of(function, *training(optimizer, None, count)) == 1


def test_rates_that_data_decide_leave_a_loop_whole() -> None:
    assert loops_of(halved_where_it_grows, *training("SGD", None, 30)) == 1
    eager, compiled = training("SGD", None, 30), training("SGD", None, 30)
    expected = halved_where_it_grows(*eager)
    found = dj.compile(halved_where_it_grows)(*compiled)
    assert math.isclose(expected, found, rel_tol=1e-10)
    assert eager[1].param_groups[0]["lr"] == compiled[1].param_groups[0]["lr"] < 0.1


@pytest.mark.parametrize("schedule", ["LinearLR", "ExponentialLR"])
def test_two_versions_serve_all_epochs(schedule) -> None:
    made = training("SGD", schedule, 12, 8)
    call = dj.compile(epoch)
    for _ in range(8):
        call(*made)
    assert len(call.report().recompiles) <= 1


def test_a_momentum_that_ends_at_zero_is_no_momentum_there() -> None:
    def descend(model, optimizer, schedule, xs, ys):
        group = optimizer.param_groups[0]
        for i in range(len(xs)):
            ((model(xs[i]) - ys[i]) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule["count"] += 1
            group["momentum"] = max(0.0, 0.9 - 0.05 * schedule["count"])

    def make() -> list[Any]:
        model, optimizer, _, xs, ys = training("momentum", None, 30)
        optimizer.param_groups[0]["nesterov"] = False
        return [model, optimizer, {"count": 0}, xs, ys]

    eager, compiled = make(), make()
    descend(*eager)
    dj.compile(descend)(*compiled)
    assert not differences(eager[1].state_dict(), compiled[1].state_dict(), 1e-10)
    assert eager[1].param_groups[0]["momentum"] == compiled[1].param_groups[0]["momentum"] == 0.0
    assert not differences(eager[0].state_dict(), compiled[0].state_dict(), 1e-10)
