"""24 NumPy programs, as one writes them for NumPy: dynajit compiles them unchanged.

A program's other forms are functions of the same name in `loops` (Numba) and `jax_forms` (JAX).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]

# ------------------------------------------------------------------------------------ stencils


def heat(u: Any) -> Any:
    u = u.copy()
    for _ in range(20):
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += 0.1 * (around - 4 * u[1:-1, 1:-1])
    return u


def wave(before: Any, now: Any) -> Any:
    for _ in range(20):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return now


def advection(u: Any) -> Any:
    for _ in range(20):
        u = u - 0.3 * (u - np.roll(u, 1))
    return u


def life(grid: Any) -> Any:
    for _ in range(5):
        rows = np.roll(grid, 1, 0) + grid + np.roll(grid, -1, 0)
        count = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - grid
        grid = ((count == 3) | ((grid == 1) & (count == 2))).astype(grid.dtype)
    return grid


def jacobi(u: Any, f: Any) -> Any:
    u = u.copy()
    for _ in range(20):
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] = 0.25 * (sides - f[1:-1, 1:-1])
    return u


# ---------------------------------------------------------------------------------- reductions


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalise(x: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-8)


def log_sum_exp(x: Any) -> Any:
    high = x.max(axis=1)
    return high + np.log(np.exp(x - high[:, None]).sum(axis=1))


def distances(x: Any, y: Any) -> Any:
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


# ------------------------------------------------------------------------------ linear algebra


def power_iteration(a: Any, v: Any) -> Any:
    for _ in range(20):
        v = a @ v
        v = v / np.sqrt((v * v).sum())
    return v


def least_squares(x: Any, y: Any, w: Any) -> Any:
    for _ in range(30):
        w = w - 0.1 / len(y) * (x.T @ (x @ w - y))
    return w


def conjugate_gradient(a: Any, b: Any) -> Any:
    x, r = np.zeros_like(b), b.copy()
    p, old = r, (r * r).sum()
    for _ in range(20):
        ap = a @ p
        alpha = old / (p * ap).sum()
        x, r = x + alpha * p, r - alpha * ap
        new = (r * r).sum()
        p, old = r + (new / old) * p, new
    return x


# -------------------------------------------------------------------------------------- n-body


def bodies(p: Any, v: Any, m: Any) -> Any:
    for _ in range(5):
        d = p[None, :, :] - p[:, None, :]
        r2 = (d * d).sum(axis=-1) + 1e-3
        v = v + 0.01 * (d * (m[None, :] * r2**-1.5)[:, :, None]).sum(axis=1)
        p = p + 0.01 * v
    return p


def lennard_jones(p: Any) -> Any:
    d = p[:, None, :] - p[None, :, :]
    r2 = (d * d).sum(axis=-1) + np.eye(p.shape[0])
    s6 = 1 / (r2 * r2 * r2)
    return np.where(np.eye(p.shape[0]) > 0, 0.0, 4 * (s6 * s6 - s6)).sum() / 2


# ------------------------------------------------------------------------------- image filters


def blur(image: Any) -> Any:
    padded = np.pad(image, 1, mode="edge")
    h, w = image.shape
    out = np.zeros_like(image)
    for i in range(3):
        for j in range(3):
            out += padded[i : i + h, j : j + w]
    return out / 9


def sobel(image: Any) -> Any:
    left, right = image[:, :-2], image[:, 2:]
    gx = (right - left)[:-2] + 2 * (right - left)[1:-1] + (right - left)[2:]
    upper, lower = image[:-2], image[2:]
    gy = (lower - upper)[:, :-2] + 2 * (lower - upper)[:, 1:-1] + (lower - upper)[:, 2:]
    return np.hypot(gx, gy)


def gamma(image: Any) -> Any:
    grey = image @ np.array([0.299, 0.587, 0.114])
    return (np.clip(grey, 0, 1) ** 0.45 * 255).astype(np.int32)


def flipped_mean(image: Any) -> Any:
    return (image + image[:, ::-1] + image[::-1] + image[::-1, ::-1]) / 4


# ---------------------------------------------------------------------------------- statistics


def covariance(x: Any) -> Any:
    centered = x - x.mean(axis=0)
    return centered.T @ centered / (x.shape[0] - 1)


def moving_average(x: Any) -> Any:
    total = np.cumsum(x)
    return (total[50:] - total[:-50]) / 50


def autocorrelation(x: Any) -> Any:
    c = x - x.mean()
    return np.array([(c[k:] * c[: x.shape[0] - k]).mean() for k in range(1, 17)])


# ------------------------------------------------------------------------------------- finance


def _normal(x: Any) -> Any:
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * -1.821255978)))
    below = 1 - np.exp(-x * x / 2) * 0.3989422804 * tail
    return np.where(x < 0, 1 - below, below)


def black_scholes(spot: Any, strike: Any) -> Any:
    first = (np.log(spot / strike) + (0.02 + 0.5 * 0.3**2) * 1.5) / (0.3 * np.sqrt(1.5))
    second = first - 0.3 * np.sqrt(1.5)
    return spot * _normal(first) - strike * np.exp(-0.02 * 1.5) * _normal(second)


def monte_carlo(z: Any) -> Any:
    price = np.full(z.shape[1], 100.0)
    total = np.zeros(z.shape[1])
    for step in range(z.shape[0]):
        price = price * np.exp(0.0001 + 0.01 * z[step])
        total = total + price
    return np.maximum(total / z.shape[0] - 100, 0).mean()


def mandelbrot(x: Any, y: Any) -> Any:
    a, b, count = x, y, np.zeros_like(x)
    for _ in range(30):
        a, b = a * a - b * b + x, 2 * a * b + y
        inside = a * a + b * b < 4
        a, b = np.where(inside, a, 2.0), np.where(inside, b, 2.0)
        count = count + inside
    return count


# -------------------------------------------------------------------------------------- sizes


def _random(scale: float, *shapes: tuple[int, ...]) -> Callable[[float], Arguments]:
    """Arrays of normal numbers; the function takes how large they are, 1 for the table."""

    def made(size: float) -> Arguments:
        random = np.random.default_rng(0)
        return tuple(
            scale * random.normal(size=[max(n if n < 20 else int(n * size), 2) for n in shape])
            for shape in shapes
        )

    return made


def _system(size: float) -> Arguments:
    a, b = _random(1.0, (300, 300), (300,))(size)
    return a @ a.T / len(a) + np.eye(len(a)), b


def _grid(size: float) -> Arguments:
    n = int(300 * size)
    x, y = np.meshgrid(np.linspace(-2, 1, n), np.linspace(-1, 1, n))
    return x, y


def _positive(arguments: Callable[[float], Arguments]) -> Callable[[float], Arguments]:
    return lambda size: tuple(np.abs(x) + 1 for x in arguments(size))


def _dots(size: float) -> Arguments:
    n = int(512 * size)
    return ((np.random.default_rng(0).random((n, n)) < 0.3).astype(np.int32),)


def _lattice(size: float) -> Arguments:
    n = int(200 * size)
    (noise,) = _random(0.05, (n, 3))(1)
    return (np.arange(n)[:, None] + noise,)


#: Program -> its arguments, by size.
PROGRAMS: dict[Callable[..., Any], Callable[[float], Arguments]] = {
    heat: _random(1.0, (512, 512)),
    wave: _random(1.0, (100_000,), (100_000,)),
    advection: _random(1.0, (100_000,)),
    life: _dots,
    jacobi: _random(1.0, (512, 512), (512, 512)),
    softmax: _random(1.0, (1000, 500)),
    normalise: _random(1.0, (1000, 500)),
    log_sum_exp: _random(1.0, (1000, 500)),
    distances: _random(1.0, (500, 8), (500, 8)),
    power_iteration: lambda size: _system(size),
    least_squares: _random(1.0, (2000, 50), (2000,), (50,)),
    conjugate_gradient: lambda size: _system(size),
    bodies: _random(1.0, (200, 3), (200, 3), (200,)),
    lennard_jones: _lattice,
    blur: _random(1.0, (512, 512)),
    sobel: _random(1.0, (512, 512)),
    gamma: _random(0.5, (512, 512, 3)),
    flipped_mean: _random(1.0, (512, 512)),
    covariance: _random(1.0, (5000, 40)),
    moving_average: _random(1.0, (200_000,)),
    autocorrelation: _random(1.0, (50_000,)),
    black_scholes: _positive(_random(20.0, (200_000,), (200_000,))),
    monte_carlo: _random(1.0, (100, 5000)),
    mandelbrot: _grid,
}
