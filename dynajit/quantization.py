"""Quantized models by PyTorch's path: refused.

Contract: the stubs pass values on, as PyTorch's do in models that were not converted; what makes a
model quantized raises.
"""

from typing import Any

from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function
from dynajit.nn.module import Module

_WHY = "there are no quantized tensors here.  Use the model as it is; bfloat16 halves its memory."

FakeQuantize = refused_class("quantization.FakeQuantize", _WHY)
FakeQuantizeBase = refused_class("quantization.FakeQuantizeBase", _WHY)
HistogramObserver = refused_class("quantization.HistogramObserver", _WHY)
MinMaxObserver = refused_class("quantization.MinMaxObserver", _WHY)
MovingAverageMinMaxObserver = refused_class("quantization.MovingAverageMinMaxObserver", _WHY)
ObserverBase = refused_class("quantization.ObserverBase", _WHY)
PerChannelMinMaxObserver = refused_class("quantization.PerChannelMinMaxObserver", _WHY)
PlaceholderObserver = refused_class("quantization.PlaceholderObserver", _WHY)
QConfigMapping = refused_class("quantization.QConfigMapping", _WHY)
QuantWrapper = refused_class("quantization.QuantWrapper", _WHY)
QConfig = refused_class("quantization.QConfig", _WHY)
convert = refused_function("quantization.convert", _WHY)
fuse_modules = refused_function("quantization.fuse_modules", _WHY)
get_default_qat_qconfig = refused_function("quantization.get_default_qat_qconfig", _WHY)
get_default_qconfig = refused_function("quantization.get_default_qconfig", _WHY)
convert_fx = refused_function("quantization.convert_fx", _WHY)
default_eval_fn = refused_function("quantization.default_eval_fn", _WHY)
disable_observer = refused_function("quantization.disable_observer", _WHY)
enable_observer = refused_function("quantization.enable_observer", _WHY)
fuse_modules_qat = refused_function("quantization.fuse_modules_qat", _WHY)
prepare_fx = refused_function("quantization.prepare_fx", _WHY)
propagate_qconfig_ = refused_function("quantization.propagate_qconfig_", _WHY)
quantize = refused_function("quantization.quantize", _WHY)
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
    "FakeQuantizeBase",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "QConfig",
    "QConfigMapping",
    "QuantStub",
    "QuantWrapper",
    "convert",
    "convert_fx",
    "default_eval_fn",
    "disable_observer",
    "enable_observer",
    "fuse_modules",
    "fuse_modules_qat",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "prepare",
    "prepare_fx",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
]

late.show(__name__)
