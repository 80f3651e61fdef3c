"""Quantized models by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "there are no quantized tensors here.  Use the model as it is; bfloat16 halves its memory."

DeQuantStub = refused_class("quantization.DeQuantStub", _WHY)
FakeQuantize = refused_class("quantization.FakeQuantize", _WHY)
QConfig = refused_class("quantization.QConfig", _WHY)
QuantStub = refused_class("quantization.QuantStub", _WHY)
convert = refused_function("quantization.convert", _WHY)
fuse_modules = refused_function("quantization.fuse_modules", _WHY)
get_default_qat_qconfig = refused_function("quantization.get_default_qat_qconfig", _WHY)
get_default_qconfig = refused_function("quantization.get_default_qconfig", _WHY)
prepare = refused_function("quantization.prepare", _WHY)
prepare_qat = refused_function("quantization.prepare_qat", _WHY)
quantize_dynamic = refused_function("quantization.quantize_dynamic", _WHY)

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
