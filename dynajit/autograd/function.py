"""Custom operations by PyTorch's path; defined in `dynajit.eager.function`."""

from dynajit.eager.function import Function, once_differentiable
from dynajit.eager.function import FunctionContext as FunctionCtx

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
