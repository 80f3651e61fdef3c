"""What programs use of `onnx` whether they export or not; the export itself is refused.

Contract: what programs register for an export is accepted, since it is never asked for; decorators
give back what they decorate.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, TypeVar

from dynajit.core.types.dtypes import int64
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor

_T = TypeVar("_T")


class TrainingMode(Enum):
    """What an export would do with the mode of a model."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """What an export would make of operators."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(IntEnum):
    """ONNX's numbers of dtypes: names to pass on."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Accepted: how an export would write an operator; the export itself is refused."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted, as `register_custom_op_symbolic`."""


def shape_as_tensor(x: Tensor) -> Any:
    """The sizes of `x`, an int64 tensor of shape (x.ndim,)."""
    return tensor(list(x.shape), dtype=int64)


def reshape_from_tensor_shape(x: Tensor, shape: Any) -> Any:
    """`x` in the shape that a tensor of sizes says."""
    return x.reshape(shape.tolist())


def parse_args(*arg_descriptors: str) -> Callable[[_T], _T]:
    """A decorator that gives back the function."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **options: Any) -> Callable[[_T], _T]:
    """A decorator that gives back the function."""
    return lambda function: function
