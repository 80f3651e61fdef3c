"""Modules, layers, losses and their functions, with PyTorch's names."""

from dynajit.nn import functional, init, utils
from dynajit.nn.activation import (
    ELU,
    GELU,
    Dropout,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from dynajit.nn.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from dynajit.nn.embedding import Embedding
from dynajit.nn.linear import Flatten, Identity, Linear, Unflatten
from dynajit.nn.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from dynajit.nn.module import Module
from dynajit.nn.normalization import LayerNorm, RMSNorm
from dynajit.nn.parameter import Parameter

__all__ = [
    "ELU",
    "GELU",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "Unflatten",
    "functional",
    "init",
    "utils",
]
