"""Functions of distributed modules that programs import, by PyTorch's path: for one process."""

from typing import Any


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int, src: int,
    params_and_buffers_to_ignore: Any, broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Give every process the state of one: there is one."""


def _verify_param_shape_across_processes(
    process_group: Any, tensors: Any, logger: Any = None
) -> None:
    """Refuse parameters whose shapes differ between processes: there is one process."""


__all__: list[str] = []
