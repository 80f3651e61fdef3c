"""A unit: parameters that travel as one flat tensor, of which every process has a part.

Contract: outside of calls modules have the parts, which are leaves that optimizers step: plain runs
of elements, or DTensors (`splits`). A call gathers the flat tensor into memory of its own and lays
views of it into the modules; afterwards nothing refers to that memory but who kept a view. It is
never written: what was saved for backward is right for as long as it lives, and a parameter that is
not gathered is an error, never a number.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import AutogradError, ExpectationError, ShapeError, UnsupportedError
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType, uint8
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.sharding.splits import ByRows, Even, Members, Split
from dynajit.distributed.sharding.transfers import ORDER, Gathering, Reduction
from dynajit.distributed.tensor.dtensor import DTensor, from_part, made, made_as
from dynajit.distributed.tensor.layouts import Layout
from dynajit.distributed.tensor.moves import moved
from dynajit.distributed.tensor.parameters import DTensorParameter
from dynajit.distributed.tensor.placements import Replicate
from dynajit.eager import _tensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.nn.utils.gradients_and_vectors import get_total_norm
from dynajit.ops.functions.creation.creation import zeros

MSG_WRITTEN: Final = (
    "the parameters of a sharded module ({names}) were written while they were gathered, as by an "
    "optimizer's step between forward and backward, or before reshard().  Run the forward again, "
    "or call reshard() first."
)
MSG_NOT_GATHERED: Final = (
    "{module}: its parameter {name!r} is not gathered: this process has a part of it alone.  Call "
    "the module that was given to fully_shard or FullyShardedDataParallel, whose call gathers it; "
    "for another method register_fsdp_forward_method, for reading unshard() or "
    "summon_full_params()."
)
MSG_ON_META: Final = (
    "the parameter {name!r} of a sharded module is on the device 'meta'.  Call "
    "model.to_empty(device='cpu') and give it values before the first forward."
)


MSG_COPY: Final = (
    "deepcopy of a sharded module: the copy would need process groups of its own.  Copy the module "
    "before it is sharded, or load its state dict into another one."
)

_numbers = itertools.count(1)


class UnitPart:
    """What the parts of a unit share.

    Attributes:
        unit: where it belongs.
        index: which of the unit's parameters it is of.
    """

    unit: "Unit"
    index: int

    def found_anywhere(self, flags: dict[Any, Tensor]) -> None:
        """Flags of this process, which are 0 or 1, become those of any; every process calls
        this."""
        for flag in flags.values():
            all_reduce(flag, ReduceOp.MAX, group=self.unit.group)


class ShardedParameter(UnitPart, DTensorParameter):
    """A parameter that is a DTensor outside of calls, and whose part lies in a unit; a leaf."""

    def found_anywhere(self, flags: dict[Any, Tensor]) -> None:
        """Of all processes of its mesh."""
        DTensorParameter.found_anywhere(self, flags)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ShardedParameter":
        raise UnsupportedError(MSG_COPY)


class PartOfParameter(UnitPart, Parameter):
    """This process's part of a parameter: one-dimensional, maybe empty; a leaf."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "PartOfParameter":
        raise UnsupportedError(MSG_COPY)

    def full_tensor(self) -> Tensor:
        """The whole parameter; every process of the group calls this."""
        return self.unit.whole(self.index)

    def to_local(self) -> Tensor:
        """The part, without history."""
        part: Tensor = self.detach()
        return part

    @staticmethod
    def total_norm_of(
        parameters: Sequence[Tensor], order: float, error_if_nonfinite: bool
    ) -> Tensor:
        """The norm of all gradients, in all processes; every process calls this with its parts.

        Args:
            parameters: parts, and whole parameters, which count once.
            order: of the norm.
            error_if_nonfinite: refuse a norm that is not finite.
        """
        whole: list[Tensor] = []
        shared: dict[ProcessGroup, list[Tensor]] = {}
        for parameter in parameters:
            is_part = isinstance(parameter, PartOfParameter) and parameter.unit.parts > 1
            if is_part:
                listed = shared.setdefault(parameter.unit.group, [])
            else:
                listed = whole
            if parameter.grad is not None and parameter.grad.numel():
                listed.append(parameter.grad)
        totals = [get_total_norm(whole, order)] if whole else []
        for group, gradients in shared.items():
            totals.append(_joined_norm(get_total_norm(gradients, order), order, group))
        return get_total_norm(totals, order, error_if_nonfinite)


@record(eq=False)
class Entry:
    """A parameter of a unit.

    Args:
        owners: modules and the names that they have it under; grows where other units' modules
            share it.
        shape: of the whole; of this process's part of what is spread over other processes, too.
        start: of its first element in the flat tensor.
        layout: how it lies on those; None: modules get it as a plain tensor.
    """

    owners: list[tuple[Module, str]]
    shape: tuple[int, ...]
    start: int
    layout: Layout | None = None

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def name(self) -> str:
        """What its module calls it."""
        return self.owners[0][1]


class Unit:
    """Parameters of one dtype, sharded. Mutable: it is gathered and freed.

    Args:
        found: whole parameters, equal in all processes, and who has them.
        members: whose processes have a part each, and who has the same one.
        parts: the group's size, or 1: every process has the whole (`NO_SHARD`).
        dtypes: of what is gathered and of what is reduced; None for the parameters' own.
        layouts: the DTensors that parts are of, one for each parameter; None: parts are runs of all
            parameters in one line.
    """

    def __init__(
        self,
        found: Sequence[tuple[Parameter, list[tuple[Module, str]]]],
        members: Members,
        parts: int,
        dtypes: tuple[DType | None, DType | None] = (None, None),
        layouts: list[Layout] | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.members = members
        self.group = members.group
        self.parts = parts
        self.rank = members.group.rank() if parts > 1 else 0
        self.gathered_dtype, self.reduced_dtype = dtypes
        self.entries: list[Entry] = []
        start = 0
        wholes = [_plain(parameter) for parameter, _ in found]
        for (parameter, owners), whole in zip(found, wholes, strict=True):
            given: Any = parameter
            layout = given._layout if isinstance(given, DTensor) else None
            self.entries.append(Entry(owners, tuple(whole.shape), start, layout))
            start += whole.numel()
        shapes = [entry.shape for entry in self.entries]
        self.split: Split = (
            Even(shapes, parts) if layouts is None else ByRows(shapes, parts, layouts)
        )
        self.part_count = self.split.part_count
        self.reshards = True
        self.syncs = True
        self.depth = 0
        self.shows = 0
        self.token: Tensor | None = None
        self.iteration: Any = None
        self._shard = self._first_part(wholes)
        self.leaves = [self._leaf(index, p.requires_grad) for index, (p, _) in enumerate(found)]
        self.full: Tensor | None = None
        self._gathering: Gathering | None = None
        self._kept: Tensor | None = None
        self._is_from_kept = False
        self._stamp: tuple[int, ...] = ()
        self._laid: tuple[Tensor, ...] = ()
        self._gradients: Tensor | None = None
        self._arrived = [False] * len(found)
        self.lay_parts()

    # -- parts ---------------------------------------------------------------------------------

    def span(self, index: int, rank: int | None = None) -> tuple[int, int, int]:
        """Of a parameter's part in a process: where it begins in the parameter and in the
        process's part, and its length."""
        return self.split.span(index, self.rank if rank is None else rank)

    def _first_part(self, parameters: Sequence[Tensor]) -> Tensor:
        first = parameters[0]
        shard: Tensor = zeros(self.part_count, dtype=first.dtype, device=first.device)
        if not first.is_meta:
            with no_grad():
                for index, parameter in enumerate(parameters):
                    inside, at, length = self.span(index)
                    flat = parameter.detach().reshape(-1)
                    shard[at : at + length].copy_(flat[inside : inside + length])
        return shard

    def _leaf(self, index: int, requires_grad: bool) -> "Leaf":
        leaf: Leaf
        if self.split.layouts is None:
            leaf = PartOfParameter(self._home(index), requires_grad)
        else:
            leaf = made_as(ShardedParameter, self._home(index), self.split.layouts[index])
            leaf.requires_grad = requires_grad
        leaf.unit, leaf.index = self, index
        return leaf

    def _home(self, index: int) -> Tensor:
        """Where the part of a parameter lies, in the shape that it has."""
        _, at, length = self.span(index)
        return self.shaped(index, self._shard[at : at + length].detach())

    def shaped(self, index: int, flat: Tensor) -> Tensor:
        """A part of a parameter as the leaf's part is shaped."""
        if self.split.layouts is None:
            return flat
        found: Tensor = flat.view(self.split.layouts[index].local_shape())
        return found

    def as_leaf(self, index: int, flat: Tensor) -> Tensor:
        """A tensor like a leaf, without history, of a part: its gradient, as an example."""
        if self.split.layouts is None:
            return flat
        return made(self.shaped(index, flat), self.split.layouts[index])

    def dressed(self, index: int, whole: Tensor) -> Tensor:
        """A whole parameter, without history, as modules have it: a DTensor where it is spread over
        other processes, too."""
        layout = self.entries[index].layout
        return whole if layout is None else made(whole, layout)

    def undressed(self, index: int, found: Any) -> Tensor:
        """Of a parameter, however it is placed, what this process and its group have together;
        every process calls this."""
        layout = self.entries[index].layout
        if isinstance(found, DTensor) and found._layout == layout:
            return found._local
        whole: Tensor = found.full_tensor() if isinstance(found, DTensor) else found
        if layout is None:
            return whole
        replicated = (Replicate(),) * layout.mesh.ndim
        return moved(whole.detach(), layout.with_placements(replicated), layout.placements)

    def write(self, index: int, whole: Tensor) -> None:
        """Write a whole parameter into its part."""
        leaf = self.leaves[index]
        part = self.shaped(index, self.part_of(index, whole))
        with no_grad():
            if leaf.is_meta:
                leaf.data = self.as_leaf(index, empty(part.numel(), dtype=leaf.dtype))
            _plain(leaf).copy_(part.to(leaf.dtype))
        _tensor.bump_version(leaf)

    def _rejoin(self) -> None:
        """Parts that were replaced (`.data = x`, `to`, `to_empty`) lie in the unit's memory
        again."""
        first = self.leaves[0]
        for leaf, entry in zip(self.leaves, self.entries, strict=True):
            if leaf.is_meta:
                raise ExpectationError(MSG_ON_META.format(name=entry.name))
            if leaf.dtype is not first.dtype:
                raise ExpectationError(
                    f"the parameter {entry.name!r} of a sharded module became {leaf.dtype}, "
                    f"others are {first.dtype}.  Expected one dtype."
                )
        is_new = self._shard.is_meta or self._shard.dtype is not first.dtype
        if is_new:
            self._shard = zeros(self.part_count, dtype=first.dtype, device=first.device)
        with no_grad():
            for index, leaf in enumerate(self.leaves):
                home, part = self._home(index), _plain(leaf)
                if part.shape != home.shape:
                    raise ShapeError(
                        f"the part of {self.entries[index].name!r} got the shape "
                        f"{tuple(part.shape)}.  Expected {tuple(home.shape)}, as fully_shard gave "
                        "it."
                    )
                if part.numel() and part.data_ptr() != home.data_ptr():
                    home.copy_(part)
                    leaf.data = self.as_leaf(index, home.reshape(-1))

    @property
    def dtype(self) -> DType:
        """Of the parts."""
        return self.leaves[0].dtype

    def names(self) -> str:
        """The parameters, for messages."""
        return ", ".join(entry.name for entry in self.entries)

    # -- gathering -----------------------------------------------------------------------------

    def _versions(self) -> tuple[int, ...]:
        return tuple(leaf._version + _plain(leaf)._version for leaf in self.leaves)

    def start_gathering(self) -> None:
        """Let the parts travel, unless they do or are here; every process calls this."""
        if self.full is not None or self._gathering is not None:
            return
        if self._kept is not None and self.members.smaller is not None:
            ORDER.note(self.group, self.number)
            self._gathering = Gathering(self._kept, self.members.smaller)
            self._is_from_kept = True
            return
        self._rejoin()
        self._stamp = self._versions()
        part = self._shard.detach()
        if self.gathered_dtype is not None:
            part = part.to(self.gathered_dtype)
        if self.parts == 1:
            self.full = part
        else:
            ORDER.note(self.group, self.number)
            self._gathering = Gathering(part, self.group)

    def gathered(self) -> Tensor:
        """All parts, one after the other.

        Raises:
            AutogradError: parts were written since they were gathered.
        """
        self.start_gathering()
        if self._gathering is not None:
            found, self._gathering = self._gathering.wait(), None
            self.full = found if self._is_from_kept else self.split.whole(found)
            self._is_from_kept = False
        if self._stamp != self._versions():
            raise AutogradError(MSG_WRITTEN.format(names=self.names()))
        assert self.full is not None
        return self.full

    def stamp(self) -> tuple[int, ...]:
        """Tells what was gathered from what is later."""
        return self._stamp

    def free_until_backward(self) -> None:
        """Forget what was gathered, but for a part that fewer processes gather again."""
        smaller = self.members.smaller
        if smaller is not None and self.full is not None and self._kept is None:
            step = -(-self.full.numel() // smaller.size())
            kept = zeros(step, dtype=self.full.dtype)
            own = self.full[smaller.rank() * step : (smaller.rank() + 1) * step]
            kept[: own.numel()].copy_(own)
            self._kept = kept
        self.free()

    def free(self) -> None:
        """Forget what was gathered."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        self.full = None

    def views(self, full: Tensor) -> tuple[Tensor, ...]:
        """The parameters within a flat tensor, each without history."""
        flat = full.array
        return tuple(
            _tensor.wrap(flat[e.start : e.start + e.count].reshape(e.shape)) for e in self.entries
        )

    def whole(self, index: int) -> Tensor:
        """A copy of one parameter; every process calls this."""
        was_here = self.full is not None
        found: Tensor = self.views(self.gathered())[index].clone()
        if not was_here and self.depth == 0:
            self.free()
        return found

    # -- what modules have ---------------------------------------------------------------------

    def lay(self, tensors: Iterable[Any]) -> None:
        """Let modules have these, one for each parameter."""
        for entry, laid in zip(self.entries, tensors, strict=True):
            for module, name in entry.owners:
                module._parameters[name] = laid

    def lay_parts(self) -> None:
        """Let modules have the parts."""
        self._laid = ()
        self.lay(self.leaves)

    def lay_gathered(self, tensors: tuple[Tensor, ...]) -> None:
        """Let modules have views of what was gathered, until `lay_parts`."""
        self._laid = tensors
        self.lay(
            x if entry.layout is None else from_part(x, entry.layout)
            for x, entry in zip(tensors, self.entries, strict=True)
        )

    def is_laid(self) -> bool:
        """Whether modules have whole parameters."""
        return bool(self._laid)

    def leave(self) -> None:
        """Modules have the parts, and what was gathered is forgotten."""
        self.depth = self.shows = 0
        self._kept = None
        self.lay_parts()
        self.free()

    # -- gradients -----------------------------------------------------------------------------

    def is_trained(self) -> bool:
        """Whether a part requires a gradient."""
        return any(leaf.requires_grad for leaf in self.leaves)

    def add_gradients(self, gradients: Sequence[Tensor | None]) -> None:
        """Gradients of whole parameters that arrived in this process."""
        if self._gradients is None:
            dtype = self.reduced_dtype or self.gathered_dtype or self.dtype
            self._gradients = zeros(self.split.whole_count, dtype=dtype)
        with no_grad():
            for index, gradient in enumerate(gradients):
                if gradient is None:
                    continue
                entry = self.entries[index]
                place = self._gradients[entry.start : entry.start + entry.count].view(entry.shape)
                place.add_(gradient) if self._arrived[index] else place.copy_(gradient)
                self._arrived[index] = True

    def started_reduction(self) -> Reduction | None:
        """The gradients on their way; None if there are none."""
        flat, self._gradients = self._gradients, None
        if flat is None:
            return None
        ORDER.note(self.group, -self.number)
        used = tensor(self._arrived, dtype=uint8)
        self._arrived = [False] * len(self.entries)
        return Reduction(self.split.by_part(flat), used, self.members, self.parts)

    def gradients_of_leaves(self, reduction: Reduction) -> list[Tensor | None]:
        """What arrived, one for each leaf; None where no process had a gradient."""
        part, used = reduction.wait()
        part = part.to(self.dtype)
        found: list[Tensor | None] = []
        for index, is_used in enumerate(used):
            _, at, length = self.span(index)
            found.append(self.as_leaf(index, part[at : at + length]) if is_used else None)
        return found

    # -- state ---------------------------------------------------------------------------------

    def joined(self, parts: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Whole tensors of which every process has parts as of the parameters; all call this.

        Args:
            parts: one for each parameter, None where no process has one.
        """
        first = next((part for part in parts if part is not None), None)
        if first is None:
            return [None] * len(parts)
        own = zeros(self.part_count, dtype=first.dtype)
        with no_grad():
            for index, part in enumerate(parts):
                if part is not None:
                    _, at, length = self.span(index)
                    own[at : at + length].copy_(part)
            full = own if self.parts == 1 else Gathering(own, self.group).wait()
            whole = self.views(self.split.whole(full))
            return [None if p is None else w.clone() for w, p in zip(whole, parts, strict=True)]

    def part_of(self, index: int, whole: Tensor) -> Tensor:
        """This process's part of a tensor as large as a parameter."""
        inside, _, length = self.span(index)
        part: Tensor = whole.detach().reshape(-1)[inside : inside + length].clone()
        return part

    def take_over(self, wholes: Sequence[Tensor]) -> None:
        """Write whole parameters into the parts."""
        for index, whole in enumerate(wholes):
            self.write(index, _plain(whole))

    def holds(self, array: Any) -> int | None:
        """Where an array begins in what was gathered, in bytes; None if it lies elsewhere."""
        if self.full is None or not isinstance(array, np.ndarray):
            return None
        flat = self.full.array
        offset = _address(array) - _address(flat)
        return offset if 0 <= offset < flat.nbytes else None


Leaf = PartOfParameter | ShardedParameter


def _plain(x: Tensor) -> Tensor:
    """This process's part of a DTensor, or of a leaf; other tensors themselves; no history."""
    part: Tensor = x._local if isinstance(x, DTensor) else x.detach()
    return part


def _joined_norm(norm: Tensor, order: float, group: ProcessGroup) -> Tensor:
    """The norm of everything of which this process has found the norm of its part."""
    with no_grad():
        if math.isinf(order):
            all_reduce(norm, ReduceOp.MAX if order > 0 else ReduceOp.MIN, group=group)
            return norm
        power = norm**order
        all_reduce(power, group=group)
        joined: Tensor = power ** (1.0 / order)
        return joined


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
