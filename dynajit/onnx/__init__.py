"""ONNX files by PyTorch's path: refused.

Contract: what programs register for an export is accepted, since it is never asked for; the export
itself raises.
"""

from enum import Enum, IntEnum
from typing import Any

from dynajit.core.process import late
from dynajit.core.refusals import refused_function
from dynajit.onnx import operators, symbolic_helper

_WHY = "dynajit writes no ONNX files.  Save weights with dynajit.save and export in PyTorch."


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


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: False."""
    return False


dynamo_export = refused_function("onnx.dynamo_export", _WHY)
export = refused_function("onnx.export", _WHY)


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Accepted: how an export would write an operator; the export itself is refused."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted, as `register_custom_op_symbolic`."""


__all__ = [
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "dynamo_export",
    "export",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
    "symbolic_helper",
    "unregister_custom_op_symbolic",
]

late.show(__name__)
