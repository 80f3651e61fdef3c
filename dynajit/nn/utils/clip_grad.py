"""Clipping by PyTorch's path; defined in `nn.utils.gradients_and_vectors`."""

from dynajit.nn.utils.gradients_and_vectors import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]
