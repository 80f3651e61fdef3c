"""PyTorch's private `utils._python_dispatch`: there is no `__torch_dispatch__`.

Contract: questions are answered; modes are refused when they are made.
"""

from typing import Any

from dynajit.core.refusals import refused_class

TorchDispatchMode = refused_class(
    "utils._python_dispatch.TorchDispatchMode",
    "__torch_dispatch__ is not asked here.  Derive from overrides.TorchFunctionMode.",
)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is made of others that tracers look into: False."""
    return False


__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]
