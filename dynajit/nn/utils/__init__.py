"""Utilities on parameters and sequences: clipping, vectors, reparametrisation, packed sequences."""

from dynajit.nn.utils import rnn
from dynajit.nn.utils.gradients_and_vectors import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
