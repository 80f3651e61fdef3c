"""PyTorch's private `utils.data._utils`, which programs import to collate batches themselves."""

from dynajit.utils.data._utils import collate, pin_memory, worker

__all__ = ["collate", "pin_memory", "worker"]
