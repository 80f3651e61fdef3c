"""The programs as explicit loops, which is Numba's own best form. Loaded where Numba is installed.

`prange` is a plain range where a function is compiled without `parallel=True`. Two programs are
products and have the text that they have for NumPy.
"""

import math
from typing import Any

import numpy as np
from numba import prange

from benchmarks.arrays.programs import least_squares, power_iteration  # noqa: F401 - forms


def heat(u: Any) -> Any:
    n, m = u.shape
    u, v = u.copy(), u.copy()
    for _ in range(20):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                v[i, j] = u[i, j] + 0.1 * (around - 4 * u[i, j])
        u, v = v, u
    return u


def wave(before: Any, now: Any) -> Any:
    n = now.shape[0]
    a, b, after = before.copy(), now.copy(), np.zeros_like(now)
    for _ in range(20):
        for i in prange(1, n - 1):
            after[i] = 2 * b[i] - a[i] + 0.25 * (b[i + 1] - 2 * b[i] + b[i - 1])
        after[0] = 0.0
        after[n - 1] = 0.0
        a, b, after = b, after, a
    return b


def advection(u: Any) -> Any:
    n = u.shape[0]
    a, b = u.copy(), u.copy()
    for _ in range(20):
        b[0] = a[0] - 0.3 * (a[0] - a[n - 1])
        for i in prange(1, n):
            b[i] = a[i] - 0.3 * (a[i] - a[i - 1])
        a, b = b, a
    return a


def life(grid: Any) -> Any:
    n, m = grid.shape
    a, b = grid.copy(), grid.copy()
    for _ in range(5):
        for i in prange(n):
            up, down = (i - 1) % n, (i + 1) % n
            for j in range(m):
                west = j - 1 if j else m - 1
                east = j + 1 if j < m - 1 else 0
                count = a[up, west] + a[up, j] + a[up, east] + a[i, west] + a[i, east]
                count += a[down, west] + a[down, j] + a[down, east]
                b[i, j] = 1 if count == 3 or (a[i, j] == 1 and count == 2) else 0
        a, b = b, a
    return a


def jacobi(u: Any, f: Any) -> Any:
    n, m = u.shape
    u, v = u.copy(), u.copy()
    for _ in range(20):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                sides = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                v[i, j] = 0.25 * (sides - f[i, j])
        u, v = v, u
    return u


def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        high, total = x[i, 0], 0.0
        for j in range(x.shape[1]):
            high = max(high, x[i, j])
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - high)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


def normalise(x: Any) -> Any:
    out = np.empty_like(x)
    n = x.shape[1]
    for i in prange(x.shape[0]):
        total, away = 0.0, 0.0
        for j in range(n):
            total += x[i, j]
        mean = total / n
        for j in range(n):
            away += (x[i, j] - mean) ** 2
        scale = 1 / (math.sqrt(away / n) + 1e-8)
        for j in range(n):
            out[i, j] = (x[i, j] - mean) * scale
    return out


def log_sum_exp(x: Any) -> Any:
    out = np.empty(x.shape[0])
    for i in prange(x.shape[0]):
        high, total = x[i, 0], 0.0
        for j in range(x.shape[1]):
            high = max(high, x[i, j])
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - high)
        out[i] = high + math.log(total)
    return out


def distances(x: Any, y: Any) -> Any:
    out = np.empty((x.shape[0], y.shape[0]))
    for i in prange(x.shape[0]):
        for j in range(y.shape[0]):
            total = 0.0
            for k in range(x.shape[1]):
                total += (x[i, k] - y[j, k]) ** 2
            out[i, j] = math.sqrt(total)
    return out


def conjugate_gradient(a: Any, b: Any) -> Any:
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    old = (r * r).sum()
    for _ in range(20):
        ap = a @ p
        alpha = old / (p * ap).sum()
        x = x + alpha * p
        r = r - alpha * ap
        new = (r * r).sum()
        p = r + (new / old) * p
        old = new
    return x


def bodies(p: Any, v: Any, m: Any) -> Any:
    n = p.shape[0]
    p, v, force = p.copy(), v.copy(), np.zeros_like(v)
    for _ in range(5):
        for i in prange(n):
            x, y, z = 0.0, 0.0, 0.0
            for j in range(n):
                dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + 1e-3
                by = m[j] / (r2 * math.sqrt(r2))
                x += dx * by
                y += dy * by
                z += dz * by
            force[i, 0], force[i, 1], force[i, 2] = x, y, z
        for i in range(n):
            for k in range(3):
                v[i, k] += 0.01 * force[i, k]
                p[i, k] += 0.01 * v[i, k]
    return p


def lennard_jones(p: Any) -> Any:
    total = 0.0
    for i in prange(p.shape[0]):
        part = 0.0
        for j in range(p.shape[0]):
            if j != i:
                r2 = 0.0
                for k in range(3):
                    r2 += (p[i, k] - p[j, k]) ** 2
                s6 = 1 / (r2 * r2 * r2)
                part += 4 * (s6 * s6 - s6)
        total += part
    return total / 2


def blur(image: Any) -> Any:
    h, w = image.shape
    out = np.empty_like(image)
    for i in prange(h):
        for j in range(w):
            total = 0.0
            for k in range(-1, 2):
                for m in range(-1, 2):
                    total += image[min(max(i + k, 0), h - 1), min(max(j + m, 0), w - 1)]
            out[i, j] = total / 9
    return out


def sobel(image: Any) -> Any:
    h, w = image.shape
    out = np.empty((h - 2, w - 2))
    for i in prange(h - 2):
        for j in range(w - 2):
            a, b, c = image[i, j], image[i, j + 1], image[i, j + 2]
            d, f = image[i + 1, j], image[i + 1, j + 2]
            g, k, m = image[i + 2, j], image[i + 2, j + 1], image[i + 2, j + 2]
            gx = (c - a) + 2 * (f - d) + (m - g)
            gy = (g - a) + 2 * (k - b) + (m - c)
            out[i, j] = math.sqrt(gx * gx + gy * gy)
    return out


def gamma(image: Any) -> Any:
    h, w, _ = image.shape
    out = np.empty((h, w), np.int32)
    for i in prange(h):
        for j in range(w):
            grey = 0.299 * image[i, j, 0] + 0.587 * image[i, j, 1] + 0.114 * image[i, j, 2]
            out[i, j] = int(min(max(grey, 0.0), 1.0) ** 0.45 * 255)
    return out


def flipped_mean(image: Any) -> Any:
    h, w = image.shape
    out = np.empty_like(image)
    for i in prange(h):
        for j in range(w):
            near = image[i, j] + image[i, w - 1 - j]
            out[i, j] = (near + image[h - 1 - i, j] + image[h - 1 - i, w - 1 - j]) / 4
    return out


def covariance(x: Any) -> Any:
    n, m = x.shape
    mean = np.zeros(m)
    for i in range(n):
        for j in range(m):
            mean[j] += x[i, j]
    mean /= n
    centered = np.empty_like(x)
    for i in prange(n):
        for j in range(m):
            centered[i, j] = x[i, j] - mean[j]
    return centered.T @ centered / (n - 1)


def moving_average(x: Any) -> Any:
    n = x.shape[0]
    out = np.empty(n - 50)
    total = 0.0
    for i in range(1, 51):
        total += x[i]
    out[0] = total / 50
    for i in range(1, n - 50):
        total += x[i + 50] - x[i]
        out[i] = total / 50
    return out


def autocorrelation(x: Any) -> Any:
    n = x.shape[0]
    mean = x.mean()
    out = np.empty(16)
    for k in prange(1, 17):
        total = 0.0
        for i in range(n - k):
            total += (x[i + k] - mean) * (x[i] - mean)
        out[k - 1] = total / (n - k)
    return out


def black_scholes(spot: Any, strike: Any) -> Any:
    out = np.empty_like(spot)
    root = 0.3 * math.sqrt(1.5)
    discount = math.exp(-0.02 * 1.5)
    for i in prange(spot.shape[0]):
        first = (math.log(spot[i] / strike[i]) + (0.02 + 0.5 * 0.3**2) * 1.5) / root
        value = 0.0
        for k in range(2):
            x = first - root * k
            t = 1 / (1 + 0.2316419 * abs(x))
            tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * -1.821255978)))
            below = 1 - math.exp(-x * x / 2) * 0.3989422804 * tail
            if x < 0:
                below = 1 - below
            value += spot[i] * below if k == 0 else -strike[i] * discount * below
        out[i] = value
    return out


def monte_carlo(z: Any) -> Any:
    steps, paths = z.shape
    result = 0.0
    for j in prange(paths):
        price, total = 100.0, 0.0
        for i in range(steps):
            price *= math.exp(0.0001 + 0.01 * z[i, j])
            total += price
        result += max(total / steps - 100, 0.0)
    return result / paths


def mandelbrot(x: Any, y: Any) -> Any:
    h, w = x.shape
    count = np.zeros((h, w))
    for i in prange(h):
        for j in range(w):
            a, b = x[i, j], y[i, j]
            for _ in range(30):
                a, b = a * a - b * b + x[i, j], 2 * a * b + y[i, j]
                if a * a + b * b < 4:
                    count[i, j] += 1
                else:
                    a, b = 2.0, 2.0
    return count
