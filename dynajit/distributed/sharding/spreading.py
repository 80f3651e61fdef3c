"""Which processes share a module that is given to `fully_shard`, and which DTensors its parameters
become.

Contract: `Spreading.over` reads what the program gave. A mesh of one dim shards; of two, the first
has copies, which average gradients. A parameter that is a DTensor of tensor parallelism keeps its
placements, behind those of the mesh that shards: its rows were split by them first.
"""

import functools
import math
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.core.records import record
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.groups import ProcessGroup, new_group
from dynajit.distributed.sharding.collecting import sharding_group
from dynajit.distributed.sharding.splits import Members
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.layouts import Layout, Placements
from dynajit.distributed.tensor.placements import Partial, Replicate, Shard, _StridedShard

_NAME: Final = "fully_shard"


@record
class Spreading:
    """See the module.

    Args:
        mesh: the processes that share a module.
        members: its groups.
    """

    mesh: DeviceMesh
    members: Members

    @staticmethod
    def over(given: Any, reshard_after_forward: bool | int | None) -> "Spreading":
        """What the arguments of `fully_shard` mean.

        Raises:
            InvalidValueError: see there.
        """
        mesh = _mesh(given)
        if mesh.ndim not in (1, 2):
            raise InvalidValueError(
                f"{_NAME} expects a 1D or 2D DeviceMesh but got {mesh!r}.  Slice it, as in "
                'mesh["dp_replicate", "dp_shard"].'
            )
        group = sharding_group(mesh.get_group(mesh.ndim - 1), _NAME)
        across = sharding_group(mesh.get_group(0), _NAME) if mesh.ndim == 2 else None
        return Spreading(mesh, Members(group, across, _smaller(group, reshard_after_forward)))

    def layout_of(self, parameter: Any) -> Layout:
        """The DTensor that a parameter becomes.

        Raises:
            InvalidValueError: it has no dim, is a part of a sum, or lies on a mesh of other
                processes.
        """
        if not parameter.shape:
            raise InvalidValueError(
                f"{_NAME} doesn't support scalar parameters.  Change the parameter to a 1D tensor "
                "with numel equal to 1."
            )
        first: Placements = (Replicate(),) * (self.mesh.ndim - 1)
        shape = tuple(parameter.shape)
        if not isinstance(parameter, DTensor):
            return Layout(self.mesh, (*first, Shard(0)), shape)
        inner = parameter.device_mesh
        if any(isinstance(placement, Partial) for placement in parameter.placements):
            raise InvalidValueError(
                f"{_NAME}: a parameter is placed {parameter.placements}.  Expected Shard or "
                "Replicate."
            )
        factor = math.prod(
            inner.size(at)
            for at, placement in enumerate(parameter.placements)
            if isinstance(placement, Shard) and placement.dim == 0
        )
        split = Shard(0) if factor == 1 else _StridedShard(0, split_factor=factor)
        return Layout(self._with(inner), (*first, split, *parameter.placements), shape)

    def _with(self, inner: DeviceMesh) -> DeviceMesh:
        """The mesh of both."""
        names, others = self.mesh.mesh_dim_names, inner.mesh_dim_names
        if names is None or others is None or inner._root is not self.mesh._root:
            raise InvalidValueError(
                f"{_NAME}: a parameter lies on {inner!r}, and is to be sharded over "
                f"{self.mesh!r}.  FSDP requires the DP and TP mesh to have the same parent mesh: "
                "slice both from one mesh with names."
            )
        return self.mesh._root[(*names, *others)]


def _mesh(given: Any) -> DeviceMesh:
    if isinstance(given, DeviceMesh):
        return given
    group = sharding_group(given, _NAME)
    return _mesh_of(group)


@functools.lru_cache(maxsize=32)
def _mesh_of(group: ProcessGroup) -> DeviceMesh:
    return DeviceMesh.from_group(group, "cpu")


def _smaller(group: ProcessGroup, count: bool | int | None) -> ProcessGroup | None:
    """The neighbours that keep parameters between forward and backward."""
    if count is None or isinstance(count, bool) or count in (1, group.size()):
        return None
    if not isinstance(count, int) or count < 1 or group.size() % count:
        raise InvalidValueError(
            f"{_NAME}(reshard_after_forward={count!r}): the number should be a factor of the "
            f"number of processes that shard, {group.size()}."
        )
    return _neighbours(group, count)


@functools.lru_cache(maxsize=32)
def _neighbours(group: ProcessGroup, count: int) -> ProcessGroup:
    first = group.rank() // count * count
    found = new_group(group.ranks[first : first + count], sort_ranks=False)
    assert isinstance(found, ProcessGroup)
    return found
