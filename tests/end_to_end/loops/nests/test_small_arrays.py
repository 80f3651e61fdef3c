"""Loops that make small arrays in each turn, and functions of such, are one nest.

Statistics, finance, filters, eigenvalues, paths of planets: as users of NumPy write them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.nests.test_nests import fresh, outcome
from tests.end_to_end.loops.nests.test_rows import near
from tests.end_to_end.loops.test_collected import loops_of

pytestmark = pytest.mark.one_python

R = np.random.default_rng(5)


def sgd(x, y, w, lr, epochs):
    n = x.shape[0]
    for _ in range(epochs):
        for i in range(n):
            z = np.dot(x[i], w)
            p = 1.0 / (1.0 + math.exp(-z))
            w -= lr * (p - y[i]) * x[i]
    return w


def kalman(z, f, h, q, r):
    n = len(z)
    x = np.zeros(2)
    p = np.eye(2)
    out = np.zeros((n, 2))
    for i in range(n):
        x = f @ x
        p = f @ p @ f.T + q
        y = z[i] - h @ x
        s = h @ p @ h + r
        k = (p @ h) / s
        x = x + k * y
        p = p - np.outer(k, h @ p)
        out[i] = x
    return out


def forward(a, b, pi, obs):
    n = len(pi)
    alpha = np.zeros((len(obs), n))
    alpha[0] = pi * b[:, obs[0]]
    for t in range(1, len(obs)):
        for j in range(n):
            alpha[t, j] = np.sum(alpha[t - 1] * a[:, j]) * b[j, obs[t]]
        alpha[t] /= alpha[t].sum()
    return alpha


def dtw(a, b):
    n, m = len(a), len(b)
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = np.sqrt(np.sum((a[i - 1] - b[j - 1]) ** 2))
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


def bollinger(x, w):
    n = len(x)
    out = np.zeros((n, 3))
    for i in range(w - 1, n):
        win = x[i - w + 1 : i + 1]
        m = win.mean()
        s = win.std()
        out[i] = m, m + 2 * s, m - 2 * s
    return out


def rsi(x, w):
    n = len(x)
    out = np.zeros(n)
    up = 0.0
    down = 0.0
    for i in range(1, n):
        d = x[i] - x[i - 1]
        up = (up * (w - 1) + max(d, 0.0)) / w
        down = (down * (w - 1) + max(-d, 0.0)) / w
        out[i] = 100.0 if down == 0 else 100 - 100 / (1 + up / down)
    return out


def drawdown(x):
    peak = x[0]
    worst = 0.0
    for v in x:
        peak = max(peak, v)
        worst = max(worst, (peak - v) / peak)
    return worst


def dft(x):
    n = len(x)
    re = np.zeros(n)
    im = np.zeros(n)
    for k in range(n):
        for t in range(n):
            a = 2 * math.pi * k * t / n
            re[k] += x[t] * math.cos(a)
            im[k] -= x[t] * math.sin(a)
    return re, im


def autocorr(x, lags):
    n = len(x)
    m = x.mean()
    out = np.zeros(lags)
    for k in range(lags):
        out[k] = np.dot(x[: n - k] - m, x[k:] - m)
    return out / out[0]


def bilinear(img, h, w):
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            y = i * (img.shape[0] - 1) / (h - 1)
            x = j * (img.shape[1] - 1) / (w - 1)
            a, b = int(y), int(x)
            c, d = min(a + 1, img.shape[0] - 1), min(b + 1, img.shape[1] - 1)
            fy, fx = y - a, x - b
            out[i, j] = (
                img[a, b] * (1 - fy) * (1 - fx)
                + img[c, b] * fy * (1 - fx)
                + img[a, d] * (1 - fy) * fx
                + img[c, d] * fy * fx
            )
    return out


def sobel(img):
    kx = np.array([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    ky = kx.T
    h, w = img.shape
    out = np.zeros((h, w))
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            win = img[i - 1 : i + 2, j - 1 : j + 2]
            gx = (win * kx).sum()
            gy = (win * ky).sum()
            out[i, j] = np.sqrt(gx * gx + gy * gy)
    return out


def rk4(y, dt, steps):
    out = np.zeros((steps, len(y)))
    for i in range(steps):
        k1 = np.array([y[1], -y[0]])
        z = y + 0.5 * dt * k1
        k2 = np.array([z[1], -z[0]])
        z = y + 0.5 * dt * k2
        k3 = np.array([z[1], -z[0]])
        z = y + dt * k3
        k4 = np.array([z[1], -z[0]])
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out[i] = y
    return out


def lorenz(p):
    return np.array([10 * (p[1] - p[0]), p[0] * (28 - p[2]) - p[1], p[0] * p[1] - 8 / 3 * p[2]])


def rk4_function(y, dt, steps):
    out = np.zeros((steps, 3))
    for i in range(steps):
        k1 = lorenz(y)
        k2 = lorenz(y + dt / 2 * k1)
        y = y + dt * k2
        out[i] = y
    return out


def pagerank(m, d, tol):
    n = m.shape[0]
    r = np.ones(n) / n
    new = np.zeros(n)
    err = 1.0
    it = 0
    while err > tol and it < 200:
        for i in range(n):
            new[i] = (1 - d) / n + d * np.dot(m[i], r)
        err = np.abs(new - r).sum()
        r[:] = new
        it += 1
    return r, it


def lcs(a, b):
    n, m = len(a), len(b)
    prev = np.zeros(m + 1, np.int64)
    cur = np.zeros(m + 1, np.int64)
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                cur[j + 1] = prev[j] + 1
            else:
                cur[j + 1] = max(prev[j + 1], cur[j])
        prev[:] = cur
    return prev[m]


def conv1d(x, k):
    n, m = len(x), len(k)
    out = np.zeros(n - m + 1)
    for i in range(n - m + 1):
        out[i] = np.dot(x[i : i + m], k[::-1])
    return out


def spheres(o, dirs, centres, radii):
    n = len(dirs)
    out = np.full(n, -1, dtype=np.int64)
    for i in range(n):
        best = np.inf
        d = dirs[i] / np.linalg.norm(dirs[i])
        for s in range(len(centres)):
            oc = o - centres[s]
            b = 2 * np.dot(oc, d)
            c = np.dot(oc, oc) - radii[s] ** 2
            disc = b * b - 4 * c
            if disc > 0:
                t = (-b - math.sqrt(disc)) / 2
                if 0 < t < best:
                    best = t
                    out[i] = s
    return out


def qr_house(a):
    m, n = a.shape
    q = np.eye(m)
    for k in range(n):
        v = a[k:, k].copy()
        s = 1.0 if v[0] >= 0 else -1.0
        v[0] += s * np.linalg.norm(v)
        v /= np.linalg.norm(v)
        for j in range(k, n):
            a[k:, j] -= 2 * np.dot(v, a[k:, j]) * v
        for i in range(m):
            q[i, k:] -= 2 * np.dot(q[i, k:], v) * v
    return q, a


def jacobi_eig(a, sweeps):
    n = a.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) < 1e-14:
                    continue
                th = (a[q, q] - a[p, p]) / (2 * a[p, q])
                t = (1.0 if th >= 0 else -1.0) / (abs(th) + math.sqrt(th * th + 1))
                c = 1 / math.sqrt(t * t + 1)
                sn = t * c
                rp = a[p, :].copy()
                rq = a[q, :].copy()
                a[p, :] = c * rp - sn * rq
                a[q, :] = sn * rp + c * rq
                cp = a[:, p].copy()
                cq = a[:, q].copy()
                a[:, p] = c * cp - sn * cq
                a[:, q] = sn * cp + c * cq
    return a


def thomas(a, b, c, d):
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    x = np.zeros(n)
    x[-1] = d[-1] / b[-1]
    for i in range(n - 2, -1, -1):
        x[i] = (d[i] - c[i] * x[i + 1]) / b[i]
    return x


SHEAR = np.array([[1.0, 1.0], [0.0, 1.0]])
S = R.random((6, 6))
S = S + S.T
CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (sgd, lambda: (R.random((30, 4)), (R.random(30) > 0.5).astype(float), np.zeros(4), 0.1, 3)),
    (kalman, lambda: (R.random(30), SHEAR, np.array([1.0, 0.0]), np.eye(2) * 0.01, 0.1)),
    (forward, lambda: (R.random((3, 3)), R.random((3, 4)), R.random(3), R.integers(0, 4, 12))),
    (dtw, lambda: (R.random((10, 2)), R.random((12, 2)))),
    (bollinger, lambda: (R.random(40), 5)),
    (rsi, lambda: (R.random(40), 14)),
    (drawdown, lambda: (R.random(40) + 1,)),
    (dft, lambda: (R.random(16),)),
    (autocorr, lambda: (R.random(30), 8)),
    (bilinear, lambda: (R.random((6, 7)), 11, 9)),
    (sobel, lambda: (R.random((9, 8)),)),
    (rk4, lambda: (np.array([1.0, 0.0]), 0.1, 40)),
    (rk4_function, lambda: (np.array([1.0, 1.0, 1.0]), 0.01, 50)),
    (pagerank, lambda: (R.random((8, 8)) / 4, 0.85, 1e-9)),
    (lcs, lambda: (R.integers(0, 3, 20), R.integers(0, 3, 25))),
    (conv1d, lambda: (R.random(30), R.random(5))),
    (
        spheres,
        lambda: (np.zeros(3), R.normal(size=(20, 3)), R.normal(size=(5, 3)) * 3, R.random(5)),
    ),
    (qr_house, lambda: (R.random((7, 5)),)),
    (jacobi_eig, lambda: (S.copy(), 4)),
    (thomas, lambda: tuple(R.random(10) + k for k in (0, 4, 0, 0))),
]


@pytest.mark.parametrize(("function", "make"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_programs_with_small_arrays_are_one_nest(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]
) -> None:
    args = make()
    compiled = dj.compile(function, fullgraph=True)
    expected = outcome(function, args)
    for _ in range(2):
        assert near(expected, outcome(compiled, args))
    assert loops_of(function, *fresh(args)) == 1
