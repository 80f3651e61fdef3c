"""Meshes of processes: their groups and slices, on four processes."""

from typing import Any

import pytest

import dynajit as dj
import dynajit.distributed as dist
from tests.support.ranks import Raised, on_ranks


def two_dims() -> dict[str, Any]:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = dj.tensor([float(dist.get_rank())])
    y = x.clone()
    dist.all_reduce(x, group=mesh.get_group("dp"))
    dist.all_reduce(y, group=mesh["tp"].get_group())
    turned = mesh["tp", "dp"]
    flat = mesh._flatten("all")
    return {
        "along dp": x.item(),
        "along tp": y.item(),
        "shape": (mesh.ndim, mesh.shape, mesh.size(), mesh.size(1), mesh.mesh_dim_names),
        "ranks": mesh.mesh.tolist(),
        "dtype": str(mesh.mesh.dtype),
        "place": (mesh.get_local_rank("dp"), mesh.get_local_rank(1), mesh.get_coordinate()),
        "slices": (mesh["dp"].mesh.tolist(), mesh["tp"].mesh.tolist()),
        "turned": (turned.mesh.tolist(), turned.get_coordinate()),
        "same": mesh["dp", "tp"] is mesh and mesh["dp"] == mesh["dp"] and mesh["dp"] != mesh,
        "flat": (flat.mesh.tolist(), mesh["all"] is flat, flat.get_local_rank()),
        "rank": mesh.get_rank(),
        "groups": [dist.get_process_group_ranks(group) for group in mesh.get_all_groups()],
        "text": repr(mesh),
    }


def three_dims() -> Any:
    mesh = dist.init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("dp", "cp", "tp"))
    part = mesh["dp", "cp"]._flatten()
    return part.mesh_dim_names, part.mesh.tolist(), mesh["dp_cp"].size(), mesh["tp"].mesh.tolist()


def parts() -> Any:
    """A mesh of some of the processes."""
    mesh = dist.DeviceMesh("cpu", [3, 1])
    return mesh.get_coordinate(), mesh.get_local_rank(), mesh.shape


def of_groups() -> Any:
    group = dist.new_group([0, 2] if dist.get_rank() % 2 == 0 else [1, 3])
    mesh = dist.DeviceMesh.from_group(group, "cpu", mesh_dim_names=("odd",))
    return mesh.mesh.tolist(), mesh.get_group() is group, mesh["odd"] is mesh


def refusals() -> list[str]:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plain = dist.init_device_mesh("cpu", (4,))
    found = []
    for call in (
        lambda: mesh.get_group(),
        lambda: mesh["pp"],
        lambda: mesh.get_group("pp"),
        lambda: plain["dp"],
        lambda: plain._flatten(),
        lambda: dist.init_device_mesh("cpu", (8,)),
        lambda: dist.init_device_mesh("cuda:0", (4,)),
        lambda: dist.init_device_mesh("cpu", (4,), mesh_dim_names=("a", "b")),
        lambda: dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")),
        lambda: dist.DeviceMesh("cpu", [1, 1]),
    ):
        with pytest.raises((RuntimeError, KeyError)) as raised:
            call()
        found.append(type(raised.value).__name__)
    return found


def test_meshes_of_four_processes() -> None:
    found = on_ranks([two_dims, three_dims, parts, of_groups, refusals], 4)
    assert not [result for by_rank in found for result in by_rank if isinstance(result, Raised)]
    for rank, results in enumerate(found[0]):
        row, column = divmod(rank, 2)
        assert {
            "along dp": 2.0 * column + 2,
            "along tp": 4.0 * row + 1,
            "shape": (2, (2, 2), 4, 2, ("dp", "tp")),
            "ranks": [[0, 1], [2, 3]],
            "dtype": "dynajit.int32",
            "place": (row, column, (row, column)),
            "slices": ([column, column + 2], [2 * row, 2 * row + 1]),
            "turned": ([[0, 2], [1, 3]], (column, row)),
            "same": True,
            "flat": ([0, 1, 2, 3], True, rank),
            "rank": rank,
            "groups": [[column, column + 2], [2 * row, 2 * row + 1]],
            "text": "DeviceMesh((dp=2, tp=2), 'cpu')",
        } == results
        first = [rank % 2, rank % 2 + 2]
        assert (("dp_cp",), first, 2, [2 * row, 2 * row + 1]) == found[1][rank]
    outside = (None, -1, (2,))
    assert [outside, ((1,), 1, (2,)), outside, ((0,), 0, (2,))] == found[2]
    assert [([0, 2], True, True), ([1, 3], True, True)] * 2 == found[3]
    expected = ["ShapeError", "UnknownKeyError", "UnknownKeyError", *["ShapeError"] * 7]
    assert [expected] * 4 == found[4]


def test_one_process_has_meshes() -> None:
    """Which make the default group where there is none."""
    dist.init_process_group("gloo", world_size=1, rank=0)
    try:
        mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
        assert ([[0]], (0, 0), 0) == (
            mesh.mesh.tolist(), mesh.get_coordinate(), mesh.get_local_rank("b"),
        )  # fmt: skip
    finally:
        dist.destroy_process_group()
