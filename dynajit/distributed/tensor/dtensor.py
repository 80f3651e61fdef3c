"""`DTensor`: a tensor of which every process of a mesh has a part, by PyTorch's name.

Contract: such a tensor has the shape of the whole, and no array that anybody could look at: the
part in C holds one whose memory is a single zero. `_local` is this process's part, without history,
and `_layout` says which one it is. Rows come to `running.handle`, by the dispatch rule, and are
recorded on the tape as of other tensors, so gradients are such tensors, too, placed on their own.
Its elements are reached by `to_local`, `full_tensor` and what asks for a number. Made by `made`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from dynajit.core.errors import (
    ArgumentError,
    AutogradError,
    InvalidValueError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import DType
from dynajit.distributed.collectives import all_gather_into_tensor, broadcast
from dynajit.distributed.device_mesh import DeviceMesh, current_mesh
from dynajit.distributed.tensor.layouts import (
    Layout,
    Placements,
    checked_placements,
    for_gradient,
)
from dynajit.distributed.tensor.moves import moved
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, needs_grad
from dynajit.eager.samples.sample_tensor import OF_ALL_TENSORS, without_elements
from dynajit.eager.tape.node import Node, edges_of
from dynajit.eager.tensor.creation import empty, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.overriding import disabled_torch_function

_D = TypeVar("_D", bound="DTensor")

MSG_NO_ELEMENTS: Final = (
    "{name}: not available for a DTensor, of which this process has a part alone.  Use to_local() "
    "for the part, or full_tensor() for the whole, which all processes of the mesh call."
)


class DTensor(Tensor):
    """See the module. Made by `from_local`, `distribute_tensor`, and functions such as
    `distributed.tensor.zeros`.

    Attributes:
        placements: where it lies, one placement for each dim of the mesh.
        device_mesh: the processes.
    """

    # Above those of plain tensors and of classes that override functions, below graph values.
    __dynajit_priority__ = 50
    __torch_function__: ClassVar[Any] = disabled_torch_function
    _has_array = False

    _local: Tensor
    _layout: Layout
    #: It stands for a view whose memory is not that of what it is a view of.
    _is_copied_view: bool
    #: It shares the memory of another DTensor.
    _is_view_of_other: bool

    def __new__(
        cls, local_tensor: Any = None, spec: Any = None, *, requires_grad: bool = False
    ) -> "DTensor":
        raise ArgumentError(
            f"{cls.__name__}(): expected DTensor.from_local(part, mesh, placements), or "
            "distribute_tensor(whole, mesh, placements)."
        )

    # -- making and asking -------------------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> "DTensor":
        """A tensor of which every process gives its part; gradients flow back into the parts.

        Args:
            local_tensor: the part.
            device_mesh: the processes; None: those of the `with mesh:` around.
            placements: one for each dim of the mesh; None: every process gives the whole.
            run_check: compare the shapes of all processes, and let those that have the whole have
                the first one's.
            shape: of the whole; None: parts are of one size.
            stride: accepted; the whole has no memory.
            grad_placements: where the gradient is to lie that the parts get.

        Raises:
            ArgumentError: it is no tensor, or a DTensor.
            InvalidValueError: placements do not fit the mesh, or shapes each other.
            ShapeError: the part is not the one that `shape` means, or this process is outside.
            BoundsError: there is no such dim.
        """
        if not isinstance(local_tensor, Tensor):
            raise ArgumentError(f"from_local: expected a tensor, got {type(local_tensor).__name__}")
        if isinstance(local_tensor, DTensor):
            raise ArgumentError("from_local: expected a plain tensor, got a DTensor.")
        mesh = device_mesh if device_mesh is not None else current_mesh()
        found = checked_placements(placements, mesh, local_tensor.ndim, "from_local")
        given = None
        if grad_placements is not None:
            given = checked_placements(grad_placements, mesh, local_tensor.ndim, "from_local")
        whole = _whole_shape(local_tensor, mesh, found) if shape is None else tuple(shape)
        layout = Layout(mesh, found, whole)
        local = _checked_part(local_tensor, layout, run_check)
        return _from_local(local, layout, given)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part; gradients flow back.

        Args:
            grad_placements: where the gradient lies of which every process will have a part; None:
                as the tensor does, the whole where it is a part of a sum.

        Raises:
            InvalidValueError, BoundsError: they do not fit.
        """
        if grad_placements is None:
            given = for_gradient(self.placements)
        else:
            given = checked_placements(grad_placements, self.device_mesh, self.ndim, "to_local")
        if not needs_grad((self,)):
            return _alias(self._local)
        found = _alias(self._local)
        _tensor.attach(found, ToLocalBackward(self, self._layout.with_placements(given)), 0)
        return found

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: DType | None = None,
        backward_dtype: DType | None = None,
    ) -> "DTensor":
        """The same tensor, placed otherwise; gradients flow back.

        Args:
            device_mesh: None, or the tensor's own.
            placements: the new ones.
            async_op: accepted; processes wait for each other here.
            forward_dtype: of the result; None: the tensor's own.
            backward_dtype: refused.

        Raises:
            UnsupportedError: another mesh, or another `backward_dtype`, is asked for.
            ArgumentError: no placements are given.
            InvalidValueError, BoundsError: they do not fit.
        """
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise UnsupportedError(
                f"redistribute: the tensor is on {self.device_mesh!r}, asked for was "
                f"{device_mesh!r}.  Cross device mesh comm is not supported: take full_tensor() "
                "and distribute_tensor."
            )
        if placements is None:
            raise ArgumentError("redistribute: placements is needed for redistribute!")
        if backward_dtype not in (None, self.dtype):
            raise UnsupportedError("redistribute: backward_dtype is not available.")
        found = checked_placements(placements, self.device_mesh, self.ndim, "redistribute")
        given: Any = self if forward_dtype in (None, self.dtype) else self.to(forward_dtype)
        return placed(given, found)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole, in every process; all processes of the mesh call this. Gradients flow back.

        Args:
            grad_placements: where the gradient of the whole lies; None: everywhere.
        """
        whole = placed(self, (Replicate(),) * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._layout.mesh

    @property
    def placements(self) -> Placements:
        """Where the tensor lies, by the dims of the mesh."""
        return self._layout.placements

    @property
    def _local_tensor(self) -> Tensor:
        return self._local

    @property
    def device(self) -> Any:
        """Where the part is."""
        return self._local.device

    def stride(self, dim: int | None = None) -> Any:
        """Steps of the whole, as if it lay row by row."""
        steps: list[int] = []
        step = 1
        for size in reversed(self.shape):
            steps.insert(0, step)
            step *= max(size, 1)
        return tuple(steps) if dim is None else steps[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True: see `stride`."""
        return True

    def contiguous(self, memory_format: Any = None) -> "DTensor":
        """The tensor itself."""
        return self

    @property
    def _is_mirrored(self) -> bool:
        return False

    def _mirrors(self) -> tuple[bool, bool]:
        return False, False

    # -- numbers -----------------------------------------------------------------------------

    def item(self) -> Any:
        """The number in a tensor of one element; all processes of the mesh call this."""
        return self._whole_value().item()

    def tolist(self) -> Any:
        """The whole as nested lists; all processes of the mesh call this."""
        return self._whole_value().tolist()

    def _whole_value(self) -> Tensor:
        return moved_whole(self)

    def __bool__(self) -> bool:
        return bool(self._whole_value())

    def __float__(self) -> float:
        return float(self._whole_value())

    def __int__(self) -> int:
        return int(self._whole_value())

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __format__(self, specification: str) -> str:
        return format(self._whole_value() if specification else repr(self), specification)

    def __repr__(self, **options: Any) -> str:
        return (
            f"{type(self).__name__}(local_tensor={self._local!r}, "
            f"device_mesh={self.device_mesh!r}, placements={self.placements!r})"
        )

    __str__ = __repr__

    # -- data --------------------------------------------------------------------------------

    @property  # type: ignore[override]
    def data(self) -> "DTensor":
        """The same elements without history."""
        return made(self._local.data, self._layout)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor):
            raise ArgumentError(f"data: expected a DTensor, got {type(value).__name__}")
        if (value.shape, value.dtype, value.device) != (self.shape, self.dtype, self.device):
            TensorBase.array.__set__(self, _placeholder(value._local, value._layout.shape))
        self._local, self._layout = value._local, value._layout

    def _as_parameter(self, requires_grad: bool) -> "DTensor":
        raise NotImplementedError  # set by `parameters`

    def _kept_for_backward(self) -> Any:
        raise NotImplementedError  # set by `running`

    def _stepped_in_parts(
        self, update: Callable[..., None], state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Step a parameter, part by part: as of whole tensors, and several times quicker.

        Args:
            update: `update(parameter, gradient, state, group)` of an optimizer, which computes
                each element from those in its place.
            state: of the parameter; what lies as it does is given to `update` in parts.
        """
        others = [x.placements for x in state.values() if isinstance(x, DTensor)]
        is_partial = any(isinstance(placement, Partial) for placement in self.placements)
        if is_partial or any(placements != self.placements for placements in others):
            update(self, self.grad, state, group)
            return
        gradient = placed(as_gradient(self.grad, self._layout), self.placements)
        parts = {name: x._local if isinstance(x, DTensor) else x for name, x in state.items()}
        given = dict(parts)
        update(self._local, gradient._local, parts, group)
        _tensor.bump_version(self)
        for name, value in parts.items():
            known = state.get(name)
            if value is given.get(name):
                if isinstance(known, DTensor):
                    _tensor.bump_version(known)
            elif isinstance(value, Tensor) and value.ndim and value.shape == self._local.shape:
                state[name] = made(value, self._layout)
            else:
                state[name] = value

    def _made_alike(self, make: Callable[[tuple[int, ...]], Any]) -> "DTensor":
        """A tensor of the same shape and placements, of parts that are made.

        Args:
            make: from the shape of a part.
        """
        layout = self._layout.with_placements(for_gradient(self.placements))
        return made(make(layout.local_shape()), layout)

    def _part_of_whole(self, whole: Any) -> "DTensor":
        """A whole that every process has, placed as this tensor if it has its shape."""
        layout = Layout(
            self.device_mesh, (Replicate(),) * self.device_mesh.ndim, tuple(whole.shape)
        )
        if tuple(whole.shape) != tuple(self.shape):
            return made(whole, layout)
        placements = for_gradient(self.placements)
        return made(moved(whole, layout, placements), layout.with_placements(placements))

    def untyped_storage(self) -> Any:
        """The memory of the part."""
        return self._local.untyped_storage()

    def data_ptr(self) -> int:
        """The address of the part."""
        return self._local.data_ptr()

    def is_pinned(self, device: Any = None) -> bool:
        """Of the part."""
        return self._local.is_pinned()

    def cpu(self, memory_format: Any = None) -> Any:
        """The parts in this machine's memory."""
        return self.to("cpu")

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Any:
        """The parts on GPUs."""
        return self.to("cuda" if device is None else device)

    def __deepcopy__(self, memo: dict[int, Any]) -> "DTensor":
        if id(self) in memo:
            known: DTensor = memo[id(self)]
            return known
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment.  Take detach().clone()."
            )
        copied = made_as(type(self), copy.deepcopy(self._local, memo), self._layout)
        copied.requires_grad = self.requires_grad
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(_own_fields(self), memo))
        return copied

    def __copy__(self) -> "DTensor":
        if not self.is_leaf:
            alias: DTensor = self.view_as(self)
            return alias
        copied = made_as(type(self), self._local, self._layout)
        copied.requires_grad = self.requires_grad
        return copied

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise UnsupportedError(
            "pickling a DTensor: processes have its parts, and a mesh belongs to a run.  Save "
            "full_tensor(), or use distributed.checkpoint."
        )


_FIELDS: Final = frozenset(("_local", "_layout", "_is_copied_view", "_is_view_of_other"))


def _own_fields(x: DTensor) -> dict[str, Any]:
    """What users stored in the tensor by name."""
    return {name: value for name, value in vars(x).items() if name not in _FIELDS}


# -- making ----------------------------------------------------------------------------------------


def made_as(cls: type[_D], local: Any, layout: Layout, source: Any = None) -> _D:
    """A tensor of class `cls` around a part, without history.

    Args:
        local: the part by `layout`.
        source: a DTensor whose memory it shares.
    """
    storage = None if source is None else source._storage
    x = _tensor.new_of(cls, _placeholder(local, layout.shape), storage)
    x._local, x._layout, x._is_copied_view = _plain(local), layout, False
    x._is_view_of_other = source is not None
    return x


def made(local: Any, layout: Layout, source: Any = None) -> DTensor:
    """A DTensor around a part: see `made_as`."""
    return made_as(DTensor, local, layout, source)


def _placeholder(local: Any, shape: tuple[int, ...]) -> Any:
    if local.device is CPU:
        return without_elements(shape, local.dtype)
    one = TABLE.full(0, shape=(), dtype=local.dtype, device=local.device)
    return TABLE.expand(one, shape=shape).array


def _plain(local: Any) -> Any:
    return TABLE.detach(local) if local.requires_grad else local


def _alias(local: Tensor) -> Tensor:
    """Another tensor on the same memory, without history."""
    alias: Tensor = TABLE.detach(local)
    return alias


def replicated(x: TensorBase, mesh: DeviceMesh) -> DTensor:
    """A plain tensor that every process has the same of."""
    layout = Layout(mesh, (Replicate(),) * mesh.ndim, tuple(x.shape))
    return _from_local(x, layout, None)


def moved_whole(x: DTensor) -> Tensor:
    """The whole without history; all processes of the mesh call this."""
    return moved(x._local, x._layout, (Replicate(),) * x.device_mesh.ndim)


def _whole_shape(local: Tensor, mesh: DeviceMesh, placements: Placements) -> tuple[int, ...]:
    shape = list(local.shape)
    for at, placement in enumerate(placements):
        if isinstance(placement, Shard):
            shape[placement.dim] *= mesh.size(at)
    return tuple(shape)


def _checked_part(local: Tensor, layout: Layout, run_check: bool) -> Tensor:
    expected = layout.local_shape()
    if tuple(local.shape) != expected:
        raise ShapeError(
            f"from_local: this process gives a part of shape {tuple(local.shape)}, where "
            f"{layout.placements} of shape {layout.shape} on {layout.mesh!r} means {expected}.  "
            "Parts are those of Tensor.chunk."
        )
    if not run_check:
        return local
    with_sizes = tensor([float(size) for size in layout.shape] or [0.0])
    for at in range(layout.mesh.ndim):
        group, count = layout.mesh.get_group(at), layout.mesh.size(at)
        every = empty(count * with_sizes.numel())
        all_gather_into_tensor(every, with_sizes, group=group)
        if every.reshape(count, -1).ne(with_sizes).any():
            raise InvalidValueError(
                f"from_local: processes mean tensors of different shapes, {layout.shape} here.  "
                "Give shape=, that of the whole, where parts differ in size."
            )
        if isinstance(layout.placements[at], Replicate):
            local = local.detach().clone().requires_grad_(local.requires_grad)
            broadcast(local.detach(), group=group, group_src=0)
    return local


# -- gradients of moves ----------------------------------------------------------------------------


def _from_local(local: Any, layout: Layout, gradient: Placements | None) -> DTensor:
    found = made(local, layout)
    if needs_grad((local,)):
        wanted = for_gradient(layout.placements) if gradient is None else gradient
        _tensor.attach(found, FromLocalBackward(local, layout.with_placements(wanted)), 0)
    return found


def from_part(local: Any, layout: Layout) -> DTensor:
    """A DTensor of a part that is known to be the one by `layout`; gradients flow back."""
    return _from_local(local, layout, None)


def placed(x: DTensor, placements: Placements) -> DTensor:
    """A tensor by other placements; gradients flow back."""
    if x.placements == placements:
        return x
    layout = x._layout
    found = made(moved(x._local, layout, placements), layout.with_placements(placements))
    if needs_grad((x,)):
        back = layout.with_placements(for_gradient(layout.placements))
        _tensor.attach(found, RedistributeBackward(x, back), 0)
    return found


def as_gradient(g: Any, layout: Layout) -> DTensor:
    """A gradient that arrives, as a DTensor: a plain one is the whole."""
    return g if isinstance(g, DTensor) else replicated(g, layout.mesh)


class _Move(Node):
    """A node that only moves parts. Immutable but for what the engine does.

    Args:
        x: its input.
        layout: how the gradient of the input lies, or is to lie.
    """

    __slots__ = ("layout",)

    def __init__(self, x: Any, layout: Layout) -> None:
        super().__init__(*edges_of((x,)))
        self.layout = layout


class FromLocalBackward(_Move):
    """From the gradient of a DTensor to that of the part that a process gave."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = placed(as_gradient(gradients[0], self.layout), self.layout.placements)
        return [g.to_local()]


class ToLocalBackward(_Move):
    """From the gradient of a part to that of a DTensor."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        (g,) = gradients
        if tuple(g.shape) != self.layout.local_shape():
            raise ShapeError(
                f"to_local: the part got a gradient of shape {tuple(g.shape)}, and grad_placements "
                f"{self.layout.placements} mean {self.layout.local_shape()}."
            )
        return [_from_local(g, self.layout, None)]


class RedistributeBackward(_Move):
    """From the gradient of a tensor to that of itself, placed otherwise."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        return [placed(as_gradient(gradients[0], self.layout), self.layout.placements)]


# -- what a DTensor refuses ------------------------------------------------------------------------

#: What of `Tensor` itself means the same here; `writing` has the in-place methods.
_ALLOWED: Final = OF_ALL_TENSORS | frozenset((
    "__dynajit_handler__", "__iter__", "__reduce__", "__setstate__", "_has_tangent", "detach_",
    "dim", "is_meta", "is_shared", "layout", "share_memory_", "size", "to",
))  # fmt: skip


def _refusing(name: str) -> Any:
    def refuse(self: DTensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(MSG_NO_ELEMENTS.format(name=name))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: this process has a part alone."
    return refuse


def _restrict() -> None:
    """Let the class have methods that are written over rows, and refuse all others."""
    inherited = {c for c in Tensor.__mro__ if c not in TensorMethods.__mro__}
    own = vars(DTensor).keys()
    for name in {name for c in inherited for name in vars(c)} - _ALLOWED - own:
        over_rows = getattr(TensorMethods, name, None)
        if over_rows is not None and not name.startswith("__"):
            member = next(vars(c)[name] for c in TensorMethods.__mro__ if name in vars(c))
            setattr(DTensor, name, member)
        elif isinstance(getattr(Tensor, name), property) or name in ("array", "_held", "_memory"):
            setattr(DTensor, name, property(_refusing(name)))
        elif callable(getattr(Tensor, name)):
            setattr(DTensor, name, _refusing(name))


_restrict()
