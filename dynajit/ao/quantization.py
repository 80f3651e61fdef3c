"""Quantized models by PyTorch's newer path: refused, as in `dynajit.quantization`."""

from dynajit.quantization import (
    DeQuantStub,
    FakeQuantize,
    QConfig,
    QuantStub,
    convert,
    fuse_modules,
    get_default_qat_qconfig,
    get_default_qconfig,
    prepare,
    prepare_qat,
    quantize_dynamic,
)

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
