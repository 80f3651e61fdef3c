"""Custom operations by PyTorch's path; defined in `dynajit.eager.backward.function`."""

from dynajit.eager.backward.function import Function, once_differentiable
from dynajit.eager.backward.function import FunctionContext as FunctionCtx

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
