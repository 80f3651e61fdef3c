"""Batches out of samples by PyTorch's older path; defined in `utils.data.collate`."""

from dynajit.utils.data.collate import default_collate, default_convert

__all__ = ["default_collate", "default_convert"]
