"""Modules whose parameters are DTensors."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Final

from dynajit.core.errors import ExpectationError, InvalidValueError, ShapeError
from dynajit.distributed.device_mesh import DeviceMesh, current_mesh
from dynajit.distributed.tensor.creation import distribute_tensor
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.placements import Replicate
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter

_APPLIED: Final = "_distribute_module_applied"


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Let a module have DTensors as parameters and buffers, in place.

    Args:
        device_mesh: the processes; None: those of the `with mesh:` around.
        partition_fn: `partition_fn(name, module, mesh)` of every module within replaces parameters;
            what it leaves plain, every process has whole.
        input_fn: `input_fn(module, inputs, mesh)` gives the inputs of the call in their place.
        output_fn: `output_fn(module, outputs, mesh)` gives its outputs.

    Raises:
        ShapeError: it was done before; a RuntimeError, as in PyTorch.
        InvalidValueError: a function takes another number of arguments.
    """
    if getattr(module, _APPLIED, False):
        raise ShapeError(
            "distribute_module should only be called once on a module, but it has already been "
            "called on this module!"
        )
    mesh = device_mesh if device_mesh is not None else current_mesh()
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, mesh)
        replicate_rest(inner, mesh)
    if input_fn is not None:
        hook = _with_mesh(input_fn, mesh, "input_fn")
        module.register_forward_pre_hook(lambda inner, inputs: hook(inner, inputs))
    if output_fn is not None:
        after = _with_mesh(output_fn, mesh, "output_fn")
        module.register_forward_hook(lambda inner, inputs, outputs: after(inner, outputs))
    setattr(module, _APPLIED, True)
    return module


def replicate_rest(module: Any, mesh: DeviceMesh) -> None:
    """Let every process have what is plain of a module's own parameters and buffers."""
    whole = [Replicate()] * mesh.ndim
    for name, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            module._parameters[name] = distribute_tensor(parameter, mesh, whole)
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, whole)


def shard_parameter(module: Any, name: str, mesh: DeviceMesh, placements: Any, source: Any) -> None:
    """Let a parameter of a module be a DTensor.

    Args:
        source: `src_data_rank` of `distribute_tensor`.
    """
    parameter = module._parameters[name]
    if parameter is None:
        return
    found: Any = distribute_tensor(parameter, mesh, placements, src_data_rank=source)
    if not isinstance(found, Parameter):
        raise ExpectationError(f"{type(module).__name__}.{name} is no parameter.")
    module._parameters[name] = found


def _with_mesh(function: Callable[..., Any], mesh: DeviceMesh, name: str) -> Callable[..., Any]:
    count = len(inspect.signature(function).parameters)
    if count == 2:
        warnings.warn(
            f"{name} that takes two arguments is deprecated: use one that takes (module, "
            f"{'inputs' if name == 'input_fn' else 'outputs'}, device_mesh).",
            FutureWarning,
            stacklevel=3,
        )
        return lambda module, values: function(values, mesh)
    if count != 3:
        raise InvalidValueError(f"{name} should take in 3 arguments, but got {count} arguments!")
    return lambda module, values: function(module, values, mesh)


__all__ = ["distribute_module", "replicate_rest", "shard_parameter"]
