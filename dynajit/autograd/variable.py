"""`Variable` by PyTorch's path; defined in `dynajit.eager.legacy`."""

from dynajit.eager.legacy import Variable

__all__ = ["Variable"]
