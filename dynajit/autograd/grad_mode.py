"""Whether operations are recorded, by PyTorch's path; defined in
`dynajit.eager.modes.grad_mode`."""

from dynajit.eager.modes.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
