"""Whole programs that are loops, over tensors and over NumPy's arrays, are one graph with plain
Python's results.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

RANDOM = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def _tensor(*shape: int) -> Any:
    return dj.tensor(RANDOM.normal(size=shape).astype(np.float32))


# ------------------------------------------------------------------------------------- tensors


def rnn(x: Any, h: Any, w: Any, u: Any) -> Any:
    for t in range(x.shape[0]):
        h = dj.tanh(x[t] @ w + h @ u)
    return h


def gru(x: Any, h: Any, w: Any, u: Any) -> Any:
    for t in range(x.shape[0]):
        z, r, n = (x[t] @ w).chunk(3, -1)
        hz, hr, hn = (h @ u).chunk(3, -1)
        z, r = dj.sigmoid(z + hz), dj.sigmoid(r + hr)
        h = (1 - z) * dj.tanh(n + r * hn) + z * h
    return h


def lstm(x: Any, h: Any, w: Any, u: Any) -> Any:
    c, collected = h, []
    for t in range(x.shape[0]):
        i, f, g, o = (x[t] @ w + h @ u).chunk(4, -1)
        c = dj.sigmoid(f) * c + dj.sigmoid(i) * dj.tanh(g)
        h = dj.sigmoid(o) * dj.tanh(c)
        collected.append(h)
    return dj.stack(collected), c


def diffusion(x: Any, w: Any, alphas: Any) -> Any:
    for t in range(alphas.shape[0] - 1, -1, -1):
        noise = dj.tanh(x @ w)
        x = (x - (1 - alphas[t]).sqrt() * noise) / alphas[t].sqrt()
    return x


def beam_search(scores: Any) -> Any:
    beams, total = [], dj.zeros(2)
    for t in range(scores.shape[0]):
        total, chosen = (total[:, None] + scores[t]).flatten().topk(2)
        beams.append(chosen)
    return dj.stack(beams), total


def generation(table: Any, w: Any, first: Any) -> Any:
    token, keys, tokens = first, [], []
    for _ in range(6):
        x = table[token]
        keys.append(x)
        cache = dj.stack(keys)
        context = dj.softmax(cache @ x, 0) @ cache
        token = (context @ w).argmax()
        tokens.append(token)
    return dj.stack(tokens)


def particle_filter(particles: Any, seen: Any) -> Any:
    means = []
    for t in range(seen.shape[0]):
        particles = 0.9 * particles + 0.1
        weights = dj.softmax(-((particles - seen[t]) ** 2), 0)
        edges = (dj.arange(particles.shape[0]) + 0.5) / particles.shape[0]
        particles = particles[dj.searchsorted(weights.cumsum(0), edges).clamp(max=len(edges) - 1)]
        means.append(particles.mean())
    return dj.stack(means)


def epoch(batches: Any, targets: Any, w: Any) -> Any:
    w = w.clone().requires_grad_(True)
    for k in range(batches.shape[0]):
        loss = ((batches[k] @ w - targets[k]) ** 2).mean()
        (gradient,) = dj.autograd.grad(loss, w)
        w = (w - 0.1 * gradient).detach().requires_grad_(True)
    return w.detach()


# -------------------------------------------------------------------------------------- arrays


def k_means(x: Any, centers: Any) -> Any:
    for _ in range(5):
        labels = ((x[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        chosen = (labels[:, None] == np.arange(centers.shape[0])).astype(x.dtype)
        centers = (chosen.T @ x) / np.maximum(chosen.sum(axis=0), 1)[:, None]
    return centers, labels


def mixture(x: Any, mean: Any) -> Any:
    weight, spread = np.full(2, 0.5), np.ones(2)
    for _ in range(8):
        density = weight * np.exp(-((x[:, None] - mean) ** 2) / (2 * spread)) / np.sqrt(spread)
        share = density / density.sum(axis=1, keepdims=True)
        count = share.sum(axis=0)
        mean = (share * x[:, None]).sum(axis=0) / count
        spread = (share * (x[:, None] - mean) ** 2).sum(axis=0) / count + 1e-6
        weight = count / x.shape[0]
    return mean, spread, weight


def life(grid: Any) -> Any:
    for _ in range(4):
        rows = np.roll(grid, 1, 0) + grid + np.roll(grid, -1, 0)
        count = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - grid
        grid = ((count == 3) | ((grid == 1) & (count == 2))).astype(grid.dtype)
    return grid


def wave(before: Any, now: Any) -> Any:
    for _ in range(6):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return now


def advection(u: Any) -> Any:
    for _ in range(6):
        u = u - 0.3 * (u - np.roll(u, 1))
    return u


def bodies(p: Any, v: Any, m: Any) -> Any:
    for _ in range(4):
        d = p[None, :, :] - p[:, None, :]
        r2 = (d * d).sum(axis=-1) + 1e-3
        v = v + 0.01 * (d * (m[None, :] * r2**-1.5)[:, :, None]).sum(axis=1)
        p = p + 0.01 * v
    return p, v


def gauss_seidel(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for _ in range(3):
        for i in range(b.shape[0]):
            x[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
    return x


def lower_upper(a: Any) -> Any:
    a = a.copy()
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k, k + 1 :]
    return a


def cholesky(a: Any) -> Any:
    result = np.zeros_like(a)
    for k in range(a.shape[0]):
        column = a[k:, k] - result[k:, :k] @ result[k, :k]
        result[k:, k] = column / np.sqrt(column[0])
    return result


def floyd_warshall(d: Any) -> Any:
    for k in range(d.shape[0]):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d


def edit_distance(a: Any, b: Any) -> Any:
    row = np.arange(b.shape[0] + 1)
    for i in range(a.shape[0]):
        changed = np.minimum(row[1:] + 1, row[:-1] + (b != a[i]))
        following = np.concatenate([np.array([i + 1]), changed])
        steps = np.arange(b.shape[0] + 1)
        row = np.minimum.accumulate(following - steps) + steps
    return row[-1]


def ising(spins: Any, draws: Any) -> Any:
    even = (np.arange(spins.shape[0])[:, None] + np.arange(spins.shape[1])) % 2
    for t in range(draws.shape[0]):
        around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0)
        around = around + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
        flips = (draws[t] < np.exp(-2 * 0.4 * spins * around)) & (even == t % 2)
        spins = np.where(flips, -spins, spins)
    return spins


def adaptive_ode(x: Any) -> Any:
    t, h = 0.0, 0.1
    for _ in range(12):
        k1 = -x
        k2 = -(x + h * k1)
        error = np.abs(h * (k2 - k1) / 2).max()
        is_fine = error < 1e-3
        x = np.where(is_fine, x + h * (k1 + k2) / 2, x)
        t = np.where(is_fine, t + h, t)
        h = np.where(is_fine, h * 1.2, h * 0.5)
    return x, t


def option_tree(spot: Any) -> Any:
    up, n = np.exp(0.02), 12
    values = np.maximum(100 - spot[:, None] * up ** (2 * np.arange(n + 1) - n), 0)
    for k in range(n, 0, -1):
        held = 0.999 * (0.5 * values[:, 1 : k + 1] + 0.5 * values[:, :k])
        values = np.maximum(held, 100 - spot[:, None] * up ** (2 * np.arange(k) - k + 1))
    return values[:, 0]


def euler(x: Any, v: Any) -> Any:
    for _ in range(30):
        x, v = x + 0.01 * v, v - 0.01 * np.sin(x)
    return x, v


def runge_kutta(y: Any) -> Any:
    for _ in range(20):
        a = np.cos(y)
        b = np.cos(y + 0.05 * a)
        c = np.cos(y + 0.05 * b)
        d = np.cos(y + 0.1 * c)
        y = y + 0.1 / 6 * (a + 2 * b + 2 * c + d)
    return y


def newton(a: Any) -> Any:
    x = a * 1.0
    for _ in range(8):
        x = 0.5 * (x + a / x)
    return x


def conjugate_gradient(a: Any, b: Any) -> Any:
    x, r = np.zeros_like(b), b.copy()
    p, size = r, r @ r
    for _ in range(5):
        ap = a @ p
        alpha = size / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        p, size = r + new / size * p, new
    return x


def power_iteration(a: Any, x: Any) -> Any:
    for _ in range(25):
        x = a @ x
        x = x / np.sqrt(np.sum(x * x))
    return x @ a @ x, x


def sinkhorn(cost: Any) -> Any:
    kernel = np.exp(-cost)
    u, v = np.ones(cost.shape[0]), np.ones(cost.shape[1])
    for _ in range(20):
        u = 1 / (kernel @ v)
        v = 1 / (kernel.T @ u)
    return u[:, None] * kernel * v


def heat(u: Any) -> Any:
    u = u.copy()
    for _ in range(30):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def jacobi(a: Any, b: Any) -> Any:
    diagonal, x = np.diag(a), np.zeros_like(b)
    for _ in range(30):
        x = (b - a @ x + diagonal * x) / diagonal
    return x


def mandelbrot(real: Any, imaginary: Any) -> Any:
    x, y, turns = np.zeros_like(real), np.zeros_like(real), np.zeros(real.shape, np.int64)
    for _ in range(20):
        inside = x * x + y * y < 4
        x, y = (
            np.where(inside, x * x - y * y + real, x),
            np.where(inside, 2 * x * y + imaginary, y),
        )
        turns = turns + inside
    return turns


def page_rank(links: Any) -> Any:
    n = links.shape[0]
    rank, shares = np.full(n, 1 / n), links / links.sum(axis=0)
    for _ in range(25):
        rank = 0.15 / n + 0.85 * (shares @ rank)
    return rank


def value_iteration(moves: Any, rewards: Any) -> Any:
    values = np.zeros(rewards.shape[0])
    for _ in range(25):
        gains = rewards + 0.9 * (moves @ values).T
        values = gains.max(axis=1)
    return values, gains.argmax(axis=1)


def kalman(seen: Any) -> Any:
    mean, spread, means = np.zeros(2), np.ones(2), []
    for t in range(seen.shape[0]):
        spread = spread + 0.1
        gain = spread / (spread + 0.5)
        mean, spread = mean + gain * (seen[t] - mean), (1 - gain) * spread
        means.append(mean)
    return np.stack(means)


def viterbi(start: Any, moves: Any, seen: Any) -> Any:
    best, chosen = start, []
    for t in range(seen.shape[0]):
        paths = best[:, None] + moves
        chosen.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + seen[t]
    return best, np.stack(chosen)


def polynomial(coefficients: Any, x: Any) -> Any:
    total = np.zeros_like(x)
    for k in range(coefficients.shape[0] - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


def logistic_regression(x: Any, y: Any) -> Any:
    w = np.zeros(x.shape[1])
    for _ in range(30):
        w = w - 0.1 * (x.T @ (1 / (1 + np.exp(-(x @ w))) - y)) / x.shape[0]
    return w


def gray_scott(u: Any, v: Any) -> Any:
    for _ in range(15):
        both = u * v * v
        spread = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        u, v = u + 0.1 * spread - 0.1 * both + 0.03 * (1 - u), v + 0.1 * both - 0.09 * v
    return u, v


def matrix_roots(a: Any) -> Any:
    y, z, one = a, np.eye(a.shape[0]), np.eye(a.shape[0])
    for _ in range(12):
        step = 0.5 * (3 * one - z @ y)
        y, z = y @ step, step @ z
    return y


def adam(w: Any, x: Any, y: Any) -> Any:
    first, second = np.zeros_like(w), np.zeros_like(w)
    for k in range(1, 21):
        slope = x.T @ (x @ w - y) / x.shape[0]
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        w = w - 0.05 * first / (1 - 0.9**k) / (np.sqrt(second / (1 - 0.99**k)) + 1e-8)
    return w


A = _normal(6, 6)
SYMMETRIC = A @ A.T + 6 * np.eye(6)

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (
        rnn,
        (_tensor(12, 3), _tensor(4), _tensor(3, 4), _tensor(4, 4)),
    ),
    (
        gru,
        (_tensor(12, 3), _tensor(4), _tensor(3, 12), _tensor(4, 12)),
    ),
    (
        lstm,
        (_tensor(12, 3), _tensor(4), _tensor(3, 16), _tensor(4, 16)),
    ),
    (
        diffusion,
        (_tensor(5, 3), _tensor(3, 3), dj.linspace(0.9, 0.99, 12)),
    ),
    (
        beam_search,
        (_tensor(7, 2, 5),),
    ),
    (
        generation,
        (_tensor(8, 4), _tensor(4, 8), dj.tensor(3)),
    ),
    (
        particle_filter,
        (_tensor(20), _tensor(6)),
    ),
    (
        epoch,
        (_tensor(6, 8, 3), _tensor(6, 8), _tensor(3)),
    ),
    (
        k_means,
        (_normal(30, 2), _normal(3, 2)),
    ),
    (
        mixture,
        (_normal(40), np.array([-1.0, 1.0])),
    ),
    (
        life,
        ((RANDOM.random((12, 12)) < 0.4).astype(np.int32),),
    ),
    (
        wave,
        (_normal(20), _normal(20)),
    ),
    (
        advection,
        (_normal(20),),
    ),
    (
        bodies,
        (_normal(5, 3), _normal(5, 3), np.abs(_normal(5))),
    ),
    (
        gauss_seidel,
        (SYMMETRIC, _normal(6)),
    ),
    (
        lower_upper,
        (SYMMETRIC,),
    ),
    (
        cholesky,
        (SYMMETRIC,),
    ),
    (
        floyd_warshall,
        (np.abs(_normal(7, 7)),),
    ),
    (
        edit_distance,
        (np.array([3, 1, 4, 1, 5]), np.array([2, 7, 1, 8, 1, 5])),
    ),
    (
        ising,
        (np.sign(_normal(8, 8)), RANDOM.random((6, 8, 8))),
    ),
    (
        adaptive_ode,
        (_normal(5),),
    ),
    (
        option_tree,
        (np.linspace(80.0, 120.0, 5),),
    ),
    (euler, (_normal(5), _normal(5))),
    (runge_kutta, (_normal(5),)),
    (newton, (np.abs(_normal(5)) + 1,)),
    (conjugate_gradient, (SYMMETRIC, _normal(6))),
    (power_iteration, (SYMMETRIC, np.ones(6))),
    (sinkhorn, (np.abs(_normal(5, 5)),)),
    (heat, (_normal(20),)),
    (jacobi, (SYMMETRIC + 30 * np.eye(6), _normal(6))),
    (mandelbrot, (_normal(8, 8), _normal(8, 8))),
    (page_rank, (np.abs(_normal(6, 6)) + 0.1,)),
    (value_iteration, (RANDOM.dirichlet(np.ones(4), (3, 4)), _normal(4, 3))),
    (kalman, (_normal(12, 2),)),
    (viterbi, (_normal(4), _normal(4, 4), _normal(9, 4))),
    (polynomial, (_normal(9), _normal(7))),
    (logistic_regression, (_normal(20, 3), (_normal(20) > 0).astype(np.float64))),
    (gray_scott, (np.ones((6, 6)), RANDOM.random((6, 6)))),
    (matrix_roots, (SYMMETRIC / np.trace(SYMMETRIC),)),
    (adam, (_normal(3), _normal(20, 3), _normal(20))),
]


def _assert_same(expected: Any, found: Any) -> None:
    assert type(expected) is type(found)
    if isinstance(expected, tuple):
        for each, other in zip(expected, found, strict=True):
            _assert_same(each, other)
        return
    assert expected.dtype == found.dtype and expected.shape == found.shape
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS]
)
def test_programs_are_one_graph_and_give_what_plain_python_gives(
    program: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    compiled = dj.compile(program, fullgraph=True, backend="numpy")
    for _ in range(2):
        _assert_same(program(*arguments), compiled(*arguments))


def heat_for(u: Any, n: int) -> Any:
    for _ in range(n):
        u = u + 0.2 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return u


def pendulum_for(x: Any, n: int) -> Any:
    v = x * 0
    for _ in range(n):
        v = v - 0.001 * np.sin(x)
        x = x + 0.001 * v
    return x, v


def wave_for(x: Any, n: int) -> Any:
    """In front of a turn `after` is `now` by another name."""
    before, now = x, 0.5 * x
    for _ in range(n):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return before, now, after


@pytest.mark.parametrize("program", [heat_for, pendulum_for, wave_for])
def test_a_graph_does_not_grow_with_its_turns(program: Callable[..., Any]) -> None:
    x = np.linspace(-1.0, 1.0, 20)
    few, more, many = (dj.explain(program)(x, n).graphs for n in (10, 100, 10_000))
    assert len(few) == len(more) == len(many) == 1
    assert len(few[0].nodes) == len(more[0].nodes) == len(many[0].nodes)
    _assert_same(program(x, 100), dj.compile(program, fullgraph=True)(x, 100))
