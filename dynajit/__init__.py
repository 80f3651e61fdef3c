"""dynajit: eager tensors with autograd, and a compiler for ordinary Python.

`import dynajit as dj`: names, signatures and semantics follow PyTorch 2.x. What users may rely on
is what `__all__` lists.
"""

from dynajit import autograd, nn, ops, optim, random, utils
from dynajit.compile import (
    compile,
    compile_stats,
    disable,
    explain,
    graph_break,
    is_compiling,
    list_backends,
    reset,
)
from dynajit.core import errors
from dynajit.core.device import Device as device
from dynajit.core.dtypes import DType as dtype
from dynajit.core.dtypes import bfloat16, float16, float32, float64
from dynajit.core.dtypes import bool_ as bool
from dynajit.core.dtypes import complex64, complex128, int8, int16, int32, int64, uint8
from dynajit.eager.creation import as_tensor, asarray, empty, empty_like, from_numpy, tensor
from dynajit.eager.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from dynajit.eager.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from dynajit.eager.serialization import load, save
from dynajit.eager.tensor import Size, Tensor
from dynajit.ops import functions
from dynajit.ops.functions import *  # noqa: F403  # its __all__ is checked by tests/test_exports.py
