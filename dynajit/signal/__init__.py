"""Signal processing by PyTorch's path: its windows."""

from dynajit.signal import windows

__all__ = ["windows"]
