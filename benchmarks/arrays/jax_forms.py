"""The programs in JAX, loops by `lax.fori_loop`. Loaded where JAX is installed; float64 is on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

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


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalise(x: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-8)


def log_sum_exp(x: Any) -> Any:
    high = x.max(axis=1)
    return high + jnp.log(jnp.exp(x - high[:, None]).sum(axis=1))


def distances(x: Any, y: Any) -> Any:
    return jnp.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


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


def lennard_jones(p: Any) -> Any:
    d = p[:, None, :] - p[None, :, :]
    r2 = (d * d).sum(axis=-1) + jnp.eye(p.shape[0])
    s6 = 1 / (r2 * r2 * r2)
    return jnp.where(jnp.eye(p.shape[0]) > 0, 0.0, 4 * (s6 * s6 - s6)).sum() / 2


def blur(image: Any) -> Any:
    padded = jnp.pad(image, 1, mode="edge")
    h, w = image.shape
    return sum(padded[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9


def sobel(image: Any) -> Any:
    left, right = image[:, :-2], image[:, 2:]
    gx = (right - left)[:-2] + 2 * (right - left)[1:-1] + (right - left)[2:]
    upper, lower = image[:-2], image[2:]
    gy = (lower - upper)[:, :-2] + 2 * (lower - upper)[:, 1:-1] + (lower - upper)[:, 2:]
    return jnp.hypot(gx, gy)


def gamma(image: Any) -> Any:
    grey = image @ jnp.array([0.299, 0.587, 0.114])
    return (jnp.clip(grey, 0, 1) ** 0.45 * 255).astype(jnp.int32)


def flipped_mean(image: Any) -> Any:
    return (image + image[:, ::-1] + image[::-1] + image[::-1, ::-1]) / 4


def covariance(x: Any) -> Any:
    centered = x - x.mean(axis=0)
    return centered.T @ centered / (x.shape[0] - 1)


def moving_average(x: Any) -> Any:
    total = jnp.cumsum(x)
    return (total[50:] - total[:-50]) / 50


def autocorrelation(x: Any) -> Any:
    c = x - x.mean()
    return jnp.array([(c[k:] * c[: x.shape[0] - k]).mean() for k in range(1, 17)])


def _normal(x: Any) -> Any:
    t = 1 / (1 + 0.2316419 * jnp.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * -1.821255978)))
    below = 1 - jnp.exp(-x * x / 2) * 0.3989422804 * tail
    return jnp.where(x < 0, 1 - below, below)


def black_scholes(spot: Any, strike: Any) -> Any:
    first = (jnp.log(spot / strike) + (0.02 + 0.5 * 0.3**2) * 1.5) / (0.3 * jnp.sqrt(1.5))
    second = first - 0.3 * jnp.sqrt(1.5)
    return spot * _normal(first) - strike * jnp.exp(-0.02 * 1.5) * _normal(second)


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
