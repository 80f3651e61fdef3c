"""`Tensor` by PyTorch's private path; defined in `dynajit.eager.tensor`."""

from dynajit.eager.tensor import Tensor

__all__ = ["Tensor"]
