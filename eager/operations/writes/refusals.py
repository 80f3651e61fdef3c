"""Which writes into tensors are refused, and how that is said.

Contract: a refusal comes before anything is written. A write may lose no gradient, reach no element
twice, and touch no memory that is not the tensor's to write.
"""

from collections.abc import Iterable
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError, DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager import _tensor
from dynajit.eager._tensor import (
    TensorBase,
    has_mirrored,
    is_grad_enabled,
    is_inference_mode_enabled,
)
from dynajit.eager.modes import write_limits
from dynajit.eager.operations.duals import has_overlap

MSG_LEAF: Final = (
    "{name}: a leaf Variable that requires grad is being used in an in-place operation.  Write "
    "under no_grad(), or use the out-of-place form."
)


MSG_VIEW_OF_LEAF: Final = (
    "{name}: a view of a leaf Variable that requires grad is being used in an in-place "
    "operation.  Write under no_grad(), or to a clone()."
)


MSG_VIEW_NO_GRAD: Final = (
    "{name}: A view was created in no_grad mode and is being modified inplace with grad mode "
    "enabled, which is ambiguous.  Make the view with gradients on, write under no_grad(), or "
    "write to a clone()."
)


MSG_INFERENCE: Final = (
    "{name}: Inplace update to inference tensor outside InferenceMode is not allowed.  Write to a "
    "clone()."
)


MSG_OVERLAP: Final = (
    "{name}: unsupported operation: more than one element of the written-to tensor refers to a "
    "single memory location. Please clone() the tensor before performing the operation."
)


MSG_PARTIAL_OVERLAP: Final = (
    "{name}: unsupported operation: some elements of the input tensor and the written-to tensor "
    "refer to a single memory location. Please clone() the tensor before performing the operation."
)


MSG_PARTS: Final = (
    "{name}: the tensor is one of several views that one call returned (split, chunk, unbind, "
    "iteration), and gradients are recorded: such views do not allow in-place writes.  Use "
    "narrow(), an index, or the out-of-place form."
)


MSG_READ_ONLY: Final = (
    "{name}: the memory of this tensor is read-only (it comes from a read-only NumPy array).  "
    "Write to a clone()."
)


def refuse_inference(tensor: Any, name: str) -> None:
    """Refuse a write to what was made in inference mode, outside of it: no version is counted.

    Raises:
        AutogradError: that is the case.
    """
    if tensor._storage.is_inference and not is_inference_mode_enabled():
        raise AutogradError(MSG_INFERENCE.format(name=name))


def refuse_recorded(tensor: Any, name: str) -> None:
    """Refuse what a gradient could not follow, while gradients are recorded: a write to a leaf that
    requires one, or to a view of one, or to a view of what requires one that was not recorded.

    Raises:
        AutogradError: that is the case.
    """
    if not is_grad_enabled():
        return
    if tensor.requires_grad and tensor.is_leaf:
        raise AutogradError(MSG_LEAF.format(name=name))
    base = tensor._base
    if base is None:
        return
    # A view with a gradient of what has none looks at a leaf that is a view itself.
    if base.is_leaf if base.requires_grad else tensor.requires_grad:
        raise AutogradError(MSG_VIEW_OF_LEAF.format(name=name))
    if base.requires_grad and tensor._replay is None:
        raise AutogradError(MSG_VIEW_NO_GRAD.format(name=name))


def refuse_part(tensor: Any, name: str) -> None:
    """Refuse a write, which is recorded, to one of several views that one call returned.

    Raises:
        AutogradError: it is one.
    """
    if tensor._is_part:
        raise AutogradError(MSG_PARTS.format(name=name))


def check_writable(tensor: Any, name: str) -> None:
    """Refuse writes that would lose a gradient or that the memory does not allow.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, or a view of one, or was made in
            inference mode.
        ShapeError: elements overlap in memory, or the memory is read-only.
        UnsupportedError: within `vmap`, the tensor is the same for all samples.
    """
    if _tensor.are_writes_checked():
        write_limits.check_write(tensor, name)
    refuse_inference(tensor, name)
    refuse_recorded(tensor, name)
    array = tensor._memory
    if array.flags.c_contiguous and any_arrays.is_writable(array):
        return
    if has_overlap(array):
        raise ShapeError(MSG_OVERLAP.format(name=name))
    if not any_arrays.is_writable(array):
        base = tensor._base
        if base is None or not base._memory.flags.writeable:
            raise ShapeError(MSG_READ_ONLY.format(name=name))
        array.flags.writeable = True  # part of an expanded view, in which no elements overlap


def refuse_partial_overlap(tensor: Any, operands: Iterable[Any], name: str) -> None:
    """Refuse a write to a tensor that shares memory with an operand, element by other element.

    Raises:
        ShapeError: one does.
    """
    for operand in operands:
        if not isinstance(operand, TensorBase) or operand is tensor:
            continue
        # Values of conjugate views are new arrays; `copy_` alone takes them as they lie.
        is_seen = name != "copy_" and has_mirrored((tensor, operand))
        if not is_seen and any_arrays.overlap_partly(tensor._memory, operand._memory):
            raise ShapeError(MSG_PARTIAL_OVERLAP.format(name=name))


def require_own_dtype(name: str, dtype: DType) -> None:
    """Check forms whose result would have another dtype than the tensor, of the same category.

    Raises:
        DTypeError: the in-place form of a function of this name is refused for the dtype.
    """
    if name in ("abs", "absolute") and dtype.is_complex:
        raise DTypeError(
            f"{name}_: In-place abs is not supported for complex tensors.  Use {name}()."
        )
    if name == "float_power" and dtype not in (dtypes.float64, dtypes.complex128):
        raise DTypeError(
            f"float_power_: the base has dtype {dtype.name}, and the result float64 or complex128."
            "  Use float_power()."
        )
