"""`DistributedDataParallel` in a group of one process: the module itself, with its wrapper's names.

Contract: a group must be initialized; gradients are those of the module, since there is nobody to
average them with.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError, UnsupportedError
from dynajit.core.process.process_groups import default_group, member_of
from dynajit.nn.module import Module


class DistributedDataParallel(Module):
    """Runs `module`; its parameters have the prefix `module.`, as in PyTorch.

    Args:
        module: with at least one parameter that requires gradients.
        device_ids, output_device: None, or the one GPU on which the module lies.
        dim, broadcast_buffers, find_unused_parameters, static_graph: kept as attributes.
        process_group: None, or one that `distributed.new_group` gave.
        others: accepted; they say how gradients travel.

    Raises:
        InvalidValueError: there is no group of processes, or devices are named that the module is
            not on; a ValueError, as in PyTorch.
        ShapeError: no parameter requires gradients; a RuntimeError, as in PyTorch.
        UnsupportedError: `mixed_precision` or `device_mesh` is given.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        if mixed_precision is not None or device_mesh is not None:
            raise UnsupportedError(
                "DistributedDataParallel(mixed_precision=..., device_mesh=...): not here.  Use "
                "amp.autocast; there is one process, so there is no mesh."
            )
        group = default_group() if process_group is None else member_of(process_group)
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise ShapeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.device = trained[0].device
        _check_devices(module, self.device, device_ids, output_device)
        self.process_group = group
        self.module = module
        self.device_ids = None if not device_ids else [self.device]
        self.output_device = None if not device_ids else self.device
        self.device_type = self.device.type
        self.dim = dim
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which gradients would stay in each process."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """A block in which processes may have different numbers of inputs."""
        yield

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Refused.

        Raises:
            UnsupportedError: always; gradients do not travel.
        """
        raise UnsupportedError(
            "register_comm_hook: gradients do not travel in a group of one process.  Use "
            "Tensor.register_hook to change them."
        )

    def _set_static_graph(self) -> None:
        self.static_graph = True


def _check_devices(module: Module, device: Any, device_ids: Any, output_device: Any) -> None:
    if not device_ids and output_device is None:
        return
    if device.type == "cpu" or (device_ids and len(device_ids) > 1):
        raise InvalidValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            f"single-device GPU modules, but got device_ids {device_ids}, output_device "
            f"{output_device}, and module parameters on {device}."
        )


__all__ = ["DistributedDataParallel"]
