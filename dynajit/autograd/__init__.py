"""Automatic differentiation by PyTorch's path: `dynajit.autograd.grad`, `.Function`, `.gradcheck`.

Most of it is defined in `eager`; this module is where programs look for it.
"""

from dynajit.autograd import functional, profiler
from dynajit.eager.anomaly import detect_anomaly, set_detect_anomaly
from dynajit.eager.function import Function
from dynajit.eager.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from dynajit.eager.gradcheck import gradcheck, gradgradcheck
from dynajit.eager.legacy import Variable
from dynajit.eager.tape import backward, grad

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
]
