"""Quantized models by PyTorch's path: refused.

Contract: the stubs pass values on, as PyTorch's do in models that were not converted; what makes a
model quantized raises. Called by users.
"""

from typing import Any

from dynajit.core.refusals import refused_class, refused_function
from dynajit.nn.module import Module

_WHY = "there are no quantized tensors here.  Use the model as it is; bfloat16 halves its memory."

FakeQuantize = refused_class("quantization.FakeQuantize", _WHY)
QConfig = refused_class("quantization.QConfig", _WHY)
convert = refused_function("quantization.convert", _WHY)
fuse_modules = refused_function("quantization.fuse_modules", _WHY)
get_default_qat_qconfig = refused_function("quantization.get_default_qat_qconfig", _WHY)
get_default_qconfig = refused_function("quantization.get_default_qconfig", _WHY)
prepare = refused_function("quantization.prepare", _WHY)
prepare_qat = refused_function("quantization.prepare_qat", _WHY)
quantize_dynamic = refused_function("quantization.quantize_dynamic", _WHY)


class QuantStub(Module):
    """Where a model's values would be quantized: they stay as they are.

    Args:
        qconfig: kept.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """`x` itself."""
        return x


class DeQuantStub(QuantStub):
    """Where quantized values would become floats again: they stay as they are."""


__all__ = [
    "DeQuantStub",
    "FakeQuantize",
    "QConfig",
    "QuantStub",
    "convert",
    "fuse_modules",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "prepare",
    "prepare_qat",
    "quantize_dynamic",
]
