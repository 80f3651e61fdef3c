"""How DTensors run a row: `handle`, their dispatch handler.

Contract: operands are placed as the plan says, the row runs on the parts, and its result is a
DTensor with a node of the tape where gradients are recorded. A plain tensor among the operands is
refused, but for one of a single element, within `implicit_replication`, and where the library
itself made it (formulas of gradients, rows that stand for others): all processes have the same
then. A row that stands for others is taken apart where its operands would travel. What a part of
the result has to look like is compared with what the row gave.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dynajit.core.errors import (
    AutogradError,
    InternalError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.tensor.dtensor import DTensor, as_gradient, made, placed, replicated
from dynajit.distributed.tensor.layouts import Layout, Placements
from dynajit.distributed.tensor.moves import moved
from dynajit.distributed.tensor.placements import Replicate, Shard
from dynajit.distributed.tensor.planning import Plan, plan, takes_apart
from dynajit.distributed.tensor.rules import localized
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled, needs_grad
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.operations import execute
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.node import (
    MSG_MODIFIED,
    Node,
    OpNode,
    is_differentiable,
)
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind, Op

MSG_MIXED: Final = (
    "{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
    "before calling distributed operators!  The plain tensor has the shape {shape}.  Use "
    "distribute_tensor, DTensor.from_local, or `with implicit_replication():` where every process "
    "has the same."
)


class _Implicit(threading.local):
    """How many blocks there are around in which plain tensors count as wholes. Mutable."""

    def __init__(self) -> None:
        self.depth = 0


_implicit: Final = _Implicit()


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which a plain tensor that meets a DTensor counts as one that every process has the
    same of."""
    _implicit.depth += 1
    try:
        yield
    finally:
        _implicit.depth -= 1


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run `op`, of which an operand is a DTensor.

    Raises:
        UnsupportedError: a graph is recorded, or operands are on several meshes.
        ShapeError: a plain tensor is among the operands; a RuntimeError, as in PyTorch.
    """
    is_foreign = any(is_tensor(x) and not isinstance(x, TensorBase) for x in inputs)
    if is_foreign or dispatch.default_handler() is not execute.handle:
        raise UnsupportedError(
            f"{op.name}: graphs have no DTensors.  Leave what computes with them out of what is "
            "compiled, mapped or transformed, or take to_local() before."
        )
    mesh = _mesh_of(op, inputs)
    inputs = tuple(_as_operand(op, x, mesh) for x in inputs)
    is_recorded = needs_grad(inputs)
    if is_recorded and op.kind is Kind.COMPOSITE and not (op.vjp and op.rule.on_tape):
        return _by_rows(op, inputs, attributes)
    work = _work_of(
        op, tuple(map(_seen, inputs)), tuple(attributes.items()), dtypes.default_floating()
    )
    if work.is_apart:
        return _by_rows(op, inputs, attributes)
    return _recorded(op, inputs, attributes, _run(op, inputs, attributes, work), is_recorded)


DTensor.__dynajit_handler__ = staticmethod(handle)


def _mesh_of(op: Op, inputs: Sequence[Any]) -> DeviceMesh:
    meshes = [x.device_mesh for x in inputs if isinstance(x, DTensor)]
    for other in meshes[1:]:
        if other != meshes[0]:
            raise UnsupportedError(
                f"{op.name}: DTensor does not support cross-mesh operation: operands are on "
                f"{meshes[0]!r} and {other!r}.  Redistribute one over full_tensor() and "
                "distribute_tensor."
            )
    return meshes[0]


def _as_operand(op: Op, x: Any, mesh: DeviceMesh) -> Any:
    if isinstance(x, DTensor) or not isinstance(x, TensorBase):
        return x
    if _implicit.depth or x.numel() == 1:  # type: ignore[attr-defined]
        return replicated(x, mesh)
    raise ShapeError(MSG_MIXED.format(name=op.name, shape=tuple(x.shape)))


def _seen(x: object) -> Any:
    """All that is asked of an operand before the row runs: of a DTensor where it lies, of a number
    its category."""
    if isinstance(x, DTensor):
        return x._layout, x.dtype, x.device
    return None if x is None else dtypes.category_of(x)


def _type_of(seen: Any) -> ValueType | None:
    if isinstance(seen, tuple):
        layout, dtype, device = seen
        return TensorType(layout.shape, dtype, device)
    return None if seen is None else ScalarType(seen)


@record
class _Work:
    """How a row is run on parts of operands that are seen so.

    Args:
        plan: the choice among what the row can do.
        layout: of the result.
        shape: of this process's part of it.
        dtype: of the result.
        changed: attributes that are others of parts. All others are the call's own: 0 and False,
            which are equal, may be seen alike here.
        is_apart: the row is run as the rows that it stands for.
    """

    plan: Plan
    layout: Layout
    shape: tuple[int, ...]
    dtype: DType
    changed: dict[str, Any]
    is_apart: bool


@functools.lru_cache(maxsize=4096)
def _work_of(
    op: Op, seen: tuple[Any, ...], attributes: tuple[tuple[str, Any], ...], default: DType
) -> _Work:
    """See `_Work`.

    Args:
        default: the dtype of numbers, which types of results depend on.
    """
    layouts = [x[0] if isinstance(x, tuple) else None for x in seen]
    types = [_type_of(x) for x in seen]
    named = dict(attributes)
    out = op.type_of_result(types, named)
    assert isinstance(out, TensorType)
    found = plan(op, types, named, out, layouts)
    mesh = next(layout.mesh for layout in layouts if layout is not None)
    layout = Layout(mesh, found.result, tuple(map(int, out.shape)))
    first: tuple[int, ...] = ()
    if layouts and layouts[0] is not None and found.wants[0] is not None:
        first = layouts[0].with_placements(found.wants[0]).local_shape()
    shape = layout.local_shape()
    own = localized(op, named, first, shape)
    changed = {name: value for name, value in own.items() if value is not named[name]}
    return _Work(found, layout, shape, out.dtype, changed, takes_apart(op, found))


def _by_rows(op: Op, inputs: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
    with implicit_replication():
        return op.rule.function(TABLE, *inputs, **attributes)


# -- parts -----------------------------------------------------------------------------------------


def _run(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], work: _Work) -> DTensor:
    """The result without history."""
    found, layout = work.plan, work.layout
    with no_grad():
        parts = tuple(
            moved(x._local, x._layout, wanted) if wanted is not None else x
            for x, wanted in zip(inputs, found.wants, strict=True)
        )
        if found.looks_up is None:
            local = op(*parts, **{**attributes, **work.changed})
        else:
            local = _looked_up(op, inputs[0], found, parts, attributes)
    if tuple(local.shape) != work.shape or local.dtype is not work.dtype:
        raise InternalError(
            f"{op.name}: a part is {local.dtype}{list(local.shape)}, expected "
            f"{work.dtype}{list(work.shape)} of {layout}"
        )
    if not (op.kind is Kind.MOVEMENT and op.rule.view):
        return made(local, layout)
    source = inputs[0]
    is_shared = local._storage is source._local._storage
    result = made(local, layout, source if is_shared else None)
    result._is_copied_view = not is_shared or source._is_copied_view
    return result


def _looked_up(
    op: Op, source: DTensor, found: Plan, parts: tuple[Any, ...], attributes: dict[str, Any]
) -> Any:
    """Positions looked up in this process's part; what others have is 0.

    The row refuses positions out of the whole's range.
    """
    at = found.looks_up
    assert at is not None and found.wants[0] is not None
    table, positions, *rest = parts
    placement = found.wants[0][at]
    assert isinstance(placement, Shard)
    layout = source._layout.with_placements(found.wants[0])
    start, length = layout.spans()[placement.dim]
    size = source.shape[placement.dim]
    own = TABLE.sub(positions, start)
    is_here = TABLE.logical_and(TABLE.ge(own, 0), TABLE.lt(own, length))
    is_valid = TABLE.logical_and(TABLE.ge(positions, 0), TABLE.lt(positions, size))
    if not bool(is_valid.all()):
        outside = TABLE.where(is_valid, 0, size)  # of any part, too
        return op(table, TABLE.cast(outside, dtype=positions.dtype), *rest, **attributes)
    if not length:
        return _nothing(op, table, positions, attributes)
    chosen = op(table, TABLE.where(is_here, own, 0), *rest, **attributes)
    if op is TABLE.index_select:
        ones = (1,) * (len(chosen.shape) - placement.dim - 1)
        is_here = TABLE.reshape(is_here, shape=(is_here.shape[0], *ones))
    elif op is TABLE.embedding:
        is_here = TABLE.reshape(is_here, shape=(*is_here.shape, 1))
    return TABLE.where(is_here, chosen, 0.0)


def _nothing(op: Op, table: Any, positions: Any, attributes: Mapping[str, Any]) -> Any:
    """What a process gives that has no part of the table."""
    type = op.type_of_result(
        [TensorType(tuple(x.shape), x.dtype, x.device) for x in (table, positions)], attributes
    )
    assert isinstance(type, TensorType)
    return TABLE.full(0, shape=tuple(type.shape), dtype=type.dtype, device=type.device)


# -- the tape --------------------------------------------------------------------------------------


def _recorded(
    op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], result: DTensor, recorded: bool
) -> DTensor:
    if recorded and is_differentiable(op) and result.dtype.category >= Category.FLOATING:
        node = RowBackward(op, inputs, attributes)
        _tensor.attach(result, node, 0)
        node.finish(result)
    return result


class SavedParts:
    """A DTensor that a formula needs, or the result of its node. Immutable.

    Args:
        x: the tensor.
        is_result: of the node itself: only its part is kept, so that no cycle arises.
    """

    __slots__ = ("history", "layout", "local", "place", "storages", "tensor", "versions")

    def __init__(self, x: DTensor, is_result: bool) -> None:
        hooks = saved_hooks.current() if saved_hooks.OPEN else None
        is_owned = isinstance(hooks, saved_hooks.HooksOfOwner)
        #: Where the part lies in memory that its owner frees until backward; None: it is kept.
        self.place = hooks.place_of(x._local) if is_owned else None  # type: ignore[union-attr]
        self.local = x._local if self.place is None else None
        self.tensor = None if is_result or self.place is not None else x
        self.history = None if is_result or x.grad_fn is None else (x.grad_fn, x.output_index)
        self.layout = x._layout
        # The part may be known to the program, too, as a plain tensor.
        self.storages = (x._storage,) if self.local is None else (x._storage, x._local._storage)
        self.versions = self._versions()

    def _versions(self) -> tuple[int, ...]:
        return tuple(storage.version for storage in self.storages)

    def unpack(self, node: Node) -> Any:
        """The tensor, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        if self._versions() != self.versions:
            what = f"DTensor {list(self.layout.shape)}"
            now, expected = sum(self._versions()), sum(self.versions)
            raise AutogradError(
                MSG_MODIFIED.format(what=what, node=node.name(), now=now, expected=expected)
            )
        if self.tensor is not None:
            return self.tensor
        again = made(self.local if self.place is None else self.place.found(), self.layout)
        if is_grad_enabled():
            maker, index = (node, 0) if self.place is None else self.history or (None, 0)
            if maker is not None:
                _tensor.attach(again, maker, index)
        return again


def _kept_for_backward(self: DTensor) -> SavedParts:
    """The tensor as a node keeps it."""
    return SavedParts(self, False)


DTensor._kept_for_backward = _kept_for_backward  # type: ignore[method-assign]


class RowBackward(OpNode):
    """A row of DTensors on the tape. Mutable: see Node.

    A gradient that every process has whole is cut where its input is split.
    """

    __slots__ = ("layouts", "out_layout")

    def __init__(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        self.begin(op, inputs, attributes)
        self.layouts = [x._layout if isinstance(x, DTensor) else None for x in inputs]
        self.saved = {
            place: SavedParts(inputs[place], False)
            if isinstance(inputs[place], DTensor)
            else inputs[place]
            for place in self.savings.inputs
        }

    def finish(self, tensor: Any) -> None:
        """Note the result, or its type, if a formula needs it."""
        self.out_layout = tensor._layout
        if self.savings.result:
            self.result = SavedParts(tensor, True)  # type: ignore[assignment]
        if self.savings.result_type:
            self.out_meta = _tensor.meta_of(tensor)

    def saved_input(self, position: int) -> Any:
        """A saved input, as of other nodes."""
        kept = None if self.saved is None else self.saved[position]
        return kept.unpack(self) if isinstance(kept, SavedParts) else super().saved_input(position)

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = as_gradient(gradients[0], self.out_layout)
        with implicit_replication():
            found = super().apply([g], wanted)
        return [
            x if x is None or layout is None else _cut(as_gradient(x, layout), layout.placements)
            for x, layout in zip(found, self.layouts, strict=True)
        ]


def _cut(gradient: DTensor, placements: Placements) -> DTensor:
    """A gradient, cut to what this process has of the input, where nothing is sent for it."""
    split = {p.dim for p in gradient.placements if isinstance(p, Shard)}
    wanted = tuple(
        new
        if isinstance(old, Replicate) and isinstance(new, Shard) and new.dim not in split
        else old
        for old, new in zip(gradient.placements, placements, strict=True)
    )
    return placed(gradient, wanted)


__all__ = ["implicit_replication"]
