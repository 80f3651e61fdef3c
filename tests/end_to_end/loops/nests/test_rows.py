"""Loops with rows and slices of arrays, and with arrays of their own, are one nest.

Sums are added up in another order than NumPy's: results agree to rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.nests.test_nests import fresh, outcome
from tests.end_to_end.loops.test_collected import loops_of

pytestmark = pytest.mark.one_python

R = np.random.default_rng(3)


def lu(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            a[i, k + 1 :] -= a[i, k] * a[k, k + 1 :]
    return a


def cholesky(a):
    n = a.shape[0]
    l = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = np.dot(l[i, :j], l[j, :j])
            if i == j:
                l[i, j] = np.sqrt(a[i, i] - s)
            else:
                l[i, j] = (a[i, j] - s) / l[j, j]
    return l


def elimination(a, b):
    n = len(b)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            a[[k, p]] = a[[p, k]]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.dot(a[i, i + 1 :], x[i + 1 :])) / a[i, i]
    return x


def pivot_by_argmax(a):
    n = a.shape[0]
    sign = 1.0
    for k in range(n):
        p = k + np.argmax(np.abs(a[k:, k]))
        if p != k:
            for j in range(n):
                t = a[k, j]
                a[k, j] = a[p, j]
                a[p, j] = t
            sign = -sign
        for i in range(k + 1, n):
            a[i, k:] = a[i, k:] - a[k, k:] * (a[i, k] / a[k, k])
    return a


def gram_schmidt(a):
    q = a.copy()
    for j in range(a.shape[1]):
        for k in range(j):
            q[:, j] -= (q[:, k] @ a[:, j]) * q[:, k]
        q[:, j] /= np.sqrt((q[:, j] ** 2).sum())
    return q


def kmeans(points, centres, steps):
    n, d = points.shape
    k = centres.shape[0]
    labels = np.zeros(n, dtype=np.int64)
    for _ in range(steps):
        for i in range(n):
            best = np.inf
            for c in range(k):
                diff = points[i] - centres[c]
                dist = np.sum(diff * diff)
                if dist < best:
                    best = dist
                    labels[i] = c
        for c in range(k):
            total = np.zeros(d)
            count = 0
            for i in range(n):
                if labels[i] == c:
                    total += points[i]
                    count += 1
            if count > 0:
                centres[c] = total / count
    return labels, centres


def matrix_power(a, n):
    m = a.shape[0]
    out = np.eye(m)
    t = np.empty_like(a)
    for _ in range(n):
        for i in range(m):
            for j in range(m):
                t[i, j] = np.dot(out[i, :], a[:, j])
        out[:, :] = t
    return out


def moving_mean(x, w):
    n = len(x) - w + 1
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i : i + w].mean()
    return out


def knn(train, labels, query, k):
    out = np.zeros(len(query))
    n = len(train)
    dists = np.zeros(n)
    for q in range(len(query)):
        for i in range(n):
            dists[i] = np.sqrt(np.sum((train[i] - query[q]) ** 2))
        s = 0.0
        for _ in range(k):
            j = np.argmin(dists)
            s += labels[j]
            dists[j] = np.inf
        out[q] = s / k
    return out


def convolution(img, kernel):
    h, w = img.shape
    out = np.zeros((h - 2, w - 2))
    for i in range(h - 2):
        for j in range(w - 2):
            out[i, j] = (img[i : i + 3, j : j + 3] * kernel).sum()
    return out


def convolution_any(img, kernel):
    h, w = img.shape
    kh, kw = kernel.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(h - kh + 1):
        for j in range(w - kw + 1):
            out[i, j] = np.sum(img[i : i + kh, j : j + kw] * kernel)
    return out


def floyd(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            d[i, :] = np.minimum(d[i, :], d[i, k] + d[k, :])
    return d


def heat(u, steps):
    n = u.shape[0]
    for _ in range(steps):
        new = u.copy()
        for i in range(1, n - 1):
            new[i, 1:-1] = u[i, 1:-1] + 0.1 * (
                u[i - 1, 1:-1] + u[i + 1, 1:-1] + u[i, 2:] + u[i, :-2] - 4 * u[i, 1:-1]
            )
        u[:] = new
    return u


def smith_waterman(a, b):
    h = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    best = 0
    for i in range(1, len(a) + 1):
        row, above = h[i], h[i - 1]
        for j in range(1, len(b) + 1):
            s = 2 if a[i - 1] == b[j - 1] else -1
            row[j] = max(0, above[j - 1] + s, above[j] - 1, row[j - 1] - 1)
            if row[j] > best:
                best = row[j]
    return h


def polynomial(c, x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        v = 0.0
        for k in c[::-1]:
            v = v * x[i] + k
        out[i] = v
    return out


def radix_sort(a):
    for shift in range(0, 32, 8):
        counts = np.zeros(257, np.int64)
        for v in a:
            counts[((v >> shift) & 255) + 1] += 1
        for i in range(1, 257):
            counts[i] += counts[i - 1]
        out = np.empty_like(a)
        for v in a:
            d = (v >> shift) & 255
            out[counts[d]] = v
            counts[d] += 1
        a[:] = out
    return a


def levinson(r, n):
    a = np.zeros(n + 1)
    a[0] = 1.0
    e = r[0]
    for i in range(1, n + 1):
        acc = r[i]
        for j in range(1, i):
            acc += a[j] * r[i - j]
        k = -acc / e
        prev = a.copy()
        for j in range(1, i):
            a[j] = prev[j] + k * prev[i - j]
        a[i] = k
        e *= 1.0 - k * k
    return a


def levinson_slices(r, n):
    a = np.zeros(n + 1)
    a[0] = 1.0
    e = r[0]
    for i in range(1, n + 1):
        k = -(r[i] + np.dot(a[1:i], r[i - 1 : 0 : -1])) / e
        a[1:i] = a[1:i] + k * a[i - 1 : 0 : -1]
        a[i] = k
        e = e * (1.0 - k * k)
    return a


def equalise(img):
    hist = np.zeros(256, np.int64)
    h, w = img.shape
    for row in img:
        for v in row:
            hist[v] += 1
    cdf = np.zeros(256)
    for i in range(256):
        cdf[i] = hist[: i + 1].sum()
    out = np.zeros((h, w), np.uint8)
    for i in range(h):
        for j in range(w):
            out[i, j] = int(255 * cdf[img[i, j]] / cdf[255])
    return out


def softmax_rows(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        m = x[i].max()
        total = 0.0
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - m)
            total += out[i, j]
        out[i] /= total
    return out


def jacobi(a, b, steps):
    n = len(b)
    x = np.zeros(n)
    new = np.zeros(n)
    for _ in range(steps):
        for i in range(n):
            s = np.dot(a[i, :i], x[:i]) + np.dot(a[i, i + 1 :], x[i + 1 :])
            new[i] = (b[i] - s) / a[i, i]
        x[:] = new
    return x


def nbody(pos, vel, mass, steps, dt):
    n = pos.shape[0]
    for _ in range(steps):
        for i in range(n):
            acc = np.zeros(3)
            for j in range(n):
                if i != j:
                    d = pos[j] - pos[i]
                    r2 = (d**2).sum() + 1e-3
                    acc += mass[j] * d / (r2 * np.sqrt(r2))
            vel[i] += dt * acc
        for i in range(n):
            pos[i] += dt * vel[i]
    return pos


def givens(a):
    n = a.shape[0]
    for j in range(n):
        for i in range(n - 1, j, -1):
            x, y = a[i - 1, j], a[i, j]
            r = np.sqrt(x * x + y * y)
            if r > 0:
                c, s = x / r, y / r
                upper = c * a[i - 1, j:] + s * a[i, j:]
                lower = c * a[i, j:] - s * a[i - 1, j:]
                a[i - 1, j:] = upper
                a[i, j:] = lower
    return a


def median_filter(x, w):
    n = len(x)
    out = np.zeros(n)
    buf = np.zeros(2 * w + 1)
    for i in range(w, n - w):
        buf[:] = x[i - w : i + w + 1]
        for a in range(1, len(buf)):
            v = buf[a]
            b = a - 1
            while b >= 0 and buf[b] > v:
                buf[b + 1] = buf[b]
                b -= 1
            buf[b + 1] = v
        out[i] = buf[w]
    return out


def viterbi(trans, emit, obs):
    n, t = trans.shape[0], len(obs)
    score = np.zeros((t, n))
    back = np.zeros((t, n), np.int64)
    score[0] = emit[:, obs[0]]
    for i in range(1, t):
        for j in range(n):
            cand = score[i - 1] + trans[:, j]
            k = np.argmax(cand)
            back[i, j] = k
            score[i, j] = cand[k] + emit[j, obs[i]]
    return score, back


def power_rows(a, x, steps):
    n = a.shape[0]
    for _ in range(steps):
        y = np.zeros(n)
        for i in range(n):
            y[i] = a[i] @ x
        x[:] = y / np.sqrt(np.sum(y**2))
    return x


def triangular(l, b):
    n = len(b)
    x = b.copy()
    for i in range(n):
        x[i] = (x[i] - l[i, :i] @ x[:i]) / l[i, i]
    return x


def covariance(x):
    n, m = x.shape
    mean = np.zeros(m)
    for j in range(m):
        mean[j] = np.mean(x[:, j])
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            out[i, j] = np.sum((x[:, i] - mean[i]) * (x[:, j] - mean[j])) / (n - 1)
            out[j, i] = out[i, j]
    return out


def game(g, steps):
    h, w = g.shape
    for _ in range(steps):
        new = np.zeros((h, w), np.int64)
        for i in range(1, h - 1):
            for j in range(1, w - 1):
                s = g[i - 1 : i + 2, j - 1 : j + 2].sum() - g[i, j]
                if s == 3 or (s == 2 and g[i, j] == 1):
                    new[i, j] = 1
        g[:, :] = new
    return g


def spd(n):
    a = R.random((n, n))
    return a @ a.T + n * np.eye(n)


A = R.random((12, 12)) + 4 * np.eye(12)
CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (lu, lambda: (A.copy(),)),
    (cholesky, lambda: (spd(10),)),
    (elimination, lambda: (R.random((9, 9)), R.random(9))),
    (pivot_by_argmax, lambda: (R.random((8, 8)),)),
    (gram_schmidt, lambda: (R.random((9, 6)),)),
    (kmeans, lambda: (R.random((40, 3)), R.random((5, 3)), 4)),
    (matrix_power, lambda: (R.random((6, 6)) / 3, 5)),
    (moving_mean, lambda: (R.random(50), 7)),
    (knn, lambda: (R.random((30, 4)), R.random(30), R.random((6, 4)), 3)),
    (convolution, lambda: (R.random((10, 12)), R.random((3, 3)))),
    (convolution_any, lambda: (R.random((10, 12)), R.random((4, 2)))),
    (floyd, lambda: (R.random((12, 12)),)),
    (heat, lambda: (R.random((10, 11)), 6)),
    (smith_waterman, lambda: (R.integers(0, 4, 20), R.integers(0, 4, 15))),
    (polynomial, lambda: (R.random(5), R.random(20))),
    (radix_sort, lambda: (R.integers(0, 2**31, 60),)),
    (levinson, lambda: (np.array([2.0, 0.9, 0.5, 0.3, 0.1, 0.05, 0.02]), 6)),
    (levinson_slices, lambda: (np.array([2.0, 0.9, 0.5, 0.3, 0.1, 0.05, 0.02]), 6)),
    (equalise, lambda: (R.integers(0, 256, (9, 8)).astype(np.uint8),)),
    (softmax_rows, lambda: (R.random((6, 7)),)),
    (jacobi, lambda: (A.copy(), R.random(12), 8)),
    (nbody, lambda: (R.random((5, 3)), R.random((5, 3)), R.random(5), 6, 0.01)),
    (givens, lambda: (R.random((7, 7)),)),
    (median_filter, lambda: (R.random(40), 2)),
    (viterbi, lambda: (R.random((4, 4)), R.random((4, 6)), R.integers(0, 6, 12))),
    (power_rows, lambda: (R.random((8, 8)), R.random(8), 5)),
    (triangular, lambda: (np.tril(R.random((8, 8))) + np.eye(8), R.random(8))),
    (covariance, lambda: (R.random((15, 6)),)),
    (game, lambda: (R.integers(0, 2, (9, 9)), 5)),
]


def near(expected: Any, found: Any) -> bool:
    """Of one class, dtype and shape; floats to rounding."""
    if type(expected) is not type(found):
        return False
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(found) and all(map(near, expected, found))
    if isinstance(expected, (np.ndarray, np.generic)):
        if expected.dtype != found.dtype or expected.shape != found.shape:
            return False
        return bool(np.allclose(expected, found, rtol=1e-10, atol=1e-12, equal_nan=True))
    return bool(expected == found)


@pytest.mark.parametrize(("function", "make"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_programs_with_rows_are_one_nest(function: Callable[..., Any], make: Any) -> None:
    args = make()
    compiled = dj.compile(function, fullgraph=True)
    expected = outcome(function, args)
    for _ in range(2):
        assert near(expected, outcome(compiled, args))
    graphs = dj.explain(function)(*fresh(args)).graphs
    assert [str(graph).count("rows['nest']") for graph in graphs] == [1]
    assert loops_of(function, *fresh(args)) == 1
