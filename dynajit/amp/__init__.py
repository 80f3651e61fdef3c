"""Automatic mixed precision by PyTorch's path: `dynajit.amp.autocast` and `GradScaler`.

Contract: under autocast, library functions choose the dtype that they compute in by PyTorch's lists
for CPU and CUDA (`ops.calls.autocast`). State that programs ask for is in `amp.state`.
"""

from dynajit.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from dynajit.amp.grad_scaler import GradScaler
from dynajit.core.process import late

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

late.show(__name__, also=("autocast_mode", "grad_scaler"))
