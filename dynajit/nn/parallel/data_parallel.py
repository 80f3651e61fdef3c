"""Modules on several devices of one process, by PyTorch's path: on a CPU a module runs as it is."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import UnsupportedError
from dynajit.core.types.device import Device
from dynajit.nn.module import Module
from dynajit.nn.parallel.spreading import gather, parallel_apply, replicate, scatter_kwargs


class DataParallel(Module):
    """Runs `module` on parts of a batch, one for each GPU.

    Its parameters have the prefix `module.`, as in PyTorch.

    Args:
        module: on the first of the GPUs.
        device_ids: numbers of GPUs; None for all. A module that is not on a GPU runs as it is.
        output_device: where outputs are gathered; the first of the GPUs if None.
        dim: of the batch.

    Raises:
        UnsupportedError: devices are named and there is no GPU.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids = _devices(device_ids, output_device)
        self.dim = dim
        if self.device_ids:
            chosen = self.device_ids[0] if output_device is None else output_device
            self.output_device = Device(chosen)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`, of parts of the batch."""
        if not self.device_ids or not _is_on_gpu(self.module):
            return self.module(*inputs, **kwargs)
        return _spread(self.module, inputs, kwargs, self.device_ids, self.output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """What the module gives for these inputs (a tuple of them, or one), as `DataParallel`."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    keywords = module_kwargs or {}
    devices = _devices(device_ids, output_device)
    if not devices or not _is_on_gpu(module):
        return module(*given, **keywords)
    target = Device(devices[0] if output_device is None else output_device)
    return _spread(module, given, keywords, devices, target, dim)


def _devices(device_ids: Any, output_device: Any) -> list[Any]:
    """Those that are named, or all GPUs.

    Raises:
        UnsupportedError: some are named and there is no GPU.
    """
    if gpu.is_available():
        return list(range(gpu.device_count())) if device_ids is None else list(device_ids)
    if device_ids or output_device is not None:
        raise UnsupportedError(
            f"DataParallel(device_ids={device_ids}, output_device={output_device}): there is "
            "no GPU.  Expected None."
        )
    return []


def _is_on_gpu(module: Module) -> bool:
    return any(tensor.is_cuda for tensor in (*module.parameters(), *module.buffers()))


def _spread(
    module: Module,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    devices: Sequence[Any],
    target: Device,
    dim: int,
) -> Any:
    """Scatter, replicate, apply, gather."""
    given, named = scatter_kwargs(inputs, kwargs, devices, dim)
    if not given:
        given, named = ((),), ({},)
    if len(devices) == 1:
        return module(*given[0], **named[0])
    replicas = replicate(module, devices[: len(given)])
    return gather(parallel_apply(replicas, given, named), target, dim)


__all__ = ["DataParallel", "data_parallel"]
