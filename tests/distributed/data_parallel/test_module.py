"""What a parallel module does besides training: order of messages, errors, hooks, uneven ends."""

import copy
import datetime
import functools
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.distributed import utils
from dynajit.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from dynajit.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from dynajit.distributed.algorithms.join import Join
from dynajit.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from dynajit.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from dynajit.distributed.optim import PostLocalSGDOptimizer
from dynajit.driver import parts
from dynajit.eager.backward import arrivals
from dynajit.nn.parallel import DistributedDataParallel
from dynajit.utils.data import DistributedSampler
from tests.support.ranks import mpiexec, on_ranks

pytestmark = pytest.mark.one_python

WIDTH = 16
LAYER_MB = WIDTH * WIDTH * 8 / (1 << 20)


def message(function: Any) -> tuple[str, ...]:
    """Classes and text of what a call raises."""
    try:
        function()
    except Exception as error:
        return (*(kind.__name__ for kind in type(error).__mro__), str(error))
    return ("nothing raised",)


def deep(count: int) -> Any:
    dj.manual_seed(0)
    layers = [dj.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)]
    return dj.nn.Sequential(*(part for layer in layers for part in (layer, dj.nn.Tanh()))).double()


class Noted:
    """A group's channel that notes when all-reduces of floating numbers begin."""

    def __init__(self, inner: Any, events: list[Any]) -> None:
        self.inner, self.events = inner, events

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def all_reduce(self, array: Any, op: Any) -> Any:
        if array.dtype.kind == "f":
            self.events.append(("sent", array.size))
        return self.inner.all_reduce(array, op)


def order_of_events(is_compiled: bool) -> list[Any]:
    """What happens in a step, after a few: parts computed (or leaves ready), buckets sent."""
    events: list[Any] = []
    group: Any = dist.new_group()
    group.channel = Noted(group.channel, events)
    inner = deep(8)
    module = DistributedDataParallel(inner, bucket_cap_mb=LAYER_MB, process_group=group)
    call = dj.compile(module) if is_compiled else module
    go = parts.ProgramInParts._go

    def noted(*arguments: Any) -> Any:
        events.append(("computed", 0))
        return go(*arguments)

    parts.ProgramInParts._go = noted  # type: ignore[method-assign]
    if not is_compiled:
        for parameter in inner.parameters():
            parameter.register_hook(lambda gradient: events.append(("computed", 0)))
    try:
        for _ in range(3):
            events.clear()
            call(dj.ones(4, WIDTH).double()).square().mean().backward()
    finally:
        parts.ProgramInParts._go = go  # type: ignore[method-assign]
    dist.destroy_process_group(group)
    return events


def other_shapes() -> tuple[str, ...]:
    width = 3 if dist.get_rank() == 0 else 4
    return message(lambda: DistributedDataParallel(dj.nn.Linear(2, width)))


def other_numbers() -> tuple[str, ...]:
    module = dj.nn.Linear(2, 2, bias=dist.get_rank() == 0)
    return message(lambda: DistributedDataParallel(module))


class Parts(dj.nn.Module):
    """Two layers, of which the second may be left out, or used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = dj.nn.Linear(2, 2), dj.nn.Linear(2, 2)

    def forward(self, x: Any, both: bool = False) -> Any:
        x = self.first(x)
        return self.second(x) if both else x


def unused_without_being_told() -> tuple[str, ...]:
    module = DistributedDataParallel(Parts())
    module(dj.ones(1, 2)).sum().backward()
    return message(lambda: module(dj.ones(1, 2)))


def ready_twice() -> tuple[str, ...]:
    module = DistributedDataParallel(Parts())
    result = module(dj.ones(1, 2), True)
    result.sum().backward(retain_graph=True)
    module(dj.ones(1, 2), True)
    first = module.module.first.weight.grad.clone()

    def twice() -> None:
        (result.sum() * 1).backward(retain_graph=True)
        module._reducer.expect(None)  # as reentrant checkpoints: several runs in one iteration
        module.module.first(dj.ones(1, 2)).sum().backward()
        module.module.first(dj.ones(1, 2)).sum().backward()

    del first
    return message(twice)


def broadcasts() -> list[Any]:
    """Parameters and buffers are process 0's from the start; buffers in each forward pass."""
    inner = dj.nn.BatchNorm1d(2)
    inner.weight.data.fill_(dist.get_rank() + 5.0)
    inner.running_mean.fill_(dist.get_rank() + 1.0)
    module = DistributedDataParallel(inner)
    found = [inner.weight.tolist(), inner.running_mean.tolist()]
    inner.eval()
    inner.running_mean.fill_(dist.get_rank() + 2.0)
    module(dj.ones(2, 2)).sum().backward()
    found.append(inner.running_mean.tolist())
    inner.running_mean.fill_(dist.get_rank() + 2.0)
    other = DistributedDataParallel(inner, broadcast_buffers=False, init_sync=False)
    other(dj.ones(2, 2)).sum().backward()
    return [*found, inner.running_mean.tolist()]


def copies() -> list[Any]:
    """Of a module that was pickled, and of one copied deeply: both average."""
    module = DistributedDataParallel(dj.nn.Linear(2, 1, bias=False))
    found = []
    for other in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        other(dj.full((1, 2), float(dist.get_rank()))).sum().backward()
        found.append(other.module.weight.grad.tolist())
    return found


def gradients_of_gradients() -> tuple[list[str], Any]:
    module = DistributedDataParallel(dj.nn.Linear(1, 1, bias=False))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        module(dj.full((1, 1), dist.get_rank() + 1.0)).square().sum().backward(create_graph=True)
    return [str(w.message) for w in told], module.module.weight.grad.detach().numpy()


def within_a_group() -> Any:
    """Of the even ranks, or the odd ones."""
    size, rank = dist.get_world_size(), dist.get_rank()
    groups = [dist.new_group(list(range(start, size, 2))) for start in (0, 1)]
    module = DistributedDataParallel(dj.nn.Linear(1, 1, bias=False), process_group=groups[rank % 2])
    module(dj.full((1, 1), float(rank))).sum().backward()
    return float(module.module.weight.grad)


def nobody_comes() -> tuple[str, ...]:
    """The others fail before backward: who waits for them is told so after the timeout."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=0.5))
    module = DistributedDataParallel(dj.nn.Linear(1, 1), process_group=group)
    if dist.get_rank():
        return ("came not",)
    return message(lambda: module(dj.ones(1, 1)).sum().backward())


def early_end_is_an_error() -> tuple[str, ...]:
    module = DistributedDataParallel(dj.nn.Linear(1, 1))

    def train() -> None:
        with module.join(throw_on_early_termination=True):
            for _ in range(1 + dist.get_rank()):
                module(dj.ones(1, 1)).sum().backward()

    return message(train)


def two_joined() -> list[Any]:
    """Two modules in one block; models at its end are those of the ranks that went on."""
    modules = [DistributedDataParallel(dj.nn.Linear(1, 1, bias=False)) for _ in range(2)]
    for module in modules:
        module.module.weight.data.fill_(1.0)
    with Join(list(modules)):
        for _ in range(1 + dist.get_rank()):
            for module in modules:
                module.zero_grad()
                module(dj.ones(1, 1)).sum().backward()
                module.module.weight.data.sub_(module.module.weight.grad)
    return [float(module.module.weight) for module in modules]


def gradients(hook: Any, state: Any, steps: int = 1) -> Any:
    """After some steps of a layer on this rank's input, by a hook."""
    dj.manual_seed(1)
    module = DistributedDataParallel(dj.nn.Linear(12, 12).double())
    module.register_comm_hook(state, hook)
    x = dj.tensor(np.random.default_rng(dist.get_rank()).standard_normal((5, 12)))
    for _ in range(steps):
        module.zero_grad()
        module(x).square().mean().backward()
    return [p.grad.numpy().copy() for p in module.parameters()]


def by_power_sgd(hook: str, rank: int) -> tuple[Any, Any]:
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=0.1
    )
    found = gradients(getattr(powerSGD_hook, hook), state, 12)
    return found, gradients(default_hooks.allreduce_hook, None)


def by_wrapped_power_sgd() -> tuple[Any, Any]:
    hook = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    return gradients(hook, None), gradients(default_hooks.bf16_compress_hook, None)


def by_local_sgd() -> list[Any]:
    """Averaged gradients for 2 steps, then own ones, and averaged models after each second."""
    module = DistributedDataParallel(dj.nn.Linear(1, 1, bias=False))
    module.module.weight.data.fill_(0.0)
    module.register_comm_hook(PostLocalSGDState(None, None, 2), post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(dj.optim.SGD(module.parameters(), lr=1.0), averager)
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        module(dj.full((1, 1), -float(dist.get_rank()))).sum().backward()
        optimizer.step()
        found.append(float(module.module.weight.detach()))
    return [found, optimizer.state_dict()["step"]]


def evaluated_in_between() -> list[Any]:
    """A forward pass without gradients between forward and backward; what is left at the end."""
    inner = dj.nn.Linear(1, 1, bias=False)
    module = DistributedDataParallel(inner)
    result = module(dj.full((1, 1), float(dist.get_rank())))
    with dj.no_grad():
        module(dj.ones(1, 1))
    result.sum().backward()
    del result, module
    return [float(inner.weight.grad), dict(arrivals.WATCHERS)]


def epochs() -> list[list[int]]:
    sampler: Any = DistributedSampler(range(7), seed=3)
    found = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


def normalised_over_processes() -> list[Any]:
    """Of unequal batches, with momentum None, in evaluation, and as float16."""
    x = dj.tensor(np.random.default_rng(0).standard_normal((6, 3)))
    part = x[:2] if dist.get_rank() == 0 else x[2:]
    layer = dj.nn.SyncBatchNorm(3, momentum=None, affine=False).double()
    own = part.clone().requires_grad_()
    y = layer(own)
    (y * dj.arange(3.0).double() * y.detach().sin()).sum().backward()
    half = dj.nn.SyncBatchNorm(3)(part.half()).float().detach().numpy()
    return [
        y.detach().numpy(), own.grad.numpy(), layer.running_var.numpy(),
        layer.eval()(part).numpy(), half,
    ]  # fmt: skip


FUNCTIONS: dict[str, Any] = {
    "eager": functools.partial(order_of_events, False),
    "compiled": functools.partial(order_of_events, True),
    "power": functools.partial(by_power_sgd, "powerSGD_hook", 12),
    "batched power": functools.partial(by_power_sgd, "batched_powerSGD_hook", 13),
    "thin power": functools.partial(by_power_sgd, "powerSGD_hook", 1),
    **{
        function.__name__: function
        for function in (
            other_shapes, other_numbers, unused_without_being_told, ready_twice, broadcasts, copies,
            gradients_of_gradients, early_end_is_an_error, two_joined, by_wrapped_power_sgd,
            by_local_sgd, epochs, evaluated_in_between, normalised_over_processes, nobody_comes,
        )
    },
}  # fmt: skip


@functools.cache
def of_two() -> dict[str, list[Any]]:
    return dict(zip(FUNCTIONS, on_ranks(list(FUNCTIONS.values()), 2), strict=True))


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_a_bucket_is_sent_before_the_next_gradient_is_computed(way: str) -> None:
    """If computing one takes as long as sending one, a backward takes 9 times that, not 16."""
    for events in of_two()[way]:
        assert [("computed", 0), ("sent", WIDTH * WIDTH)] * 8 == events
        now = sent = 0
        for kind, _ in events:
            now, sent = (now + 5, sent) if kind == "computed" else (now, max(now, sent) + 5)
        assert 45 == max(now, sent) < 0.6 * (8 * 5 + 8 * 5)


def test_modules_that_differ_are_refused_everywhere() -> None:
    for name, text in (("other_shapes", "parameter 0 (weight)"), ("other_numbers", "2 params")):
        for raised in of_two()[name]:
            assert "RuntimeError" in raised
            assert "same model across all ranks" in raised[-1] and text in raised[-1]


def test_parameters_without_a_gradient_are_named() -> None:
    for rank, raised in enumerate(of_two()["unused_without_being_told"]):
        assert "RuntimeError" in raised
        assert "Expected to have finished reduction in the prior iteration" in raised[-1]
        assert f"for rank {rank}: second.weight, second.bias" in raised[-1]
        assert f"did not receive grad for rank {rank}: 2 3" in raised[-1]


def test_a_parameter_that_is_ready_twice_is_named() -> None:
    for raised in of_two()["ready_twice"]:
        assert "Expected to mark a variable ready only once" in raised[-1]
        assert "first.weight" in raised[-1] or "first.bias" in raised[-1]


def test_the_first_process_gives_parameters_and_buffers() -> None:
    for rank, found in enumerate(of_two()["broadcasts"]):
        assert [[5.0, 5.0], [1.0, 1.0], [2.0, 2.0], [2.0 + rank] * 2] == found


def test_copies_average_too() -> None:
    for found in of_two()["copies"]:
        assert [[[0.5, 0.5]]] * 2 == found


def test_gradients_with_a_history_are_averaged_with_a_warning() -> None:
    for told, gradient in of_two()["gradients_of_gradients"]:
        assert any("not averaged" in text for text in told)
        assert np.isfinite(gradient).all()


def test_who_waits_in_vain_is_told_so() -> None:
    first, second = of_two()["nobody_comes"]
    assert ("came not",) == second
    assert "DistBackendError" in first and "not done after 0.5 s" in first[-1]


def test_an_early_end_can_be_an_error_everywhere() -> None:
    for raised in of_two()["early_end_is_an_error"]:
        assert "exhausted inputs" in raised[-1]


def test_several_modules_end_together() -> None:
    """One step with both ranks, of gradient 1; one with half of that."""
    assert [[-0.5, -0.5]] * 2 == of_two()["two_joined"]


@pytest.mark.parametrize("name", ["power", "batched power"])
def test_power_sgd_of_full_rank_is_the_average(name: str) -> None:
    for found, expected in of_two()[name]:
        for gradient, average in zip(found, expected, strict=True):
            np.testing.assert_allclose(gradient, average, rtol=1e-5, atol=1e-8)


def test_power_sgd_gives_all_processes_one_matrix_of_low_rank() -> None:
    (first, exact), (second, _) = of_two()["thin power"]
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_allclose(first[1], exact[1], rtol=1e-12)
    assert 1 == np.linalg.matrix_rank(first[0], tol=1e-10)
    assert np.linalg.norm(first[0] - exact[0]) < 2 * np.linalg.norm(exact[0])


def test_gradients_may_travel_as_small_numbers() -> None:
    (ours, small), (others, _) = of_two()["by_wrapped_power_sgd"]
    for mine, other, coarse in zip(ours, others, small, strict=True):
        np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(mine, coarse, rtol=0.05, atol=1e-3)


def test_models_are_averaged_after_local_steps() -> None:
    """Gradients are -0.5 on both ranks for two steps, then 0 and -1; models are averaged after the
    third and the fifth step."""
    first, second = of_two()["by_local_sgd"]
    assert [[0.5, 1.0, 1.5, 1.5, 2.5], 5] == first
    assert [[0.5, 1.0, 1.5, 2.5, 2.5], 5] == second


def test_evaluation_in_between_changes_nothing_and_nothing_is_left() -> None:
    assert [[0.5, {}]] * 2 == of_two()["evaluated_in_between"]


def test_samplers_of_all_processes_cover_an_epoch() -> None:
    first, second = of_two()["epochs"]
    for mine, other in zip(first, second, strict=True):
        assert len(mine) == len(other) == 4
        assert set(range(7)) == {*mine, *other}
    assert first[0] != first[1]


def test_batches_are_normalised_as_one() -> None:
    """Values, gradients and running statistics; batches of 2 and 4."""
    x = dj.tensor(np.random.default_rng(0).standard_normal((6, 3))).requires_grad_()
    layer = dj.nn.BatchNorm1d(3, momentum=None, affine=False).double()
    y = layer(x)
    (y * dj.arange(3.0).double() * y.detach().sin()).sum().backward()
    expected = [y.detach().numpy(), x.grad.numpy(), layer.running_var.numpy()]
    evaluated = layer.eval()(x).detach().numpy()
    found = of_two()["normalised_over_processes"]
    for place in (0, 1):
        both = np.concatenate([of_rank[place] for of_rank in found])
        np.testing.assert_allclose(both, expected[place], rtol=1e-9, atol=1e-12)
    for of_rank in found:
        np.testing.assert_allclose(of_rank[2], expected[2], rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([f[3] for f in found]), evaluated, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate([f[4] for f in found]), expected[0], atol=5e-3)


def averaged_in_steps() -> list[float]:
    """A parameter that is this rank's place before each step."""
    averager = HierarchicalModelAverager({1: 2, 2: 4}, warmup_steps=1)
    parameter = dj.nn.Parameter(dj.zeros(1))
    parameter.grad = dj.zeros(1)
    found = []
    for _ in range(4):
        parameter.data.fill_(float(dist.get_rank()))
        averager.average_parameters([parameter])
        found.append(float(parameter.detach()))
    return found


def states_sent() -> list[float]:
    """Those of rank 2, but for what stays."""
    module = dj.nn.BatchNorm1d(1)
    for value in (*module.parameters(), module.running_mean, module.running_var):
        value.data.fill_(float(dist.get_rank()))
    utils._sync_module_states(module, None, 1 << 20, 2, {"bias", "running_var"})
    return [float(value) for value in (*module.parameters(), *list(module.buffers())[:2])]


def test_groups_within_four_processes() -> None:
    functions = [within_a_group, averaged_in_steps, states_sent]
    within, steps, states = on_ranks(functions, 4)
    assert [1.0, 2.0, 1.0, 2.0] == within
    for rank, found in enumerate(steps):
        assert [rank, 1.5, 0.5 + rank // 2 * 2, 1.5] == found
    for rank, found in enumerate(states):
        assert [2.0, rank, 2.0, rank] == found


FAILING = """
import dynajit as dj, dynajit.distributed as dist
from dynajit.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
module = DistributedDataParallel(dj.nn.Linear(2, 2))
def fails(gradient):
    raise ValueError("the program's own")
result = module(dj.ones(1, 2))
if dist.get_rank() == 1:
    if {in_forward}:
        fails(None)
    result.register_hook(fails)
result.sum().backward()
module(dj.ones(1, 2)).sum().backward()
"""


@pytest.mark.parametrize("in_forward", [True, False])
def test_an_error_of_one_process_ends_all(in_forward: bool, tmp_path: Path) -> None:
    starter = mpiexec()
    if starter is None:
        pytest.skip("mpi4py or mpiexec is not installed: pip install mpi4py mpich")
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(in_forward=in_forward))
    ended = subprocess.run(
        [starter, "-n", "2", sys.executable, str(script)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "ValueError: the program's own" in ended.stderr
