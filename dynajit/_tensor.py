"""`Tensor` by PyTorch's private path; defined in `dynajit.eager.tensor.tensor`."""

from dynajit.eager.tensor.tensor import Tensor

__all__ = ["Tensor"]
