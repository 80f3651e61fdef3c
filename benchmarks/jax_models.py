"""The models of the table in JAX: functions of parameters, with `programs`' numbers and formulas.

Parameters are lists of arrays in the order of PyTorch's `model.parameters()`, filled by the same
rule, so losses agree with the other libraries. Loaded late: JAX is optional.
"""

import importlib
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.programs import SEED

Parameters = list[Any]


def filled(shapes: Sequence[tuple[int, ...]]) -> Parameters:
    """Parameters of these shapes, with the numbers that `programs.fill` gives."""
    random = np.random.default_rng(SEED)
    made = []
    for shape in shapes:
        bound = 1 / math.sqrt(math.prod(shape[1:]) if len(shape) > 1 else shape[0])
        made.append(random.uniform(-bound, bound, shape).astype(np.float32))
    return [importlib.import_module("jax.numpy").asarray(array) for array in made]


def mlp_parameters(widths: Sequence[int]) -> Parameters:
    """Weight and bias of every layer."""
    shapes: list[tuple[int, ...]] = []
    for width, following in itertools.pairwise(widths):
        shapes += [(following, width), (following,)]
    return filled(shapes)


def mlp(parameters: Parameters, x: Any) -> Any:
    """See `programs.mlp`."""
    jnp = importlib.import_module("jax.numpy")
    pairs = _pairs(parameters)
    for weight, bias in pairs[:-1]:
        x = jnp.maximum(x @ weight.T + bias, 0)
    weight, bias = pairs[-1]
    return x @ weight.T + bias


def _pairs(parameters: Parameters) -> list[tuple[Any, Any]]:
    return list(zip(parameters[::2], parameters[1::2], strict=True))


def lstm_parameters(inputs: int, hidden: int) -> Parameters:
    """See `programs.lstm`."""
    gates = 4 * hidden
    return filled([(gates, inputs), (gates,), (gates, hidden), (gates,), (10, hidden), (10,)])


def lstm(parameters: Parameters, x: Any, state: Any, cell: Any) -> Any:
    """See `programs.lstm`."""
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    (w_input, b_input), (w_state, b_state), (w_head, b_head) = _pairs(parameters)
    for step in range(x.shape[1]):
        gates = x[:, step] @ w_input.T + b_input + state @ w_state.T + b_state
        enter, forget, new, leave = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        state = jax.nn.sigmoid(leave) * jnp.tanh(cell)
    return state @ w_head.T + b_head


#: Parameters of one block: two norms and four linear layers, weight and bias each.
_BLOCK = 12


def transformer_parameters(width: int, layers: int) -> Parameters:
    """See `programs.transformer`."""
    block: list[tuple[int, ...]] = [
        (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,),
        (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
    ]  # fmt: skip
    return filled(block * layers)


def transformer(heads: int) -> Callable[[Parameters, Any], Any]:
    """See `programs.transformer`."""

    def forward(parameters: Parameters, x: Any) -> Any:
        for start in range(0, len(parameters), _BLOCK):
            x = _block(parameters[start : start + _BLOCK], x, heads)
        return x

    return forward


def _norm(jnp: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + bias


def _block(parameters: Parameters, x: Any, heads: int) -> Any:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    first, fused, projection, second, up, down = _pairs(parameters)
    batch, length, width = x.shape
    read = _norm(jnp, x, *first) @ fused[0].T + fused[1]
    read = read.reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    query, key, value = read
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
    mixed = (jax.nn.softmax(scores, axis=-1) @ value).transpose(0, 2, 1, 3)
    x = x + mixed.reshape(batch, length, width) @ projection[0].T + projection[1]
    inner = jax.nn.gelu(_norm(jnp, x, *second) @ up[0].T + up[1], approximate=False)
    return x + inner @ down[0].T + down[1]


def convnet_parameters(channels: tuple[int, int], size: int) -> Parameters:
    """See `programs.convnet`."""
    first, second = channels
    flat = second * (size // 4) ** 2
    return filled([(first, 1, 3, 3), (first,), (second, first, 3, 3), (second,), (10, flat), (10,)])


def convnet(parameters: Parameters, x: Any) -> Any:
    """See `programs.convnet`."""
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    *convolutions, (weight, bias) = _pairs(parameters)
    for kernel, shift in convolutions:
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        x = jnp.maximum(x + shift[None, :, None, None], 0)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.reshape(len(x), -1) @ weight.T + bias


def classification(model: Callable[..., Any]) -> Callable[..., Any]:
    """See `programs.classification`."""

    def loss(parameters: Parameters, *batch: Any) -> Any:
        jax = importlib.import_module("jax")
        *inputs, targets = batch
        logarithms = jax.nn.log_softmax(model(parameters, *inputs))
        return -jax.numpy.take_along_axis(logarithms, targets[:, None], axis=1).mean()

    return loss


def regression(model: Callable[..., Any]) -> Callable[..., Any]:
    """See `programs.regression`."""

    def loss(parameters: Parameters, *batch: Any) -> Any:
        *inputs, targets = batch
        difference = model(parameters, *inputs) - targets
        return (difference * difference).mean()

    return loss


def adam(
    parameters: Parameters, gradients: Parameters, state: tuple[Any, Parameters, Parameters]
) -> tuple[Parameters, tuple[Any, Parameters, Parameters]]:
    """One step of Adam with PyTorch's defaults. Source: Kingma and Ba (2015)."""
    jnp = importlib.import_module("jax.numpy")
    step, means, squares = state[0] + 1, [], []
    updated = []
    for p, g, m, v in zip(parameters, gradients, state[1], state[2], strict=True):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        root = jnp.sqrt(v) / jnp.sqrt(1 - 0.999**step) + 1e-8
        updated.append(p - 1e-3 / (1 - 0.9**step) * m / root)
        means.append(m)
        squares.append(v)
    return updated, (step, means, squares)


def no_moments(parameters: Parameters) -> tuple[Any, Parameters, Parameters]:
    """Adam's state before the first step."""
    jnp = importlib.import_module("jax.numpy")
    return (
        jnp.asarray(0.0, jnp.float32),
        [jnp.zeros_like(p) for p in parameters],
        [jnp.zeros_like(p) for p in parameters],
    )


def training_step(
    loss: Callable[..., Any], parameters: Parameters, batch: tuple[Any, ...]
) -> Callable[[], Any]:
    """One jitted step: loss, gradients, Adam into donated arrays; returns the loss before."""
    jax = importlib.import_module("jax")
    donated = jax.jit(_step_of(loss), donate_argnums=(0, 1))
    kept = [(parameters, no_moments(parameters))]

    def step() -> Any:
        value, kept[0] = jax.block_until_ready(donated(*kept[0], *batch))
        return value

    return step


def _step_of(loss: Callable[..., Any]) -> Callable[..., Any]:
    jax = importlib.import_module("jax")

    def step(parameters: Parameters, state: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        return value, adam(parameters, gradients, state)

    return step


def adam_step(gradients: Parameters) -> Callable[[], Any]:
    """Adam alone: parameters that start with the gradients' values; returns the first of them."""
    jax = importlib.import_module("jax")
    update = jax.jit(adam, donate_argnums=(0, 2))
    # Sums, so that what is donated is not the gradients' own memory.
    parameters = [gradient + 0 for gradient in gradients]
    kept = [(parameters, no_moments(parameters))]

    def step() -> Any:
        kept[0] = jax.block_until_ready(update(kept[0][0], gradients, kept[0][1]))
        return kept[0][0][0]

    return step
