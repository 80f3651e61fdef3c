"""Optimisers with PyTorch's names, options and state dicts."""

from dynajit.core.process import late
from dynajit.optim import lr_scheduler, swa_utils
from dynajit.optim._adafactor import Adafactor
from dynajit.optim._muon import Muon
from dynajit.optim.adadelta import Adadelta
from dynajit.optim.adagrad import Adagrad
from dynajit.optim.adam import Adam
from dynajit.optim.adamax import Adamax
from dynajit.optim.adamw import AdamW
from dynajit.optim.asgd import ASGD
from dynajit.optim.lbfgs import LBFGS
from dynajit.optim.nadam import NAdam
from dynajit.optim.optimizer import Optimizer
from dynajit.optim.radam import RAdam
from dynajit.optim.rmsprop import RMSprop
from dynajit.optim.rprop import Rprop
from dynajit.optim.sgd import SGD
from dynajit.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

late.show(__name__)
