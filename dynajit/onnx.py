"""ONNX files by PyTorch's path: refused."""

from enum import Enum

from dynajit.core.refusals import refused_function

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


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: False."""
    return False


dynamo_export = refused_function("onnx.dynamo_export", _WHY)
export = refused_function("onnx.export", _WHY)
register_custom_op_symbolic = refused_function("onnx.register_custom_op_symbolic", _WHY)

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "dynamo_export",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]
