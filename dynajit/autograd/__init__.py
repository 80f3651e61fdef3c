"""Automatic differentiation by PyTorch's path: `dynajit.autograd.grad`, `.Function`, `.gradcheck`.

Most of it is defined in `eager`; this module is where programs look for it.
"""

from typing import TYPE_CHECKING

from dynajit.autograd import anomaly_mode, function, grad_mode, variable
from dynajit.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from dynajit.autograd.function import Function
from dynajit.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from dynajit.autograd.gradcheck import gradcheck, gradgradcheck
from dynajit.autograd.variable import Variable
from dynajit.core.process import late
from dynajit.eager.backward.engine import backward, grad

if TYPE_CHECKING:
    from dynajit.autograd import functional, graph, profiler

__all__ = [
    "Function",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "variable",
]

__getattr__ = late.publish(__name__, modules=("functional", "graph", "profiler"))
late.show(__name__)
