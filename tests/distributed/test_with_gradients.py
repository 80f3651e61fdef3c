"""Derivatives of collectives: those of the same computation in one process."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
import dynajit.distributed._functional_collectives as functions
import dynajit.distributed.nn.functional as kept
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

#: What each process computes of its tensor `x`, shape (size, 3), with others; a tensor, or several.
PROGRAMS: Final[dict[str, Callable[[Any, int, int], Any]]] = {
    "all_reduce": lambda x, rank, size: kept.all_reduce(x),
    "all_reduce AVG": lambda x, rank, size: kept.all_reduce(x, dist.ReduceOp.AVG),
    "all_reduce PRODUCT": lambda x, rank, size: kept.all_reduce(x, dist.ReduceOp.PRODUCT),
    "all_reduce MAX": lambda x, rank, size: kept.all_reduce(x, dist.ReduceOp.MAX),
    "all_reduce MIN": lambda x, rank, size: kept.all_reduce(x.t(), dist.ReduceOp.MIN),
    "reduce": lambda x, rank, size: kept.reduce(x, 1),
    "broadcast": lambda x, rank, size: kept.broadcast(x.t(), 1),
    "all_gather": lambda x, rank, size: kept.all_gather(x),
    "gather": lambda x, rank, size: kept.gather(x, 1),
    "scatter": lambda x, rank, size: kept.scatter([*x], 1),
    "reduce_scatter": lambda x, rank, size: kept.reduce_scatter(x[0], [*x]),
    "reduce_scatter MAX": lambda x, rank, size: kept.reduce_scatter(x[0], [*x], dist.ReduceOp.MAX),
    "all_to_all": lambda x, rank, size: kept.all_to_all([x[0]] * size, [*x]),
    "all_to_all_single": lambda x, rank, size: kept.all_to_all_single(x, x),
}


def _largest(parts: Sequence[Any]) -> Any:
    return dj.stack(list(parts)).amax(0)


#: The same of all tensors at once, by rank.
SIMULATED: Final[dict[str, Callable[[list[Any], int, int], Any]]] = {
    "all_reduce": lambda xs, rank, size: sum(xs),
    "all_reduce AVG": lambda xs, rank, size: sum(xs) / size,
    "all_reduce PRODUCT": lambda xs, rank, size: dj.stack(xs).prod(0),
    "all_reduce MAX": lambda xs, rank, size: _largest(xs),
    "all_reduce MIN": lambda xs, rank, size: dj.stack(xs).amin(0).t(),
    "reduce": lambda xs, rank, size: sum(xs) if rank == 1 else xs[0] * 0,
    "broadcast": lambda xs, rank, size: xs[1].t(),
    "all_gather": lambda xs, rank, size: xs,
    "gather": lambda xs, rank, size: xs if rank == 1 else [x * 0 for x in xs],
    "scatter": lambda xs, rank, size: xs[1][rank],
    "reduce_scatter": lambda xs, rank, size: sum(x[rank] for x in xs),
    "reduce_scatter MAX": lambda xs, rank, size: _largest([x[rank] for x in xs]),
    "all_to_all": lambda xs, rank, size: [x[rank] for x in xs],
    "all_to_all_single": lambda xs, rank, size: dj.stack([x[rank] for x in xs]),
}


def leaf(rank: int, size: int) -> Any:
    """A tensor of one process; some of its values are those of another, or 0."""
    values = np.random.default_rng(rank).integers(-2, 3, (size, 3)).astype(np.float64)
    return dj.tensor(values, requires_grad=True)


def loss_of(results: Any, rank: int) -> Any:
    """A sum with other weights for each element and process, and a curvature."""
    parts = results if isinstance(results, (list, tuple)) else [results]
    flat = dj.cat([part.reshape(-1) for part in parts])
    return (flat**2 * (dj.arange(1.0, flat.numel() + 1).double() + 10 * rank)).sum()


def derived(name: str) -> tuple[Any, Any, Any]:
    """Results, gradient, and the gradient of the gradient's square, of this process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = leaf(rank, size)
    results = PROGRAMS[name](x, rank, size)
    (gradient,) = dj.autograd.grad(loss_of(results, rank), x, create_graph=True)
    (second,) = dj.autograd.grad((gradient**2).sum(), x, allow_unused=True)
    flat = results if isinstance(results, (list, tuple)) else [results]
    return [part.tolist() for part in flat], gradient.tolist(), second.tolist()


def simulated(name: str, size: int) -> list[tuple[Any, Any, Any]]:
    xs = [leaf(rank, size) for rank in range(size)]
    results = [SIMULATED[name](xs, rank, size) for rank in range(size)]
    loss = sum(loss_of(result, rank) for rank, result in enumerate(results))
    gradients = dj.autograd.grad(loss, xs, create_graph=True, allow_unused=True)
    gradients = [dj.zeros_like(x) if g is None else g for x, g in zip(xs, gradients, strict=True)]
    seconds = dj.autograd.grad(sum((g**2).sum() for g in gradients), xs, allow_unused=True)
    found = []
    for x, result, gradient, second in zip(xs, results, gradients, seconds, strict=True):
        flat = result if isinstance(result, (list, tuple)) else [result]
        second = dj.zeros_like(x) if second is None else second
        found.append(([part.tolist() for part in flat], gradient.tolist(), second.tolist()))
    return found


def functional() -> dict[str, Any]:
    """Results of the inner path's functions, of all groups that it takes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = dj.arange(size * 2.0).reshape(size, 2) + 10 * rank
    mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
    return {
        "sum": functions.all_reduce(x, "sum", dist.group.WORLD).tolist(),
        "gathered": functions.all_gather_tensor(x, 1, mesh).tolist(),
        "scattered": functions.reduce_scatter_tensor(x, "max", 0, (mesh, 0)).tolist(),
        "sent": functions.broadcast(x, 1, dist.group.WORLD.group_name).tolist(),
        "exchanged": functions.all_to_all_single(x, None, None, list(range(size))).tolist(),
        "next": functions.permute_tensor(x, [*range(1, size), 0], mesh).tolist(),
        "waited": functions.wait_tensor(x) is x,
    }


def misused(name: str) -> None:
    x = dj.ones(3, requires_grad=True)
    calls: dict[str, Callable[[], object]] = {
        "op": lambda: kept.reduce(x, 0, dist.ReduceOp.MAX),
        "root": lambda: kept.broadcast(x, 5),
        "count": lambda: kept.scatter([x], 0),
        "sizes": lambda: kept.all_to_all_single(x, x),
    }
    calls[name]()


@pytest.mark.parametrize("size", [2, 4])
def test_derivatives_are_those_of_one_process(size: int) -> None:
    """The first and the second, with ties and zeros."""
    found = on_ranks([partial(derived, name) for name in PROGRAMS], size)
    for name, by_rank in zip(PROGRAMS, found, strict=True):
        for rank, expected in enumerate(simulated(name, size)):
            actual = by_rank[rank]
            assert not isinstance(actual, Raised), (name, actual)
            for what in (0, 1, 2):
                np.testing.assert_allclose(
                    np.array(actual[what]), np.array(expected[what]), err_msg=f"{name} {what}"
                )


def test_functions_of_the_inner_path() -> None:
    size = 2
    found, *errors = on_ranks(
        [functional, *(partial(misused, name) for name in ("op", "root", "count", "sizes"))],
        size,
    )
    xs = [np.arange(size * 2.0).reshape(size, 2) + 10 * rank for rank in range(size)]
    for rank, results in enumerate(found):
        assert not isinstance(results, Raised), results
        expected = {
            "sum": sum(xs),
            "gathered": np.concatenate(xs, 1),
            "scattered": np.maximum(*xs)[rank : rank + 1],
            "sent": xs[1],
            "exchanged": np.stack([x[rank] for x in xs]),
            "next": xs[rank - 1],
        }
        for name, value in expected.items():
            np.testing.assert_array_equal(results[name], value, err_msg=name)
        assert results["waited"]
    kinds = ["NotImplementedError", "DistBackendError", "ShapeError", "ShapeError"]
    for kind, by_rank in zip(kinds, errors, strict=True):
        assert all(kind in raised.kind for raised in by_rank), by_rank
