"""Mixed precision by PyTorch's older path: `from dynajit.cuda.amp import autocast, GradScaler`.

Contract: as `dynajit.amp` with the device type "cuda": where there is no GPU, `autocast` and
`GradScaler` warn and change nothing.
"""

from dynajit.cuda.amp import autocast_mode, grad_scaler
from dynajit.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from dynajit.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler"]
