"""ONNX files by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit writes no ONNX files.  Save weights with dynajit.save and export in PyTorch."


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: False."""
    return False


dynamo_export = refused_function("onnx.dynamo_export", _WHY)
export = refused_function("onnx.export", _WHY)
register_custom_op_symbolic = refused_function("onnx.register_custom_op_symbolic", _WHY)

__all__ = ["dynamo_export", "export", "is_in_onnx_export", "register_custom_op_symbolic"]
