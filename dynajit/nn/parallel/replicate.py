"""Modules on several devices by PyTorch's inner path: refused."""

from dynajit.core.refusals import refused_function

replicate = refused_function(
    "nn.parallel.replicate",
    "tensors of one module live on one device; there are none to spread it over.",
)

__all__ = ["replicate"]
