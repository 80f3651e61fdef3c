"""Signal processing by PyTorch's path: its windows."""

from dynajit.core.process import late
from dynajit.signal import windows

__all__ = ["windows"]

late.show(__name__)
