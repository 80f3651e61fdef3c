"""Names of tensor classes by element type, such as "torch.FloatTensor": what `Tensor.type` speaks.

Contract: PyTorch's names, since programs compare with them and pass them. Called by `eager.tensor`.
"""

from typing import Any, Final

from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import InvalidValueError

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
_NAME_OF: Final[dict[DType, str]] = {dtype: name for name, dtype in TYPE_NAMES.items()}


def name_of(dtype: DType) -> str:
    """The name of tensors of `dtype`."""
    return f"torch.{_NAME_OF[dtype]}"


def dtype_named(type: Any) -> DType:
    """The dtype that `type` names: a dtype, "torch.FloatTensor", or a class with a `dtype`.

    Raises:
        InvalidValueError: nothing has that name.
    """
    if isinstance(type, DType):
        return type
    found = TYPE_NAMES.get(type.rpartition(".")[2]) if isinstance(type, str) else None
    found = getattr(type, "dtype", None) if found is None else found
    if not isinstance(found, DType):
        raise InvalidValueError(f"type({type!r}): invalid type.  Expected a dtype, or its class.")
    return found
