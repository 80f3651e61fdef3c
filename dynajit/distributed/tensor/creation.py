"""DTensors from whole tensors, and from nothing but a shape.

Contract: what processes draw at random is a part of the numbers that one process would draw: all
have generators in the same state, and draw all numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dynajit.core.errors import (
    AutogradError,
    ExpectationError,
    InvalidValueError,
    UnsupportedError,
)
from dynajit.core.types.dtypes import DType
from dynajit.core.types.tensor_layouts import strided
from dynajit.distributed.collectives import broadcast
from dynajit.distributed.device_mesh import DeviceMesh, current_mesh
from dynajit.distributed.tensor.dtensor import DTensor, made
from dynajit.distributed.tensor.layouts import Layout, checked_placements
from dynajit.distributed.tensor.moves import moved
from dynajit.distributed.tensor.parameters import as_parameter
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate
from dynajit.eager.tensor import creation
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.parameter import Parameter
from dynajit.ops.functions.creation import creation as filled


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A leaf of which every process keeps its part.

    Args:
        tensor: the whole: of the process at `src_data_rank` of each dim of the mesh, whose values
            all get; others give one of the same shape and dtype.
        device_mesh: the processes; None: those of the `with mesh:` around.
        placements: one for each dim of the mesh; None: every process keeps the whole.
        src_data_rank: None: every process has the same whole, and nothing is sent.

    Returns:
        A parameter, if `tensor` is one.

    Raises:
        AutogradError: it is no leaf.
        InvalidValueError: placements do not fit the mesh, or a DTensor was given that is placed
            otherwise.
        ShapeError: a placement is `Partial` (a RuntimeError), or this process is outside.
        BoundsError: there is no such dim.
    """
    mesh = device_mesh if device_mesh is not None else current_mesh()
    if not tensor.is_leaf:
        raise AutogradError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf "
            "tensor!  Use DTensor.from_local and redistribute, or detach() first."
        )
    found = checked_placements(placements, mesh, tensor.ndim, "distribute_tensor")
    if isinstance(tensor, DTensor):
        _check_same(tensor, mesh, found)
        return tensor
    if any(isinstance(placement, Partial) for placement in found):
        raise AutogradError(
            f"Trying to distribute tensor with unsupported placements {found}: a whole is no part "
            "of a sum.  Use Shard or Replicate, then redistribute."
        )
    whole = tensor.detach()
    layout = Layout(mesh, (Replicate(),) * mesh.ndim, tuple(tensor.shape))
    layout.coordinate()
    if src_data_rank is not None and not whole.is_meta:
        whole = _from_source(whole, mesh, src_data_rank)
    local = moved(whole, layout, found)
    if local is whole or local._storage is tensor._storage:
        local = local.clone() if not isinstance(tensor, Parameter) else local
    result = made(local, layout.with_placements(found))
    result.requires_grad = tensor.requires_grad
    if isinstance(tensor, Parameter):
        return as_parameter(result, tensor.requires_grad)
    return result


def _from_source(whole: Tensor, mesh: DeviceMesh, source: int) -> Tensor:
    """The values of one process, in all."""
    if mesh.size() == 1:
        return whole
    sent: Tensor = whole.clone().contiguous()
    for at in range(mesh.ndim):
        if mesh.size(at) > 1:
            broadcast(sent, group=mesh.get_group(at), group_src=source)
    return sent


def _check_same(tensor: DTensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> None:
    if tensor.device_mesh != mesh:
        raise InvalidValueError(
            f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different "
            f"device mesh {mesh}."
        )
    if tensor.placements != placements:
        raise InvalidValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
            f"placements {placements}. do you want to call `redistribute` instead?"
        )


def _from_shape(
    name: str,
    make: Callable[..., Tensor],
    size: Sequence[Any],
    options: dict[str, Any],
    needs_whole: bool = False,
) -> DTensor:
    mesh, placements = options.pop("device_mesh"), options.pop("placements")
    requires_grad, layout = options.pop("requires_grad"), options.pop("layout")
    if layout is not strided:
        raise ExpectationError(f"{name}: layout={layout!r}.  Expected torch.strided.")
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    mesh = mesh if mesh is not None else current_mesh()
    found = checked_placements(placements, mesh, len(shape), name)
    if any(isinstance(placement, Partial) for placement in found):
        raise UnsupportedError(f"{name}: placements {found}.  Expected Shard or Replicate.")
    where = Layout(mesh, found, shape)
    if needs_whole:
        whole = Layout(mesh, (Replicate(),) * mesh.ndim, shape)
        local = moved(make(shape, **options), whole, found)
    else:
        local = make(where.local_shape(), **options)
    result = made(local, where)
    result.requires_grad = requires_grad
    return result


def empty(
    *size: Any,
    dtype: DType | None = None,
    layout: Any = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Undefined elements.

    Args:
        size: of the whole: numbers, or a sequence.
        device_mesh: the processes; None: those of the `with mesh:` around.
        placements: one for each dim of the mesh; None: every process has the whole.

    Raises:
        InvalidValueError, BoundsError: placements do not fit.
    """
    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("empty", creation.empty, size, options)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: Any = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Zeros; arguments and errors as of `empty`."""
    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("zeros", filled.zeros, size, options)


def ones(
    *size: Any,
    dtype: DType | None = None,
    layout: Any = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Ones; arguments and errors as of `empty`."""
    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("ones", filled.ones, size, options)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """One number everywhere; arguments and errors as of `empty`."""

    def make(shape: tuple[int, ...], **options: Any) -> Tensor:
        found: Tensor = filled.full(shape, fill_value, **options)
        return found

    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("full", make, (size,), options)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: Any = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Uniform numbers in [0, 1), those that one process would draw; arguments and errors as of
    `empty`."""
    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("rand", filled.rand, size, options, needs_whole=True)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: Any = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Standard normal numbers, those that one process would draw; arguments and errors as of
    `empty`."""
    options = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad,
               "device_mesh": device_mesh, "placements": placements}  # fmt: skip
    return _from_shape("randn", filled.randn, size, options, needs_whole=True)
