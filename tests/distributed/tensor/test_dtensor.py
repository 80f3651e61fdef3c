"""Tensors of several processes compute what one process computes, forward and backward."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from dynajit.distributed.tensor import randn as spread_randn
from dynajit.distributed.tensor.placement_types import _StridedShard
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

F = dj.nn.functional


def drawn(*shape: int) -> Any:
    return dj.from_numpy(np.random.default_rng(shape).standard_normal(shape))


def attention(x: Any) -> Any:
    q = x.view(2, 6, 4, 3).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True)
    return out.transpose(1, 2).contiguous().view(2, 6, 12)


CASES: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).sigmoid() - x.exp() / 3,
    "by itself": lambda x: x * x.mean(1, keepdim=True),
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(0),
    "norms": lambda x: F.layer_norm(x, (12,)) + F.rms_norm(x, (12,)) + x.norm(),
    "product": lambda x: x @ x.transpose(1, 2),
    "product with a matrix": lambda x: x @ x[0].T,
    "linear": lambda x: F.linear(x, x[0], x[1, :, 0]),
    "attention": attention,
    "split": lambda x: dj.cat([part * n for n, part in enumerate(x.chunk(3, 2))], 1),
    "stack": lambda x: dj.stack([x, x.square()], 1).flatten(0, 1),
    "views": lambda x: x.permute(2, 0, 1)[1:, :, ::2].unsqueeze(1).expand(11, 2, 2, 3).flatten(1),
    "rows": lambda x: x.view(-1, 12)[(x.detach()[0, :3, 0] > 0).long() * 3],
    "extremes": lambda x: x.amax(1) + x.min(1)[0] + x.max(),
    "choice": lambda x: dj.where(x > 0, x, 0.1 * x).clamp(-1, 1).cumsum(1),
    "triangle": lambda x: x.tril() + x.flip(0),
    "losses": lambda x: F.mse_loss(x, x.detach() * 2) + F.cross_entropy(
        x[0], (x.detach()[1].argmax(1))),
    "embedding": lambda x: F.embedding((x.detach()[0, :, :3] > 0).long() * 4, x[1]),
    "in place": lambda x: (x + 0).mul_(2).add_(x, alpha=3).relu_(),
}  # fmt: skip

PLACED = ([Shard(0)], [Shard(1)], [Shard(2)], [Replicate()], [Partial()])
PLACED_ON_A_GRID = (
    [Shard(0), Shard(1)], [Shard(2), Shard(2)], [Replicate(), Shard(1)], [Partial(), Shard(2)],
    [_StridedShard(2, split_factor=2), Shard(2)],
)  # fmt: skip


def as_placed(x: Any, mesh: Any, placements: Any) -> Any:
    """A leaf of a whole tensor, and a DTensor made of it."""
    leaf = x.clone().requires_grad_()
    whole = DTensor.from_local(leaf, mesh)
    return leaf, whole.redistribute(placements=placements)


def differences(shape: tuple[int, ...], placed: Any) -> dict[str, float]:
    """The largest difference from one process, of results and of gradients, by case."""
    mesh = init_device_mesh("cpu", shape)
    found = {}
    for name, function in CASES.items():
        x = drawn(2, 6, 12)
        alone = x.clone().requires_grad_()
        expected = function(alone)
        weights = drawn(*expected.shape)
        (expected * weights).sum().backward()
        for placements in placed:
            leaf, spread = as_placed(x, mesh, placements)
            result = function(spread)
            assert isinstance(result, DTensor) and result.shape == expected.shape
            (result * distribute_tensor(weights, mesh)).sum().backward()
            errors = (
                (result.full_tensor() - expected).abs().max(),
                (leaf.grad - alone.grad).abs().max(),
            )
            found[f"{name} {placements}"] = max(map(float, errors))
    return found


def uneven() -> list[Any]:
    """Sizes that processes do not divide, and fewer elements than processes."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found = []
    for size in (1, 2, 3, 5, 7):
        whole = drawn(size, 3)
        x = distribute_tensor(whole, mesh, [Shard(0)])
        turned = x.redistribute(placements=[Shard(1)]).redistribute(placements=[Shard(0)])
        summed = x.sum(0).full_tensor() - whole.sum(0)
        found += [
            bool((x.full_tensor() == whole).all()),
            bool((turned.full_tensor() == whole).all()),
            float(summed.abs().max()) < 1e-14,
            tuple(x.to_local().shape),
        ]
    return found


def moves() -> list[bool]:
    """From any placements of a grid to any others."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2))
    whole = drawn(5, 7)
    kinds = (Shard(0), Shard(1), Replicate(), Partial())
    placements = [[a, b] for a in kinds for b in kinds if (a, b) != (Partial(), Replicate())]
    placements.append([_StridedShard(0, split_factor=2), Shard(0)])
    found = []
    for before in placements:
        x = distribute_tensor(whole, mesh).redistribute(placements=before)
        for after in placements:
            moved = x.redistribute(placements=after)
            assert moved.placements == tuple(after)
            found.append(bool((moved.full_tensor() - whole).abs().max() < 1e-14))
    return found


def drawn_numbers() -> tuple[Any, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    dj.manual_seed(3)
    spread = spread_randn(5, 4, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
    dropped = F.dropout(distribute_tensor(dj.ones(6, 5), mesh, [Shard(1)]), 0.5).full_tensor()
    dj.manual_seed(3)
    expected = dj.randn(5, 4), F.dropout(dj.ones(6, 5), 0.5)
    return bool((spread == expected[0]).all()), bool((dropped == expected[1]).all())


@functools.cache
def on_two() -> list[list[Any]]:
    """By rank, of one job."""
    on_a_line = functools.partial(differences, (2,), PLACED)
    return on_ranks([on_a_line, uneven, drawn_numbers, written, refusals], 2)


def test_tensors_on_two_processes_compute_as_one() -> None:
    found, sizes, numbers, writes, _ = on_two()
    assert not isinstance(found[0], Raised), found[0]
    assert {} == {name: error for name, error in found[0].items() if not error < 1e-10}
    for results in (*sizes, *numbers, *writes):
        assert not isinstance(results, Raised), results
        assert all(results), results


def written() -> list[bool]:
    """What in-place methods do to views and aliases, and to what is saved for backward."""
    mesh = init_device_mesh("cpu", (2,))
    whole = drawn(4, 6)

    def column(x: Any) -> None:
        x[:, 1:3].mul_(2)
        x[:, 0] = 5

    def masked(x: Any) -> None:
        x[x > 0.5] = 0

    def turned(x: Any) -> None:
        x.t().add_(1)
        x.view(-1).neg_()

    found = []
    for write in (column, masked, turned):
        plain, spread = whole.clone(), distribute_tensor(whole, mesh, [Shard(0)])
        write(plain)
        write(spread)
        found.append(bool((spread.full_tensor() == plain).all()))
    everywhere = distribute_tensor(whole, mesh)
    everywhere.redistribute(placements=[Shard(0)]).add_(1)
    found.append(bool((everywhere.to_local() == whole).all()))
    part = dj.ones(2, 3).requires_grad_() * 1
    spread = DTensor.from_local(part, mesh, [Shard(0)])
    loss = (spread * spread).sum()
    with dj.no_grad():
        part.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(NotImplementedError, match="chosen by a tensor"):
        everywhere[distribute_tensor(dj.tensor([0, 2]), mesh)] = 5
    return found


def test_tensors_on_a_grid_compute_as_one() -> None:
    on_a_grid = functools.partial(differences, (2, 2), PLACED_ON_A_GRID)
    found, moved, sizes = on_ranks([on_a_grid, moves, uneven], 4)
    assert not isinstance(found[0], Raised), found[0]
    assert {} == {name: error for name, error in found[0].items() if not error < 1e-10}
    assert all(moved[0]), moved[0]
    assert [(1, 3), (0, 3), (0, 3), (0, 3)] == [results[3] for results in sizes]


def refusals() -> list[tuple[str, str]]:
    """What is refused, as (classes, message)."""
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    other = init_device_mesh("cpu", (1, size))
    x = distribute_tensor(drawn(4, 4), mesh, [Shard(0)])
    calls: list[Callable[[], Any]] = [
        lambda: distribute_tensor(drawn(4), mesh, [Shard(1)]),
        lambda: distribute_tensor(drawn(4), mesh, [Shard(0), Shard(0)]),
        lambda: distribute_tensor(drawn(4), mesh, Shard(0)),
        lambda: distribute_tensor(drawn(4), mesh, [Partial()]),
        lambda: distribute_tensor(x, mesh, [Replicate()]),
        lambda: x + drawn(4, 4),
        lambda: x + distribute_tensor(drawn(4, 4), other),
        lambda: x.redistribute(placements=[Shard(2)]),
        lambda: x.redistribute(other, [Shard(0), Shard(0)]),
        lambda: x.numpy(),
        lambda: DTensor.from_local(drawn(3, 4), mesh, [Shard(0)], shape=(4, 4)),
        lambda: x[0].add_(1),
        lambda: x.view(3, 5),
        lambda: DTensor.from_local(drawn(3), None, [Shard(0)]),
    ]
    found = []
    for call in calls:
        try:
            found.append((repr(call()), "no error"))
        except Exception as error:
            kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
            found.append((kinds, str(error)))
    return found


def test_what_does_not_fit_is_refused() -> None:
    *_, (found, _) = on_two()
    expected = [
        ("IndexError", "a dim from -1 to 0"),
        ("ValueError", "same length as `device_mesh.ndim`"),
        ("TypeError", "Expected a sequence"),
        ("RuntimeError", "unsupported placements"),
        ("ValueError", "`redistribute` instead"),
        ("RuntimeError", "got mixed torch.Tensor and DTensor"),
        ("NotImplementedError", "cross-mesh"),
        ("IndexError", "a dim from -2 to 1"),
        ("NotImplementedError", "Cross device mesh"),
        ("NotImplementedError", "full_tensor()"),
        ("RuntimeError", "means (2, 4)"),
        ("NotImplementedError", "had to be sent"),
        ("RuntimeError", "invalid for input of size 16"),
        ("RuntimeError", "No device mesh is currently active"),
    ]
    assert not isinstance(found, Raised), found
    for (kind, text), (kinds, message) in zip(expected, found, strict=True):
        assert kind in kinds.split() and text in message, (kinds, message)
