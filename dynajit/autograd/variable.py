"""`Variable` by PyTorch's path; defined in `dynajit.eager.tensor.legacy`."""

from dynajit.eager.tensor.legacy import Variable

__all__ = ["Variable"]
