"""Functions under `vmap` against the same work written for a batch by hand.

Run: `python -m benchmarks mapped --compare torch`. Every case is a mapped function and a program of
batches that gives the same numbers, eager and compiled; `torch` is the mapped function by
`torch.func`, `jax` (`--compare torch,jax`) the one by `jax.vmap` under `jax.jit`. The
figures are medians of interleaved rounds; ratios are to the program by hand.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dynajit as dj
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved, row

Program = Callable[[], Any]
Pair = tuple[Program, Program]

SAMPLES = 1000
OUTPUTS = 256


def _tensors(m: Any, *shapes: tuple[int, ...]) -> list[Any]:
    numbers = np.random.default_rng(0)
    return [m.tensor(numbers.standard_normal(s).astype(np.float32) / 4) for s in shapes]


def mlp(m: Any, samples: int = SAMPLES) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """A network with one hidden layer."""
    linear, relu = m.nn.functional.linear, m.nn.functional.relu

    def model(x: Any, v: Any, a: Any, w: Any, b: Any) -> Any:
        return linear(relu(linear(x, v, a)), w, b)

    mapped = m.vmap(model, in_dims=(0, None, None, None, None))
    inputs = _tensors(m, (samples, 64), (256, 64), (256,), (10, 256), (10,))
    return mapped, model, inputs


def attention(
    m: Any, samples: int = SAMPLES
) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """Attention of four heads over 16 places."""
    attend = m.nn.functional.scaled_dot_product_attention
    inputs = _tensors(m, *[(samples, 4, 16, 16)] * 3)
    return m.vmap(attend), attend, inputs


def gradients(
    m: Any, samples: int = SAMPLES
) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """Gradients of a network's parameters, for each sample."""
    linear, relu = m.nn.functional.linear, m.nn.functional.relu

    def loss(v: Any, w: Any, x: Any, y: Any) -> Any:
        return (linear(relu(linear(x, v)), w) - y).square().sum()

    def by_hand(v: Any, w: Any, x: Any, y: Any) -> Any:
        sums = linear(x, v)
        hidden = relu(sums)
        slopes = 2 * (linear(hidden, w) - y)
        inner = (slopes @ w) * (sums > 0)
        return inner[:, :, None] * x[:, None, :], slopes[:, :, None] * hidden[:, None, :]

    mapped = m.vmap(m.func.grad(loss, argnums=(0, 1)), in_dims=(None, None, 0, 0))
    return mapped, by_hand, _tensors(m, (256, 64), (10, 256), (samples, 64), (samples, 10))


def jacobian(
    m: Any, outputs: int = OUTPUTS
) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """A Jacobian with 256 rows of a network with one hidden layer."""

    def model(x: Any, v: Any, w: Any) -> Any:
        return m.tanh(w @ m.tanh(v @ x))

    def by_hand(x: Any, v: Any, w: Any) -> Any:
        hidden = m.tanh(v @ x)
        result = m.tanh(w @ hidden)
        slopes = m.eye(result.shape[0]) * (1 - result * result)
        return ((slopes @ w) * (1 - hidden * hidden)) @ v

    return m.func.jacrev(model), by_hand, _tensors(m, (64,), (256, 64), (outputs, 256))


CASES = {"MLP": mlp, "attention": attention, "gradients": gradients, "Jacobian": jacobian}


def jax_program(name: str, *inputs: Any) -> Program:
    """A case's mapped function in JAX, compiled; a call of it waits for its results."""
    jax = optional.load("jax", needed_for="--compare jax", install="jax")
    jnp = jax.numpy

    def network(v: Any, w: Any, x: Any) -> Any:
        return w @ jax.nn.relu(v @ x)

    def loss(v: Any, w: Any, x: Any, y: Any) -> Any:
        return jnp.square(network(v, w, x) - y).sum()

    def attend(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(q @ k.mT / math.sqrt(q.shape[-1]), axis=-1)
        return weights @ v

    forms = {
        "MLP": jax.vmap(
            lambda x, v, a, w, b: w @ jax.nn.relu(v @ x + a) + b, (0, None, None, None, None)
        ),
        "attention": jax.vmap(attend),
        "gradients": jax.vmap(jax.grad(loss, argnums=(0, 1)), (None, None, 0, 0)),
        "Jacobian": jax.jacrev(lambda x, v, w: jnp.tanh(w @ jnp.tanh(v @ x))),
    }
    compiled = jax.jit(forms[name])
    arrays = [jnp.asarray(each.numpy()) for each in inputs]
    return lambda: jax.block_until_ready(compiled(*arrays))


def agreed(name: str, **sizes: int) -> bool:
    """Whether a case's programs give the same numbers."""
    found = [run() for run in candidates(name, **sizes).values()]
    flat = [each if isinstance(each, tuple) else (each,) for each in found]
    return all(
        dj.allclose(a, b, rtol=1e-4, atol=1e-4)
        for other in flat[1:]
        for a, b in zip(flat[0], other, strict=True)
    )


def candidates(name: str, **sizes: int) -> dict[str, Program]:
    """The programs of a case by dynajit."""
    mapped, by_hand, inputs = CASES[name](dj, **sizes)
    compiled_hand = dj.compile(lambda *args: by_hand(*args), fullgraph=True)
    compiled = dj.compile(lambda *args: mapped(*args), fullgraph=True)
    return {
        "hand": lambda: by_hand(*inputs),
        "vmap": lambda: mapped(*inputs),
        "compiled hand": lambda: compiled_hand(*inputs),
        "compiled vmap": lambda: compiled(*inputs),
    }


def main(compare: Sequence[str] = ()) -> None:
    """Print a line per case."""
    torch = None
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
    for name in CASES:
        programs = candidates(name)
        if "jax" in compare:
            programs["jax"] = jax_program(name, *CASES[name](dj)[2])
        if torch is not None:
            mapped, by_hand, inputs = CASES[name](torch)
            programs["torch hand"] = lambda f=by_hand, x=inputs: f(*x)  # type: ignore[misc]
            programs["torch.func"] = lambda f=mapped, x=inputs: f(*x)  # type: ignore[misc]
        print(row(name, interleaved(programs), "hand"))
