"""Calls of sharded modules: memory, recomputation, accumulation, and what is refused."""

import functools
import weakref
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit import nn
from dynajit.distributed.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from dynajit.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from dynajit.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from dynajit.distributed.tensor import DTensor
from tests.distributed.sharding.models import (
    adamw,
    averaged,
    batch,
    loss_of,
    made,
    own_part,
    plain_run,
    sharded_in_place,
    train,
    whole_parameters,
)
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python


def memory_after_forward(is_compiled: bool) -> tuple[list[bool], list[bool], list[int]]:
    """Whether the gathered memory of each block is there after forward, and after backward; how
    many blocks' was at the end of each block's call."""
    model: Any = made("gpt")
    gathered: list[Any] = []
    alive = []

    def look(block: Any, args: Any, result: Any) -> None:
        gathered.append(weakref.ref(block._sharded_state.units[0].full.array))
        alive.append(sum(one() is not None for one in gathered))

    for block in model.blocks:
        if is_compiled:
            block.forward = dj.compile(block.forward)
        fully_shard(block)
        block.register_forward_hook(look)
    fully_shard(model)
    x, y = batch("gpt", 0)
    loss = loss_of(model, x, y)
    after_forward = [one() is not None for one in gathered]
    loss.backward()
    return after_forward, [one() is not None for one in gathered], alive


def recomputed_runs() -> dict[str, Any]:
    """With blocks that are computed again, within sharded modules and around them."""
    found = {"plain": plain_run("gpt")}
    for kind in CheckpointImpl:
        for is_inside in (False, True):
            model: Any = made("gpt")
            for place, block in enumerate(model.blocks):
                if is_inside:
                    block = fully_shard(checkpoint_wrapper(block, kind))
                else:
                    block = checkpoint_wrapper(fully_shard(block), kind)
                model.blocks[place] = block
            fully_shard(model)
            found[f"{kind.name} {is_inside}"] = train("gpt", model, adamw(model))
    return found


def accumulated() -> tuple[bool, list[Any], list[Any]]:
    """Gradients of two batches of which the second one is reduced; whether the first left any."""
    plain, model = made("mlp"), sharded_in_place("mlp", True)
    for step in range(2):
        x, y = map(own_part, batch("mlp", step))
        loss_of(plain, x, y).backward()
        model.set_requires_gradient_sync(step == 1)
        loss_of(model, x, y).backward()
        if step == 0:
            early = any(p.grad is not None for p in model.parameters())
    averaged(plain)
    whole = [p.grad.full_tensor() for p in model.parameters()]
    return early, [p.grad.numpy() for p in plain.parameters()], [x.numpy() for x in whole]


def unused_and_frozen() -> list[Any]:
    """Which gradients there are where a layer is frozen, one is used by the first rank alone, and
    one by none."""
    model = nn.ModuleDict({name: nn.Linear(3, 3) for name in ("frozen", "some", "none", "all")})
    model["frozen"].requires_grad_(False)
    layers = dict(model.items())

    def forward(x: Any) -> Any:
        x = layers["all"](layers["frozen"](x))
        return layers["some"](x) if dist.get_rank() == 0 else x

    model.forward = forward  # type: ignore[method-assign]
    fully_shard(model)
    model(dj.ones(2, 3)).sum().backward()
    return [(name, p.grad is None, p.numel()) for name, p in model.named_parameters()]


class Two(nn.Module):
    """A module with a method beside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.inner(x)

    def encode(self, x: Any) -> Any:
        """What forward does."""
        return self.inner(x) + 1


def _message(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def refusals() -> dict[str, str]:
    """What is said of uses that would compute with parts, or with values of before."""
    model: Any = fully_shard(Two())
    x = dj.ones(2, 4)
    found = {"part": _message(lambda: model.inner(x)), "method": _message(lambda: model.encode(x))}
    register_fsdp_forward_method(model, "encode")
    found["registered"] = _message(lambda: model.encode(x))
    loss = model(x).tanh().sum()
    dj.optim.SGD(model.parameters(), lr=1.0).step()
    for p in model.parameters():
        p.grad = dj.ones_like(p)
    dj.optim.SGD(model.parameters(), lr=1.0).step()
    found["stepped"] = _message(lambda: dj.autograd.grad(loss, list(model.parameters())))
    found["twice"] = _message(lambda: fully_shard(model))
    with dj.device("meta"):
        empty = fully_shard(Two())
    found["meta"] = _message(lambda: empty(x))
    kept = fully_shard(Two())
    state = model.state_dict()
    found["raised"] = _message(lambda: kept(dj.ones(2, 3)))
    found["afterwards"] = _message(lambda: kept(x))
    written = dj.ones(2, 4, requires_grad=True) * 1
    result = _Writes(written).apply_to(fully_shard(Two()))
    found["written"] = _message(lambda: result.sum().backward())
    assert list(state) == ["inner.weight", "inner.bias"]
    return found


class _Writes:
    """Writes to what a sharded module saved."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def apply_to(self, model: Any) -> Any:
        """The result of a model that has saved x."""
        result = model(self.x)
        self.x.mul_(2)
        return result


def initial_values() -> tuple[list[Any], list[Any]]:
    """Of a module that was made on meta, and of one that was not."""
    dj.manual_seed(3)
    plain = Two()
    with dj.device("meta"):
        model = Two()
    fully_shard(model)
    model.to_empty(device="cpu")
    dj.manual_seed(3)
    model.inner.reset_parameters()
    return [p.detach().numpy() for p in plain.parameters()], whole_parameters(model)


def mixed() -> tuple[Any, ...]:
    """Dtypes of a result, and of gradients; the parameters of a module in bfloat16 meanwhile."""
    policy = MixedPrecisionPolicy(dj.bfloat16, dj.float32, dj.float32)
    model: Any = Two()
    seen = []
    model.inner.register_forward_pre_hook(
        lambda module, args: seen.append((str(module.weight.dtype), str(args[0].dtype)))
    )
    fully_shard(model, mp_policy=policy)
    result = model(dj.ones(2, 4))
    result.sum().backward()
    gradient = model.inner.weight.grad
    return seen, str(result.dtype), str(gradient.dtype), str(model.inner.weight.dtype)


def read_by_hand() -> tuple[Any, ...]:
    """Whether a parameter is a DTensor before, within and after `unshard`; shapes of parts."""
    model: Any = fully_shard(Two())
    found = []
    for change in (lambda: None, model.unshard, model.reshard):
        change()
        weight = model.inner.weight
        is_spread = isinstance(weight, DTensor)
        part = weight.to_local() if is_spread else weight
        found.append((is_spread, tuple(weight.shape), tuple(part.shape)))
    return tuple(found)


def scaled() -> tuple[Any, ...]:
    """Whether a step was made, and the scale afterwards, where one process's gradient is not
    finite, and where none is."""
    found = []
    for bad in (True, False):
        model: Any = fully_shard(Two())
        optimizer = dj.optim.SGD(model.parameters(), lr=1.0)
        scaler = ShardedGradScaler("cpu", init_scale=4.0)
        before = whole_parameters(model)
        scaler.scale(model(dj.ones(2, 4)).sum()).backward()
        if bad and dist.get_rank() == 1:
            model.inner.weight.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        is_same = all(map(np.array_equal, before, whole_parameters(model)))
        found.append((is_same, scaler.get_scale()))
    return tuple(found)


def crossed() -> str:
    """What is said where processes call two alike modules in different orders."""
    first, second = (nn.Linear(4, 4) for _ in range(2))
    model: Any = nn.Sequential(first, second)
    layers = [first, second] if dist.get_rank() == 0 else [second, first]
    model.forward = lambda x: layers[0](layers[1](x))
    fully_shard(first)
    fully_shard(second)
    fully_shard(model)
    return _message(lambda: model(dj.ones(2, 4)))


FUNCTIONS = {
    "eager": functools.partial(memory_after_forward, False),
    "compiled": functools.partial(memory_after_forward, True),
    "recomputed": recomputed_runs,
    "accumulated": accumulated,
    "unused": unused_and_frozen,
    "refusals": refusals,
    "initial": initial_values,
    "mixed": mixed,
    "by hand": read_by_hand,
    "scaled": scaled,
    "crossed": crossed,
}


@functools.cache
def results() -> dict[str, list[Any]]:
    """Of all functions, by rank, in one job."""
    found = on_ranks(list(FUNCTIONS.values()), 2)
    for by_rank in found:
        assert not any(isinstance(one, Raised) for one in by_rank), by_rank
    return dict(zip(FUNCTIONS, found, strict=True))


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_memory_is_free_between_forward_and_backward(kind: str) -> None:
    """Of every block, as soon as the next one is called; also where the block is compiled."""
    for after_forward, after_backward, alive in results()[kind]:
        assert [False, False] == after_forward
        assert [False, False] == after_backward
        assert [1, 1] == alive


def test_blocks_may_be_computed_again() -> None:
    """With the bits of data parallelism."""
    for found in results()["recomputed"]:
        losses, parameters = found.pop("plain")
        assert 4 == len(found)
        for name, (other, others) in found.items():
            assert losses == other, name
            for a, b in zip(parameters, others, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=name)


def test_gradients_add_up_without_being_reduced() -> None:
    """Whole, and are reduced together, with the bits of data parallelism."""
    for early, expected, found in results()["accumulated"]:
        assert not early
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_gradients_are_there_where_any_process_has_one() -> None:
    """And None for parameters that no process used, and for frozen ones."""
    for found in results()["unused"]:
        without = {name.partition(".")[0] for name, is_none, _ in found if is_none}
        assert {"frozen", "none"} == without


def test_parts_are_refused_where_whole_parameters_are_meant() -> None:
    """With what to do; and what was gathered before a step is not taken for what is now."""
    for found in results()["refusals"]:
        for name in ("part", "method"):
            assert "'weight' is not gathered" in found[name]
        assert "nothing" == found["registered"] == found["afterwards"]
        assert "were written while they were gathered" in found["stepped"]
        assert "sharded already" in found["twice"]
        assert "to_empty(device='cpu')" in found["meta"]
        assert found["raised"] != "nothing"
        assert "modified by an inplace operation" in found["written"]


def test_modules_from_meta_have_the_values_of_others() -> None:
    """Which `reset_parameters` draws."""
    for expected, found in results()["initial"]:
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_parameters_are_gathered_in_the_dtype_of_the_policy() -> None:
    """Gradients and parts stay in theirs."""
    for seen, result, gradient, part in results()["mixed"]:
        assert [("torch.bfloat16", "torch.bfloat16")] == [
            tuple(name.replace("dynajit", "torch") for name in one) for one in seen
        ]
        assert {"float32"} == {name.rpartition(".")[2] for name in (result, gradient, part)}


def test_parameters_are_whole_between_unshard_and_reshard() -> None:
    """Else they are DTensors, of which a process has some rows."""
    for before, within, after in results()["by hand"]:
        assert (True, (4, 4), (2, 4)) == before == after
        assert (False, (4, 4), (4, 4)) == within


def test_a_step_is_left_out_by_all_if_one_gradient_is_not_finite() -> None:
    """And the scale shrinks in all processes."""
    for found in results()["scaled"]:
        assert ((True, 2.0), (False, 4.0)) == found


def test_processes_that_call_modules_in_different_orders_are_told() -> None:
    """All of them, before anything is done with what they computed."""
    for found in results()["crossed"]:
        assert "in another order in another process" in found
