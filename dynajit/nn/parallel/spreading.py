"""Inputs, modules and outputs spread over devices and collected, by PyTorch's names.

Contract: devices are named by numbers of GPUs, or as `device` takes them; gradients pass every
copy. Where a tensor lies on a device already it is not copied. Nothing here needs a GPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.core.types.device import Device
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.ops.functions.shapes.index import cat, chunk


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of tensors, one for each device; other objects are repeated.

    Args:
        inputs: a tensor, or tuples, lists and dicts with tensors in them.
        target_gpus: the devices.
        dim: along which tensors are cut into parts of nearly equal size. There are fewer parts
            than devices where the tensor has fewer elements.
    """
    devices = [Device(device) for device in target_gpus]
    return _scattered(inputs, devices, dim)


def _scattered(value: Any, devices: list[Device], dim: int) -> list[Any]:
    if isinstance(value, Tensor):
        if not value.dim():
            raise ShapeError("chunk expects at least a 1-dimensional tensor")
        parts = chunk(value, len(devices), dim)
        return [part.to(device) for part, device in zip(parts, devices, strict=False)]
    if isinstance(value, tuple) and value:
        rows = zip(*(_scattered(item, devices, dim) for item in value), strict=False)
        return [_like(value, row) for row in rows]
    if isinstance(value, list) and value:
        return [
            list(row)
            for row in zip(*(_scattered(item, devices, dim) for item in value), strict=False)
        ]
    if isinstance(value, dict) and value:
        columns = [_scattered(item, devices, dim) for item in value.values()]
        return [
            type(value)(zip(value.keys(), row, strict=True)) for row in zip(*columns, strict=False)
        ]
    return [value for _ in devices]


def _like(value: tuple[Any, ...], items: tuple[Any, ...]) -> Any:
    """A tuple of the same class: named ones, too."""
    return type(value)(*items) if hasattr(value, "_fields") else items


def scatter_kwargs(
    inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Parts of positional and of named arguments: as many of both, empty ones behind."""
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(given), len(named))
    return (
        (*given, *(() for _ in range(count - len(given)))),
        (*named, *({} for _ in range(count - len(named)))),
    )


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """What `scatter` cut, in one piece on one device; numbers of dim 0 become a vector.

    Args:
        outputs: from each device a tensor, or tuples, lists and dicts of one form.

    Raises:
        InvalidValueError: dicts have other keys.
    """
    return _gathered(list(outputs), Device(target_device), dim)


def _gathered(outputs: list[Any], device: Device, dim: int) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [output.to(device) for output in outputs]
        if not first.dim():
            return cat([output.reshape(1) for output in moved])
        return cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, Mapping):
        if any(output.keys() != first.keys() for output in outputs):
            raise InvalidValueError("All dicts must have the same number of keys")
        found = {key: _gathered([o[key] for o in outputs], device, dim) for key in first}
        return type(first)(found)  # type: ignore[call-arg]
    items = tuple(_gathered(list(row), device, dim) for row in zip(*outputs, strict=True))
    return _like(first, items) if isinstance(first, tuple) else list(items)


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of the module for each device, whose parameters are copies with the originals'
    gradients.

    Args:
        detach: gradients do not pass.
    """
    return [_replica(network, Device(device), detach) for device in devices]


def _replica(network: Module, device: Device, detach: bool) -> Module:
    moved: dict[int, Any] = {}
    copies: dict[int, Module] = {}

    def on_device(tensor: Any) -> Any:
        if tensor is not None and id(tensor) not in moved:
            moved[id(tensor)] = (tensor.detach() if detach else tensor).to(device)
        return moved.get(id(tensor))

    for module in network.modules():
        copied = module.__new__(type(module))
        copied.__dict__ = dict(module.__dict__)
        copied._parameters, copied._modules = {}, {}
        copied._buffers = {name: on_device(b) for name, b in module._buffers.items()}
        for name, parameter in module._parameters.items():
            copied.__dict__[name] = on_device(parameter)
        copies[id(module)] = copied
    for module in network.modules():
        for name, child in module._modules.items():
            copies[id(module)]._modules[name] = None if child is None else copies[id(child)]
    return copies[id(network)]


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """What each module gives for its inputs; one is called after the other, and GPUs compute while
    the next is called.

    Args:
        inputs: for each module a tuple of arguments, or the only one.
        kwargs_tup: for each module a dict; None for empty ones.
        devices: where modules lie; changes nothing.
    """
    assert len(modules) == len(inputs), (
        f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}"
    )
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    assert len(modules) == len(named)
    found = []
    for module, given, keywords in zip(modules, inputs, named, strict=True):
        arguments = given if isinstance(given, (list, tuple)) else (given,)
        found.append(module(*arguments, **keywords))
    return found


__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
