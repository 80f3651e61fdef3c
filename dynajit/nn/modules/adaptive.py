"""The adaptive softmax by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.adaptive import AdaptiveLogSoftmaxWithLoss

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
]
