"""Averages of several processes' models, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "dynajit runs in one process; there are no other models."

ModelAverager = refused_class(
    "distributed.algorithms.model_averaging.averagers.ModelAverager", _WHY
)
PeriodicModelAverager = refused_class(
    "distributed.algorithms.model_averaging.averagers.PeriodicModelAverager", _WHY
)

__all__ = [
    "ModelAverager",
    "PeriodicModelAverager",
]
