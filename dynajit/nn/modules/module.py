"""The base class, and hooks of all modules, by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.hooks import (
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from dynajit.nn.module import Module
from dynajit.nn.state import IncompatibleKeys as _IncompatibleKeys  # noqa: F401

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]
