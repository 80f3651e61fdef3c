"""Automatic differentiation by PyTorch's path: `dynajit.autograd.grad`, `.Function`, `.gradcheck`.

Most of it is defined in `eager`; this module is where programs look for it.
"""

from typing import TYPE_CHECKING

from dynajit.core.process import late
from dynajit.eager.backward.engine import backward, grad
from dynajit.eager.backward.function import Function
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck
from dynajit.eager.modes.grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from dynajit.eager.tape.anomaly import detect_anomaly, set_detect_anomaly
from dynajit.eager.tensor.legacy import Variable

if TYPE_CHECKING:
    from dynajit.autograd import forward_ad, functional, graph

__all__ = [
    "Function",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

__getattr__ = late.publish(__name__, modules=("forward_ad", "functional", "graph"))
late.show(__name__)
