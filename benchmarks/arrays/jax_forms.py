"""The programs in JAX, loops by `lax.fori_loop`. Loaded where JAX is installed; float64 is on.

A program that has no form here has the text that it has for NumPy, over `jax.numpy`.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.arrays import programs

jax.config.update("jax_enable_x64", True)


def _turns(count: int, body: Callable[[Any], Any], start: Any) -> Any:
    return jax.lax.fori_loop(0, count, lambda _, state: body(state), start)


def heat(u: Any) -> Any:
    def turn(u: Any) -> Any:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * u[1:-1, 1:-1]))

    return _turns(20, turn, u)


def wave(before: Any, now: Any) -> Any:
    def turn(state: Any) -> Any:
        before, now = state
        inner = 2 * now[1:-1] - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        return now, jnp.pad(inner, 1)

    return _turns(20, turn, (before, now))[1]


def advection(u: Any) -> Any:
    return _turns(20, lambda u: u - 0.3 * (u - jnp.roll(u, 1)), u)


def life(grid: Any) -> Any:
    def turn(grid: Any) -> Any:
        rows = jnp.roll(grid, 1, 0) + grid + jnp.roll(grid, -1, 0)
        count = jnp.roll(rows, 1, 1) + rows + jnp.roll(rows, -1, 1) - grid
        return ((count == 3) | ((grid == 1) & (count == 2))).astype(grid.dtype)

    return _turns(5, turn, grid)


def jacobi(u: Any, f: Any) -> Any:
    def turn(u: Any) -> Any:
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].set(0.25 * (sides - f[1:-1, 1:-1]))

    return _turns(20, turn, u)


def power_iteration(a: Any, v: Any) -> Any:
    def turn(v: Any) -> Any:
        v = a @ v
        return v / jnp.sqrt((v * v).sum())

    return _turns(20, turn, v)


def least_squares(x: Any, y: Any, w: Any) -> Any:
    return _turns(30, lambda w: w - 0.1 / len(y) * (x.T @ (x @ w - y)), w)


def conjugate_gradient(a: Any, b: Any) -> Any:
    def turn(state: Any) -> Any:
        x, r, p, old = state
        ap = a @ p
        alpha = old / (p * ap).sum()
        x, r = x + alpha * p, r - alpha * ap
        new = (r * r).sum()
        return x, r, r + (new / old) * p, new

    return _turns(20, turn, (jnp.zeros_like(b), b, b, (b * b).sum()))[0]


def bodies(p: Any, v: Any, m: Any) -> Any:
    def turn(state: Any) -> Any:
        p, v = state
        d = p[None, :, :] - p[:, None, :]
        r2 = (d * d).sum(axis=-1) + 1e-3
        v = v + 0.01 * (d * (m[None, :] * r2**-1.5)[:, :, None]).sum(axis=1)
        return p + 0.01 * v, v

    return _turns(5, turn, (p, v))[0]


def blur(image: Any) -> Any:
    padded = jnp.pad(image, 1, mode="edge")
    h, w = image.shape
    return sum(padded[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9


def monte_carlo(z: Any) -> Any:
    def turn(step: Any, state: Any) -> Any:
        price, total = state
        price = price * jnp.exp(0.0001 + 0.01 * z[step])
        return price, total + price

    start = jnp.full(z.shape[1], 100.0), jnp.zeros(z.shape[1])
    _, total = jax.lax.fori_loop(0, z.shape[0], turn, start)
    return jnp.maximum(total / z.shape[0] - 100, 0).mean()


def mandelbrot(x: Any, y: Any) -> Any:
    def turn(state: Any) -> Any:
        a, b, count = state
        a, b = a * a - b * b + x, 2 * a * b + y
        inside = a * a + b * b < 4
        return jnp.where(inside, a, 2.0), jnp.where(inside, b, 2.0), count + inside

    return _turns(30, turn, (x, y, jnp.zeros_like(x)))[2]


def form(name: str) -> Callable[..., Any]:
    """The program of this name in JAX."""
    own = globals().get(name)
    return own if own is not None else _OVER_JAX[name]


def _over_jax() -> dict[str, Any]:
    """The names of `programs`, with functions that take `jax.numpy` for NumPy."""
    names: dict[str, Any] = {**vars(programs), "np": jnp}
    for name, value in vars(programs).items():
        if isinstance(value, FunctionType) and value.__module__ == programs.__name__:
            names[name] = FunctionType(value.__code__, names, name)
    return names


_OVER_JAX = _over_jax()
