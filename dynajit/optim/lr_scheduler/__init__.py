"""Schedules of learning rates, with PyTorch's names, options and state dicts."""

from dynajit.core.process import late
from dynajit.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
)
from dynajit.optim.lr_scheduler.base import LRScheduler
from dynajit.optim.lr_scheduler.base import _LRScheduler as _LRScheduler
from dynajit.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from dynajit.optim.lr_scheduler.formulas import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from dynajit.optim.lr_scheduler.plateau import ReduceLROnPlateau
from dynajit.optim.lr_scheduler.restarts import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

late.show(__name__)
