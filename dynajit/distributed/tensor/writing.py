"""Writing into DTensors: the in-place methods.

Contract: as of other tensors, a method computes its out-of-place form and writes the result, placed
as the tensor is, into this process's part; the write counts in the version, and where gradients are
recorded the tensor gets the result's history. A view shares the memory of what it is a view of, or
refuses to be written: nothing is lost silently. Installed on the class when this is imported.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import ArgumentError, AutogradError, ShapeError, UnsupportedError
from dynajit.core.types.dtypes import bool_
from dynajit.distributed.tensor.dtensor import DTensor, placed, replicated
from dynajit.distributed.tensor.running import implicit_replication
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.operations.writes.methods import NAMES
from dynajit.eager.operations.writes.refusals import MSG_LEAF, require_own_dtype
from dynajit.ops.calls.signatures import describe_in_place
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table.op_table import TABLE

MSG_COPIED: Final = (
    "{name}: this DTensor is a view whose elements had to be sent, so what it is a view of would "
    "not be written.  Write to that tensor itself, or to a clone()."
)
MSG_CHOSEN: Final = (
    "__setitem__: positions of a DTensor are chosen by a tensor.  Use torch.where, index_put or "
    "scatter, whose results are new tensors; or slices, or a mask of the same shape with a number."
)
MSG_RECORDED_VIEW: Final = (
    "{name}: a view of a DTensor is written in place while gradients are recorded, which is not "
    "available.  Use the out-of-place form, or write under no_grad()."
)


def write(x: DTensor, value: Any, name: str) -> DTensor:
    """Write a value, a tensor of the same shape, or one that broadcasts to it, or a number.

    Args:
        name: of the method, for messages.

    Raises:
        AutogradError: gradients are recorded, and the tensor is a view, or a leaf that requires
            one.
        UnsupportedError: it stands for a view that was sent.
        ShapeError: shapes do not fit.
    """
    is_recorded = is_grad_enabled() and (
        x.requires_grad or (isinstance(value, TensorBase) and value.requires_grad)
    )
    if is_recorded and x.is_leaf and x.requires_grad:
        raise AutogradError(MSG_LEAF.format(name=name))
    if is_recorded and x._is_view_of_other:
        raise AutogradError(MSG_RECORDED_VIEW.format(name=name))
    if x._is_copied_view:
        raise UnsupportedError(MSG_COPIED.format(name=name))
    given = _fitting(x, value, name)
    with no_grad():
        x._local.copy_(given._local)
    _tensor.bump_version(x)
    if is_recorded:
        _tensor.rebase(x, given.grad_fn, given.output_index)
    return x


def _fitting(x: DTensor, value: Any, name: str) -> DTensor:
    """A value with the shape, the dtype and the placements of a tensor."""
    if not isinstance(value, TensorBase):
        if not isinstance(value, (bool, int, float, complex)):
            raise ArgumentError(
                f"{name}: expected a tensor or a number, got {type(value).__name__}"
            )
        value = TABLE.full(value, shape=(), dtype=x.dtype, device=x.device)
    if not isinstance(value, DTensor):
        value = replicated(value, x.device_mesh)
    if value.dtype is not x.dtype:
        value = TABLE.cast(value, dtype=x.dtype)
    shape = tuple(x.shape)
    if tuple(value.shape) != shape:
        if value.ndim > len(shape):
            raise ShapeError(
                f"{name}: a value of shape {tuple(value.shape)} does not broadcast to {shape}."
            )
        value = TABLE.expand(value, shape=shape)
    found: DTensor = placed(value, x.placements)
    return found


def _in_place(name: str, written: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        require_own_dtype(name, self.dtype)
        found = getattr(self, name)(*args, **kwargs)
        if tuple(found.shape) != tuple(self.shape):
            raise ShapeError(
                f"{written}: output with shape {list(self.shape)} doesn't match the broadcast "
                f"shape {list(found.shape)}."
            )
        return write(self, found, written)

    method.__name__ = method.__qualname__ = written
    describe_in_place(method, getattr(TensorMethods, name), "self")
    return method


_OPERATORS: Final = {
    "__iadd__": "__add__", "__isub__": "__sub__", "__imul__": "__mul__",
    "__itruediv__": "__truediv__", "__ifloordiv__": "__floordiv__", "__imod__": "__mod__",
    "__ipow__": "__pow__", "__iand__": "__and__", "__ior__": "__or__", "__ixor__": "__xor__",
}  # fmt: skip


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the elements of `src`, broadcast and cast; a plain tensor is the whole."""
    return write(self, src, "copy_")


def _fill_(self: Any, value: Any) -> Any:
    """Set every element to a number or zero-dim tensor."""
    return write(self, value, "fill_")


def _zero_(self: Any) -> Any:
    """Set every element to 0."""
    return write(self, 0, "zero_")


def _take(self: Any, value: Any, name: str) -> Any:
    """Hold random numbers that `name` drew: every process draws those of the whole."""
    return write(self, value, name)


def _set_item(self: Any, index: Any, value: Any) -> None:
    """Write a part: see `write`.

    Raises:
        UnsupportedError: positions are chosen by a tensor, which is no mask of the same shape, or
            the value then is no number.
    """
    with implicit_replication():
        if _is_mask(self, index) and isinstance(value, (bool, int, float, complex)):
            write(self, self.masked_fill(index, value), "__setitem__")
            return
        part = self[index]
        if part is not self and not (part._is_view_of_other or part._is_copied_view):
            raise UnsupportedError(MSG_CHOSEN)
        write(part, value, "__setitem__")


def _is_mask(x: DTensor, index: Any) -> bool:
    return isinstance(index, DTensor) and index.dtype is bool_ and index.shape == x.shape


def _install() -> None:
    methods: dict[str, Callable[..., Any]] = {
        "copy_": _copy_, "fill_": _fill_, "zero_": _zero_, "_take": _take, "__setitem__": _set_item,
    }  # fmt: skip
    for name in NAMES:
        if hasattr(TensorMethods, name):
            methods[f"{name}_"] = _in_place(name, f"{name}_")
    for operator, name in _OPERATORS.items():
        methods[operator] = _in_place(name, operator)
    for name, method in methods.items():
        if name in ("copy_", "fill_", "zero_", "__setitem__"):
            method.__name__ = method.__qualname__ = name
        setattr(DTensor, name, method)


_install()

__all__ = ["write"]
