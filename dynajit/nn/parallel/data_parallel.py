"""Modules on several devices, by PyTorch's path: on a CPU a module runs as it is."""

from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.nn.module import Module


class DataParallel(Module):
    """Runs `module`; its parameters have the prefix `module.`, as in PyTorch.

    Args:
        module: any module.
        device_ids, output_device: None; there is no GPU.
        dim: of the batch.

    Raises:
        UnsupportedError: devices are named.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids or output_device is not None:
            raise UnsupportedError(
                f"DataParallel(device_ids={device_ids}, output_device={output_device}): there is "
                "no GPU.  Expected None."
            )
        self.module = module
        self.device_ids: list[int] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """What the module gives for these inputs (a tuple of them, or one)."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))


__all__ = ["DataParallel", "data_parallel"]
