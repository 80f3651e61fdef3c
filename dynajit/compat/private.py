"""Private functions of PyTorch's that programs call: by `_utils` and `_C._nn`."""

from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.types.device import parse
from dynajit.core.types.dtypes import DType
from dynajit.core.types.memory_format import contiguous_format
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import module
from dynajit.ops.functions import cat


def _assert(condition: Any, message: Any) -> None:
    """`assert`, as a function.

    Raises:
        AssertionError: the condition does not hold.
    """
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Refuse a tensor whose single element is zero; on GPUs, too, it is looked at now.

    Raises:
        ShapeError, a RuntimeError: it is zero, or there are other than one element.
    """
    try:
        assert input
    except AssertionError:
        message = assert_msg or "Expected Tensor with single nonzero value, but got zero"
        raise ShapeError(message) from None


def _element_size(dtype: DType) -> int:
    """Bytes per element."""
    return dtype.itemsize


def is_contiguous_or_false(a: Tensor, /, *, memory_format: Any = contiguous_format) -> bool:
    """Whether elements lie row by row; sizes are known, so there is always an answer."""
    return a.is_contiguous(memory_format=memory_format)


def _flatten_dense_tensors(tensors: Any) -> Any:
    """All elements of dense tensors of one dtype, one tensor after the other, in one dim."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    """Views of `flat`, which `_flatten_dense_tensors` made, with the shapes of the tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, DType | None, bool, Any]:
    """What `Module.to` was asked for: (device or None, dtype or None, non_blocking, memory format).

    Raises:
        ArgumentError: a dtype that no module can have.
    """
    memory_format = kwargs.pop("memory_format", None)
    device, dtype, non_blocking = module._parse_to(args, kwargs)
    return None if device is None else parse(device), dtype, non_blocking, memory_format
