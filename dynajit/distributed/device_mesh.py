"""Processes as a grid with named dims, each of whose lines is a group.

Contract: every process makes the same meshes, slices and flattened dims in the same order, for
groups are made with them. A slice is the part of a grid that this process lies in, and shares its
groups. `with mesh:` makes it the one that functions of `distributed.tensor` mean where none is
given.
"""

import math
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dynajit.core.errors import InvalidValueError, ShapeError, UnknownKeyError
from dynajit.core.process.process_groups import STATE, NonMember, ProcessGroup, get_rank
from dynajit.distributed.groups import group_of, init_process_group, new_group
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor

MSG_WHICH_DIM: Final = (
    "Found the DeviceMesh have {ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified "
    "when device_mesh.ndim > 1."
)


class DeviceMesh:
    """Processes in a grid. Mutable: `_flatten` adds dims that it can be sliced by.

    Args:
        device_type: where the processes compute, such as "cpu" or "cuda".
        mesh: ranks among all processes, each once: nested lists, an array or a tensor of integers.
        mesh_dim_names: of the dims.

    Raises:
        ShapeError: it has more processes than there are, one of them twice, or other dims than
            names.
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        ranks = _as_ranks(mesh)
        names = _checked_names(mesh_dim_names, ranks.ndim)
        if STATE.default is None:
            init_process_group()
        _check_ranks(ranks)
        groups = tuple(_group_along(ranks, dim) for dim in range(ranks.ndim))
        self._set(str(device_type), ranks, names, groups, None)

    def _set(
        self,
        device_type: str,
        ranks: npt.NDArray[np.int64],
        names: tuple[str, ...] | None,
        groups: tuple[ProcessGroup | NonMember, ...],
        root: "DeviceMesh | None",
    ) -> None:
        self._device_type = device_type
        self._ranks = ranks
        self._names = names
        self._groups = groups
        self._root = root or self
        self._flattened: dict[str, DeviceMesh] = {}
        self._hash = hash((device_type, names, ranks.tobytes(), ranks.shape))

    @classmethod
    def _part(
        cls,
        whole: "DeviceMesh",
        ranks: npt.NDArray[np.int64],
        names: tuple[str, ...],
        groups: tuple[ProcessGroup | NonMember, ...],
    ) -> "DeviceMesh":
        part = cls.__new__(cls)
        part._set(whole._device_type, ranks, names, groups, whole._root)
        return part

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> "DeviceMesh":
        """A mesh of groups that exist: of one group, or of one for each dim of `mesh`.

        Raises:
            InvalidValueError: several groups without `mesh`, or another number than it has dims.
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None and len(groups) != 1:
            raise InvalidValueError(
                f"DeviceMesh.from_group: {len(groups)} groups without mesh.  Expected mesh= with "
                "the ranks of all."
            )
        ranks = _as_ranks(list(groups[0].ranks) if mesh is None else mesh)
        if ranks.ndim != len(groups):
            raise InvalidValueError(
                f"DeviceMesh.from_group: {len(groups)} groups for a mesh of {ranks.ndim} dims.  "
                "Expected one for each dim."
            )
        made = cls.__new__(cls)
        names = _checked_names(mesh_dim_names, ranks.ndim)
        made._set(str(device_type), ranks, names, tuple(groups), None)
        return made

    @property
    def device_type(self) -> str:
        """Where the processes compute."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """Ranks among all processes: int32, shape `shape`."""
        return tensor(self._ranks.astype(np.int32))

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dims."""
        return self._names

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or that along a dim."""
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> "DeviceMesh":
        """The part that this process lies in, along some dims, in the order of the names.

        Raises:
            ShapeError: the mesh has no names; a RuntimeError, as in PyTorch.
            UnknownKeyError: it has no such dims.
        """
        if self._names is None:
            raise ShapeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self._names:
            return self
        if len(wanted) == 1 and wanted[0] in self._root._flattened:
            return self._root._flattened[wanted[0]]
        if len(set(wanted)) < len(wanted) or not set(wanted) <= set(self._names):
            known = (*self._names, *self._root._flattened)
            raise UnknownKeyError(
                f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {known}."
            )
        dims = [self._names.index(name) for name in wanted]
        groups = tuple(self._groups[dim] for dim in dims)
        return self._part(self, self._rows(dims)[self._row()], wanted, groups)

    def _rows(self, dims: Sequence[int]) -> "_Rows":
        """The parts along some dims, by the coordinate in the others."""
        others = [dim for dim in range(self.ndim) if dim not in dims]
        return _Rows(self._ranks.transpose([*others, *dims]), len(others), tuple(others))

    def _row(self) -> tuple[int, ...]:
        """Where this process lies; the first place in processes outside."""
        return self.get_coordinate() or (0,) * self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes that differ from this one in a dim alone.

        Args:
            mesh_dim: its place or name; None in a mesh of one dim.

        Raises:
            ShapeError: None in a mesh of several; a RuntimeError, as in PyTorch.
            UnknownKeyError: there is no such dim.
        """
        if mesh_dim is None:
            if self.ndim > 1:
                raise ShapeError(MSG_WHICH_DIM.format(ndim=self.ndim))
            return self._groups[0]
        if isinstance(mesh_dim, str):
            if mesh_dim in self._root._flattened:
                return self._root._flattened[mesh_dim]._groups[0]
            if self._names is None or mesh_dim not in self._names:
                raise UnknownKeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                    f"{self._names}"
                )
            mesh_dim = self._names.index(mesh_dim)
        return self._groups[mesh_dim]

    def get_all_groups(self) -> list[Any]:
        """The groups of all dims."""
        return list(self._groups)

    def get_rank(self) -> int:
        """The place of this process among all."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dim; -1 outside of the mesh.

        Raises: as of `get_group`.
        """
        return get_rank(self.get_group(mesh_dim))

    def get_coordinate(self) -> tuple[int, ...] | None:
        """The place of this process along every dim, or None outside of the mesh."""
        places = np.argwhere(self._ranks == get_rank())
        return tuple(int(place) for place in places[0]) if len(places) else None

    def _flatten(self, mesh_dim_name: str | None = None) -> "DeviceMesh":
        """A mesh of one dim of all processes of this one, which the whole mesh has by its name.

        Args:
            mesh_dim_name: the names of the dims with "_" in between, if None.

        Raises:
            ShapeError: the mesh has no names; a RuntimeError, as in PyTorch.
            InvalidValueError: the whole mesh has such a dim.
        """
        if self._names is None:
            raise ShapeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._names)
        root = self._root
        if self.ndim == 1 and self._names == (name,):
            return self
        if name in root._flattened and root._flattened[name].size() == self.size():
            return root._flattened[name]
        assert root._names is not None
        if name in root._names or name in root._flattened:
            raise InvalidValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify "
                "another valid mesh_dim_name."
            )
        dims = [root._names.index(own) for own in self._names]
        rows = root._rows(dims).flat(math.prod(self.shape))
        group = _own_group(rows)
        found = self._part(root, self._ranks.reshape(-1), (name,), (group,))
        root._flattened[name] = found
        return found

    def __enter__(self) -> "DeviceMesh":
        _active.meshes.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.meshes.pop()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh)
            and (self._device_type, self._names) == (other._device_type, other._names)
            and np.array_equal(self._ranks, other._ranks)
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        named = self._names and ", ".join(
            f"{name}={size}" for name, size in zip(self._names, self.shape, strict=True)
        )
        return f"DeviceMesh({f'({named})' if named else self.shape}, {self._device_type!r})"


class _Active(threading.local):
    """The meshes of the `with` blocks around, the innermost last. Mutable."""

    def __init__(self) -> None:
        self.meshes: list[DeviceMesh] = []


_active: Final = _Active()


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost `with mesh:` around.

    Raises:
        ShapeError: there is none; a RuntimeError, as in PyTorch.
    """
    if not _active.meshes:
        raise ShapeError(
            "No device mesh is currently active!  Give device_mesh, or use `with mesh:`."
        )
    return _active.meshes[-1]


class _Rows:
    """Parts of a grid, by the coordinate of a process in the dims that they leave out.

    Args:
        ranks: the grid, those dims first.
        count: how many they are.
        dims: their places in the grid.
    """

    def __init__(self, ranks: npt.NDArray[np.int64], count: int, dims: tuple[int, ...]) -> None:
        self._ranks = ranks
        self._count = count
        self._dims = dims

    def __getitem__(self, coordinate: tuple[int, ...]) -> npt.NDArray[np.int64]:
        part: npt.NDArray[np.int64] = self._ranks[tuple(coordinate[dim] for dim in self._dims)]
        return part

    def flat(self, size: int) -> npt.NDArray[np.int64]:
        """All parts, of `size` processes each."""
        return self._ranks.reshape(-1, size)


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The first processes as a grid, the last dim counting first.

    Args:
        mesh_shape: the sizes of the dims.
        mesh_dim_names: their names.
        backend_override: accepted; all groups have the backend of the default one.

    Raises:
        ShapeError: names and sizes do not fit, there are too few processes, or `device_type` has a
            number.
    """
    if not str(device_type).isalpha():
        raise ShapeError(
            f"Device type with index is not supported but got {device_type}.  Expected a type "
            "alone, such as 'cuda': every process has its own device."
        )
    shape = tuple(mesh_shape)
    _checked_names(mesh_dim_names, len(shape))
    ranks = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return DeviceMesh(str(device_type), ranks, mesh_dim_names=mesh_dim_names)


def _as_ranks(mesh: Any) -> npt.NDArray[np.int64]:
    found = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, dtype=np.int64)
    return found if found.ndim else found.reshape(1)


def _checked_names(names: Sequence[str] | None, ndim: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) != len(names):
        raise ShapeError(
            "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names "
            f"{tuple(names)}"
        )
    if len(names) != ndim:
        raise ShapeError(
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
            f"{len(names)} and len(mesh_shape):{ndim}."
        )
    return tuple(names)


def _check_ranks(ranks: npt.NDArray[np.int64]) -> None:
    size = len(STATE.default.ranks) if STATE.default is not None else 0
    if ranks.size > size:
        raise ShapeError(
            f"Mesh should not be bigger than default world size {size}, but found {ranks.size} "
            "ranks!"
        )
    if len(np.unique(ranks)) < ranks.size or not ranks.size:
        raise ShapeError(f"DeviceMesh({ranks.tolist()}): expected each process once.")


def _group_along(ranks: npt.NDArray[np.int64], dim: int) -> ProcessGroup | NonMember:
    """This process's group along a dim."""
    lines = np.moveaxis(ranks, dim, -1)
    return _own_group(lines.reshape(-1, lines.shape[-1]))


def _own_group(rows: npt.NDArray[np.int64]) -> ProcessGroup | NonMember:
    """The group of one row, that with this process; all are made, so that processes agree."""
    default = group_of(None)
    assert default is not None
    if rows.tolist() == [list(default.ranks)]:
        return default
    made = [new_group(row, sort_ranks=False) for row in rows.tolist()]
    return next((group for group in made if isinstance(group, ProcessGroup)), made[0])
