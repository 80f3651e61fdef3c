"""Tensors spread over GPUs and collected, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit's tensors live on the CPU; there are no GPUs to spread them over."

gather = refused_function("nn.parallel.gather", _WHY)
scatter = refused_function("nn.parallel.scatter", _WHY)
scatter_kwargs = refused_function("nn.parallel.scatter_kwargs", _WHY)

__all__ = ["gather", "scatter", "scatter_kwargs"]
