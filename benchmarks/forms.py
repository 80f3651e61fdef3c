"""The programs of the table for libraries whose names are not PyTorch's: JAX, NumPy, Numba, C.

JAX: `function(jax.numpy, *arrays)`; NumPy and Numba: `function(*arrays)`; C: the body of a loop
over `x` that gcc vectorises with libmvec. All agree with `benchmarks.programs` to float32 accuracy.
"""

import importlib
from typing import Any

import numpy as np

# ---------------------------------------------------------------------------------------------
# NumPy; Numba compiles the chains, too


def numpy_gelu_chain(x: Any) -> Any:
    """See `programs.gelu_chain`."""
    inner = (x + x * x * x * np.float32(0.044715)) * np.float32(0.7978845608)
    scaled = (np.tanh(inner) + np.float32(1.0)) * np.float32(0.5) * x * np.float32(1.5)
    return scaled + np.float32(0.25) - x * np.float32(0.125)


def numpy_arithmetic(x: Any) -> Any:
    """See `programs.arithmetic`."""
    y = x * np.float32(1.5) + np.float32(0.25)
    y = y * x - np.float32(0.75)
    y = y * np.float32(0.5) + x
    y = (y - np.float32(1.25)) * np.float32(2.0)
    y = y * y + np.float32(3.0)
    return y * np.float32(0.125) - x


def numpy_broadcast(column: Any, row: Any) -> Any:
    """See `programs.broadcast`."""
    return (column + row) * column - row * np.float32(0.5)


def numpy_sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def numpy_gelu_tanh(x: Any) -> Any:
    """GELU, tanh form. Source: Hendrycks and Gimpel (2016)."""
    inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (np.float32(1) + np.tanh(inner))


def numpy_softmax(x: Any) -> Any:
    """Over the last axis."""
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def numpy_layer_norm(x: Any) -> Any:
    """Over the last axis, without weights."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5))


def numpy_rms_norm(x: Any) -> Any:
    """Over the last axis, without weights."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))


def numpy_cross_entropy(x: Any, targets: Any) -> Any:
    """Mean negative log-likelihood of log-softmax."""
    shifted = x - x.max(-1, keepdims=True)
    normaliser = np.log(np.exp(shifted).sum(-1))
    return (normaliser - shifted[np.arange(len(x)), targets]).mean()


# ---------------------------------------------------------------------------------------------
# JAX


def jax_erf(jnp: Any, x: Any) -> Any:
    """Error function."""
    return importlib.import_module("jax.scipy.special").erf(x)


def jax_sigmoid(jnp: Any, x: Any) -> Any:
    """Logistic function."""
    return importlib.import_module("jax.nn").sigmoid(x)


def jax_gelu_tanh(jnp: Any, x: Any) -> Any:
    """GELU, tanh form."""
    return importlib.import_module("jax.nn").gelu(x, approximate=True)


def jax_softmax(jnp: Any, x: Any) -> Any:
    """Over the last axis."""
    return importlib.import_module("jax.nn").softmax(x, axis=-1)


def jax_layer_norm(jnp: Any, x: Any) -> Any:
    """Over the last axis, without weights."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def jax_rms_norm(jnp: Any, x: Any) -> Any:
    """Over the last axis, without weights."""
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def jax_cross_entropy(jnp: Any, x: Any, targets: Any) -> Any:
    """Mean negative log-likelihood of log-softmax."""
    logarithms = importlib.import_module("jax.nn").log_softmax(x, axis=-1)
    return -jnp.take_along_axis(logarithms, targets[:, None], axis=1).mean()


# ---------------------------------------------------------------------------------------------
# C

LIBMVEC_BODIES = {
    "exp": "expf(v)",
    "tanh": "tanhf(v)",
    "log1p": "log1pf(v)",
    "erf": "erff(v)",
    "sin": "sinf(v)",
    "pow": "powf(v, 2.7f)",
    "sigmoid": "1.0f / (1.0f + expf(-v))",
    "gelu": "0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))",
}
"""Expressions in `v`, one element, float."""
