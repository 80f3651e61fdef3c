"""Names of tensor classes by element type, such as "torch.FloatTensor": what `Tensor.type` speaks.

Contract: PyTorch's names, since programs compare with them and pass them.
"""

from typing import Any, Final

from dynajit.core.errors import InvalidValueTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

TYPE_NAMES: Final[dict[str, DType]] = {
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "LongTensor": dtypes.int64,
    "IntTensor": dtypes.int32,
    "ShortTensor": dtypes.int16,
    "CharTensor": dtypes.int8,
    "ByteTensor": dtypes.uint8,
    "BoolTensor": dtypes.bool_,
    "ComplexFloatTensor": dtypes.complex64,
    "ComplexDoubleTensor": dtypes.complex128,
}
_STORED: Final[dict[str, DType]] = {
    f"{dtype.name.replace('uint', 'UInt').replace('float', 'Float')}Tensor": dtype
    for dtype in dtypes.STORED
}
"""Names of classes that there are not: tensors of these dtypes are asked for theirs."""
_NAME_OF: Final[dict[DType, str]] = {dtype: name for name, dtype in (TYPE_NAMES | _STORED).items()}


def name_of(dtype: DType, is_cuda: bool = False) -> str:
    """The name of tensors of `dtype` on the CPU, or on a GPU."""
    return f"torch.cuda.{_NAME_OF[dtype]}" if is_cuda else f"torch.{_NAME_OF[dtype]}"


def type_named(type: Any) -> tuple[DType, bool | None]:
    """The dtype that `type` names, and whether it means tensors on a GPU; None: on any device.

    Args:
        type: a dtype, "torch.FloatTensor", "torch.cuda.FloatTensor", or a class with a `dtype`.

    Raises:
        InvalidValueError: nothing has that name.
    """
    if isinstance(type, DType):
        return type, None
    if isinstance(type, str):
        path, _, name = type.rpartition(".")
        found, is_cuda = (TYPE_NAMES | _STORED).get(name), path == "torch.cuda"
    else:
        found, is_cuda = getattr(type, "dtype", None), getattr(type, "is_cuda", False)
    if not isinstance(found, DType):
        raise InvalidValueTypeError(
            f"type({type!r}): invalid type.  Expected a dtype, or its class."
        )
    return found, is_cuda
