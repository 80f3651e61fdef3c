"""PyTorch's private `_C`: the few names that programs import from there.

Contract: the error of linear algebra is the one that is raised here; readers and writers of files,
and the graphs of TorchScript, are refused by name; the switches of TorchScript's executors are
accepted and change nothing, since there is no TorchScript; blocks in which nothing overrides
functions are those of `ops.table.overriding`.
"""

from typing import Any, Final

from dynajit._C import _nn
from dynajit.core.errors import LinAlgError as _LinAlgError
from dynajit.core.refusals import refused_class
from dynajit.eager.modes.defaults import get_default_device as _get_default_device
from dynajit.eager.modes.random import Generator
from dynajit.eager.operations.subclasses import change_unasked as _change_unasked
from dynajit.eager.tensor.tensor import Tensor
from dynajit.futures import Future
from dynajit.ops.table.overriding import disabled_torch_function as _disabled_torch_function_impl
from dynajit.ops.table.overriding import is_mode_active as _is_torch_function_mode_enabled

_WHY = "files are read by load() and written by save()."

PyTorchFileReader = refused_class("_C.PyTorchFileReader", _WHY)
PyTorchFileWriter = refused_class("_C.PyTorchFileWriter", _WHY)

_NO_GRAPHS = "there is no TorchScript, and so no graph of it."

ListType = refused_class("_C.ListType", _NO_GRAPHS)
TensorType = refused_class("_C.TensorType", _NO_GRAPHS)

Graph = refused_class("_C.Graph", _NO_GRAPHS)
Node = refused_class("_C.Node", _NO_GRAPHS)
Value = refused_class("_C.Value", _NO_GRAPHS)


class DisableTorchFunctionSubclass:
    """A block in which no class is asked by `__torch_function__`, in this thread; modes are."""

    def __enter__(self) -> None:
        _change_unasked(1)

    def __exit__(self, *error: object) -> None:
        _change_unasked(-1)


class DisableTorchFunction:
    """A block in which neither classes nor modes are asked, in this thread.

    Mutable: keeps what was so before each block that it entered.
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_change_unasked(1, True))

    def __exit__(self, *error: object) -> None:
        _change_unasked(-1, self._before.pop())


def _jit_set_profiling_mode(profiling_flag: bool) -> bool:
    """Whether code is profiled before it is specialised: False, before and after the call."""
    return False


def _jit_set_profiling_executor(profiling_flag: bool) -> bool:
    """Whether the profiling executor is used: False, before and after the call."""
    return False


def _jit_set_autocast_mode(enabled: bool) -> bool:
    """Whether scripted code looks at autocast: False, before and after the call."""
    return False


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Accepted: there is no such fuser."""


def _jit_set_nvfuser_enabled(enabled: bool) -> None:
    """Accepted: there is no such fuser."""


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """Accepted: there is no such fuser."""


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Accepted: there is no such fuser."""


def _jit_can_fuse_on_cpu() -> bool:
    """Whether scripted code is fused: False."""
    return False


def _jit_can_fuse_on_gpu() -> bool:
    """Whether scripted code is fused: False."""
    return False


def _get_tracing_state() -> Any:
    """The trace that is being made: None."""
    return None


def _log_api_usage_once(event: str) -> None:
    """Accepted: nothing is logged."""


def _jit_set_nvfuser_guard_mode(enabled: bool) -> bool:
    """Whether fused code is guarded: False, before and after the call."""
    return False


def _jit_set_bailout_depth(depth: int) -> int:
    """How often specialised code is made anew: 0, before and after the call."""
    return 0


_TensorMeta: Final = type(Tensor)
"""The class of the class of tensors."""

_GLIBCXX_USE_CXX11_ABI: Final = True
"""Which strings C++ extensions use; there are none."""


__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Future",
    "Generator",
    "Graph",
    "ListType",
    "Node",
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "TensorType",
    "Value",
    "_LinAlgError",
    "_disabled_torch_function_impl",
    "_get_default_device",
    "_get_tracing_state",
    "_is_torch_function_mode_enabled",
    "_jit_can_fuse_on_cpu",
    "_jit_can_fuse_on_gpu",
    "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu",
    "_jit_set_autocast_mode",
    "_jit_set_bailout_depth",
    "_jit_set_nvfuser_enabled",
    "_jit_set_nvfuser_guard_mode",
    "_jit_set_profiling_executor",
    "_jit_set_profiling_mode",
    "_jit_set_texpr_fuser_enabled",
    "_log_api_usage_once",
    "_nn",
]
