"""A group of one process: answers, copies and errors of PyTorch's Gloo backend."""

import copy
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.futures import Future
from dynajit.nn.parallel import DistributedDataParallel
from dynajit.utils.data.distributed import DistributedSampler


@pytest.fixture
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", world_size=1, rank=0)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    if dist.is_initialized():
        dist.destroy_process_group()


# What is tried with either library: `m` is the module `distributed`, `t` its package.
def gathered(m: Any, t: Any) -> Any:
    output = [t.zeros(3)]
    m.all_gather(output, t.arange(3.0))
    return output[0]


def gathered_at_the_root(m: Any, t: Any) -> Any:
    output = [t.zeros(3)]
    m.gather(t.arange(3.0), output, dst=0)
    return output[0]


def written(name: str, *arguments: Any, **options: Any) -> Callable[[Any, Any], Any]:
    """A call that writes into its first argument, zeros of three elements."""

    def call(m: Any, t: Any) -> Any:
        output = t.zeros(3)
        given = [a(t) if callable(a) else a for a in arguments]
        getattr(m, name)(output, *given, **options)
        return output

    return call


def kept(name: str, *arguments: Any, op: str = "SUM", kind: str = "float32") -> Any:
    """A call that leaves its argument alone."""

    def call(m: Any, t: Any) -> Any:
        tensor = t.ones(3, dtype=getattr(t, kind))
        options = {} if name == "broadcast" else {"op": getattr(m.ReduceOp, op)}
        getattr(m, name)(tensor, *arguments, **options)
        return tensor

    return call


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "all_gather": gathered,
    "gather": gathered_at_the_root,
    "all_gather_into_tensor": written("all_gather_into_tensor", lambda t: t.arange(3.0)),
    "all_gather_into_tensor of another size": written(
        "all_gather_into_tensor", lambda t: t.arange(4.0)
    ),
    "all_gather_into_tensor of another dtype": written(
        "all_gather_into_tensor", lambda t: t.arange(3)
    ),
    "reduce_scatter": written("reduce_scatter", lambda t: [t.arange(3.0)]),
    "reduce_scatter of two": written("reduce_scatter", lambda t: [t.arange(3.0)] * 2),
    "reduce_scatter of another size": written("reduce_scatter", lambda t: [t.arange(2.0)]),
    "reduce_scatter_tensor": written("reduce_scatter_tensor", lambda t: t.arange(3.0)),
    "reduce_scatter_tensor of another size": written(
        "reduce_scatter_tensor", lambda t: t.arange(4.0)
    ),
    "scatter": written("scatter", lambda t: [t.arange(3.0)], src=0),
    "scatter of nothing": written("scatter"),
    "scatter of two": written("scatter", lambda t: [t.arange(3.0)] * 2, src=0),
    "all_to_all_single": written("all_to_all_single", lambda t: t.arange(3.0)),
    "all_to_all_single of parts": written("all_to_all_single", lambda t: t.arange(3.0), [3], [3]),
    "all_to_all_single of less": written("all_to_all_single", lambda t: t.arange(3.0), [1], [1]),
    "all_gather of two": lambda m, t: m.all_gather([t.ones(3)] * 2, t.ones(3)),
    "all_gather of another dtype": lambda m, t: m.all_gather([t.ones(3)], t.arange(3)),
    "gather of nothing": lambda m, t: m.gather(t.ones(3)),
    "all_reduce of a number": lambda m, t: m.all_reduce(1),
    "all_reduce of a list": lambda m, t: m.all_reduce([t.ones(3)]),
    "all_reduce by text": lambda m, t: m.all_reduce(t.ones(3), "sum"),
    "broadcast": kept("broadcast", 0),
    "broadcast from elsewhere": kept("broadcast", 1),
    "broadcast from nowhere": lambda m, t: m.broadcast(t.ones(3)),
    "reduce to elsewhere": kept("reduce", 1),
    "reduce": kept("reduce", 0),
    "new_group": lambda m, t: t.tensor(m.get_world_size(m.new_group([0]))),
    "new_group of two": lambda m, t: m.new_group([0, 1]),
    "new_group elsewhere": lambda m, t: m.new_group([1]),
    "barrier": lambda m, t: t.tensor(m.barrier() is None),
    "twice": lambda m, t: m.init_process_group("gloo", rank=0, world_size=1),
    "outside": lambda m, t: t.tensor(m.get_rank(m.GroupMember.NON_GROUP_MEMBER)),
    **{
        f"all_reduce {op} of {kind}": kept("all_reduce", op=op, kind=kind)
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
        for kind in ("float32", "int64", "bool", "complex64")
        if (op, kind) not in {("AVG", "bool"), ("AVG", "complex64"), ("PRODUCT", "complex64")}
    },
}


@pytest.fixture(scope="module")
def pytorch() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    there = importlib.import_module("torch.distributed")
    if not there.is_available() or not there.is_gloo_available():
        pytest.skip("this PyTorch was built without Gloo")
    store = there.HashStore()
    there.init_process_group("gloo", store=store, world_size=1, rank=0)
    yield there, torch
    there.destroy_process_group()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("name", CALLS)
def test_calls_give_and_raise_what_pytorch_does(name: str, pytorch: Any) -> None:
    call = CALLS[name]
    try:
        expected = call(*pytorch)
    except (ValueError, TypeError, RuntimeError) as refused:
        kind = next(k for k in (ValueError, TypeError, RuntimeError) if isinstance(refused, k))
        with pytest.raises(kind):
            call(dist, dj)
        return
    found = call(dist, dj)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]


def test_without_a_group_calls_raise_value_errors() -> None:
    """As PyTorch's, with its text."""
    x = dj.ones(2)
    calls = [
        dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend, dist.new_group,
        lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0), lambda: dist.all_gather([x], x),
        lambda: dist.all_gather_object([None], 1), lambda: dist.nn.all_reduce(x),
        lambda: DistributedDataParallel(dj.nn.Linear(1, 1)), lambda: DistributedSampler([1]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    assert not dist.is_initialized()
    assert dist.group.WORLD is None
    with pytest.raises(AssertionError):
        dist.destroy_process_group()


def test_a_group_answers() -> None:
    """Until it is destroyed."""
    dist.init_process_group(backend="nccl", init_method="tcp://localhost:1?rank=0&world_size=1")
    group = dist.new_group()
    assert (0, 1, True, "nccl") == (
        dist.get_rank(), dist.get_world_size(), dist.is_initialized(), dist.get_backend(),
    )  # fmt: skip
    assert (0, 1, [0]) == (group.rank(), group.size(), dist.get_process_group_ranks(group))
    assert dist.group.WORLD is dist.GroupMember.WORLD
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match="not registered"):
        dist.get_rank(group)
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_more_processes_than_were_started_are_refused() -> None:
    """By a process of its own: MPI starts when it is asked, and not twice. Who has an address waits
    for others there."""
    pytest.importorskip("mpi4py")
    program = """
import datetime
import dynajit.distributed as dist
alone = {"init_method": "tcp://localhost:1?rank=1&world_size=2"}
alone["timeout"] = datetime.timedelta(seconds=0.2)
for options in (alone, {}, {"world_size": 8, "rank": 0}):
    try:
        dist.init_process_group("gloo", **options)
    except RuntimeError as error:
        print(error)
print(dist.is_initialized())
"""
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    alone, *lines = ended.stdout.splitlines()
    assert 3 == len(lines), ended.stderr
    assert alone.startswith("TCPStore('localhost', 1): no server answers within 0.2 s")
    for size, line in zip((2, 8), lines[:2], strict=True):
        assert line.startswith(f"init_process_group(world_size={size}): MPI started 1 process.")
        assert f"--nproc-per-node {size}" in line
    assert "False" == lines[2]


@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_that_is_not_in_the_group_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank={rank}.*from 0 to 0"):
        dist.init_process_group("gloo", world_size=1, rank=rank)
    assert not dist.is_initialized()


def test_the_environment_says_how_many_processes_there_are(environment: Any) -> None:
    """Else it is asked for."""
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="rank parameter missing"):
        dist.init_process_group("gloo", init_method="file:///tmp/nothing", world_size=1)
    environment.setenv("RANK", "0")
    environment.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo")
    assert 1 == dist.get_world_size()
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        dist.get_node_local_rank()
    environment.setenv("LOCAL_RANK", "0")
    assert 0 == dist.get_node_local_rank()


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(AssertionError, match="smoke"):
        dist.init_process_group("smoke", world_size=1, rank=0)


@pytest.mark.usefixtures("one_process")
def test_objects_are_copied() -> None:
    sent = {"a": [1, 2]}
    for call in (
        lambda places: dist.all_gather_object(places, sent),
        lambda places: dist.gather_object(sent, places, dst=0),
        lambda places: dist.scatter_object_list(places, [sent], src=0),
    ):
        places: list[Any] = [None]
        call(places)
        assert [sent] == places
        assert places[0] is not sent
    dist.broadcast_object_list([sent], src=0)
    with pytest.raises(IndexError):
        dist.all_gather_object([], sent)


@pytest.mark.usefixtures("one_process")
def test_collectives_of_nn_keep_gradients() -> None:
    """The others do not."""
    x = dj.arange(3.0, requires_grad=True)
    (dist.nn.all_reduce(x * 2) + dist.nn.all_gather(x)[0]).sum().backward()
    assert [3.0] * 3 == x.grad.tolist()

    output = dj.zeros(3)
    dist.all_gather_into_tensor(output, x)
    assert not output.requires_grad


@pytest.mark.usefixtures("one_process")
def test_asynchronous_calls_are_done() -> None:
    x = dj.ones(2)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert work.result()[0] is x


def averaged(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y / dist.get_world_size()


def joined(x: Any) -> Any:
    parts = [dj.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return dj.cat(parts) * 2


def scattered(x: Any) -> Any:
    output = dj.empty_like(x)
    dist.reduce_scatter_tensor(output, x, group=dist.group.WORLD)
    dist.broadcast(output, src=0)
    dist.barrier()
    return dist.nn.all_reduce(output + dist.get_rank())


def waited(x: Any) -> Any:
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x * 3


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("function", [averaged, joined, scattered, waited])
def test_collectives_are_captured_in_one_graph(function: Any) -> None:
    x = dj.arange(4.0)
    compiled = dj.compile(function, fullgraph=True)
    assert function(x).tolist() == compiled(x).tolist()


def test_compiled_code_sees_whether_there_is_a_group() -> None:
    """By a guard."""

    def program(x: Any) -> Any:
        if dist.is_available() and dist.is_initialized():
            return x * (dist.get_rank() + 2)
        return x

    compiled = dj.compile(program, fullgraph=True)
    x = dj.ones(2)
    assert [1.0, 1.0] == compiled(x).tolist()
    dist.init_process_group("gloo", rank=0, world_size=1)
    assert [2.0, 2.0] == compiled(x).tolist()
    dist.destroy_process_group()
    assert [1.0, 1.0] == compiled(x).tolist()


def _doubled(bucket: Any) -> Any:
    future: Any = Future()
    future.set_result(bucket.buffer() * 2)
    return future


@pytest.mark.usefixtures("one_process")
def test_distributed_data_parallel_is_its_module() -> None:
    """With the prefix of its parameters; a training step is the module's."""
    inner = dj.nn.Linear(3, 2)
    outer = DistributedDataParallel(inner, find_unused_parameters=True)
    x = dj.ones(4, 3)

    assert ["module.weight", "module.bias"] == list(outer.state_dict())
    assert outer.module is inner
    for call in (outer, dj.compile(outer, fullgraph=True)):
        inner.zero_grad()
        with outer.no_sync():
            assert not outer.require_backward_grad_sync
            call(x).sum().backward()
        assert outer.require_backward_grad_sync
        np.testing.assert_allclose(inner.weight.grad.numpy(), np.full((2, 3), 4.0))
    outer.load_state_dict(outer.state_dict())
    with outer.join():
        pass
    with pytest.raises(TypeError, match="must be callable"):
        outer.register_comm_hook(None, None)
    outer.register_comm_hook(None, lambda state, bucket: _doubled(bucket))
    inner.zero_grad()
    outer(x).sum().backward()
    np.testing.assert_allclose(inner.weight.grad.numpy(), np.full((2, 3), 8.0))
    with pytest.raises(ValueError, match="device_ids"):
        DistributedDataParallel(inner, device_ids=[0])
    with pytest.raises(RuntimeError, match="not needed"):
        DistributedDataParallel(dj.nn.ReLU())


@pytest.mark.usefixtures("one_process")
def test_the_sampler_asks_the_group() -> None:
    sampler = DistributedSampler([1, 2, 3], shuffle=False)
    assert (1, 0, [0, 1, 2]) == (sampler.num_replicas, sampler.rank, list(sampler))


def test_modules_are_computed_again_under_their_own_names() -> None:
    from dynajit.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        CheckpointImpl,
        CheckpointWrapper,
        apply_activation_checkpointing,
        checkpoint_wrapper,
        offload_wrapper,
    )

    plain = dj.nn.Sequential(dj.nn.Linear(2, 2), dj.nn.Tanh(), dj.nn.Linear(2, 1))
    wrapped = copy.deepcopy(plain)
    apply_activation_checkpointing(
        wrapped, check_fn=lambda module: isinstance(module, dj.nn.Linear)
    )
    assert [True, False, True] == [isinstance(m, CheckpointWrapper) for m in wrapped]
    assert list(plain.state_dict()) == list(wrapped.state_dict())
    assert not wrapped.load_state_dict(plain.state_dict()).missing_keys
    x = dj.ones(3, 2)
    for module in (plain, wrapped):
        module(x).sum().backward()
    for expected, actual in zip(plain.parameters(), wrapped.parameters(), strict=True):
        assert expected.grad.tolist() == actual.grad.tolist()
    named = checkpoint_wrapper(dj.nn.Bilinear(2, 2, 1), CheckpointImpl.REENTRANT)
    x.requires_grad_()
    named(x, input2=x).sum().backward()
    assert x.grad is not None
    assert offload_wrapper(plain)(x).shape == (3, 1)
    assert named.in1_features == 2


def test_nobody_is_waited_for_where_inputs_are_uneven() -> None:
    from dynajit.distributed.algorithms.join import Join, Joinable, JoinHook

    seen = []

    class Hook(JoinHook):
        def post_hook(self, is_last_joiner: bool) -> None:
            seen.append(is_last_joiner)

    class Part(Joinable):
        def join_hook(self, **kwargs: Any) -> JoinHook:
            return Hook()

        @property
        def join_device(self) -> Any:
            return dj.device("cpu")

        @property
        def join_process_group(self) -> Any:
            return None

    with Join([Part()]):
        Join.notify_join_context(None)
    with pytest.raises(ValueError):
        Join([])
    with pytest.raises(KeyError), Join([Part()]):
        raise KeyError
    assert [True] == seen


def test_policies_say_which_modules_would_be_sharded() -> None:
    from dynajit.distributed.fsdp import MixedPrecision, wrap

    linear = dj.nn.Linear(2, 2)
    options = {"recurse": False, "nonwrapped_numel": 6}
    assert wrap.lambda_auto_wrap_policy(linear, lambda_fn=lambda m: m is linear, **options)
    assert wrap.transformer_auto_wrap_policy(
        linear, transformer_layer_cls={dj.nn.Linear}, **options
    )
    assert not wrap.size_based_auto_wrap_policy(linear, min_num_params=7, **options)
    assert wrap.ModuleWrapPolicy([dj.nn.Linear])(linear, False)
    assert wrap._or_policy(linear, policies=[lambda **named: True], **options)
    assert MixedPrecision(param_dtype=dj.bfloat16).param_dtype is dj.bfloat16


def test_the_older_name_of_reduceop_warns() -> None:
    with pytest.warns(FutureWarning, match="reduce_op` is deprecated"):
        assert dist.ReduceOp.SUM is dist.reduce_op.SUM
    with pytest.warns(FutureWarning), pytest.raises(AttributeError):
        dist.reduce_op.SUMME  # type: ignore[attr-defined]
