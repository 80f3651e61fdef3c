"""Idioms of NumPy programs: which are one graph, and that all give what NumPy gives.

Each line is an expression of `x` and `y`, and what they are.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError
from tests.fuzz.arrays import difference

R = np.random.default_rng(0)
A, B, S = R.normal(size=(6, 5)), R.normal(size=(6, 5)), R.normal(size=(4, 4))
V, W, I = R.normal(size=8), R.normal(size=8), R.integers(0, 5, 12)
IM, P, F, C = R.random((9, 9)), R.random((3, 4, 5)), np.asfortranarray(A), V + 1j * W
NAMES = {"A": A, "B": B, "S": S, "V": V, "W": W, "I": I, "IM": IM, "P": P, "F": F, "C": C, "np": np}

CAPTURED = """
x[::-1] | V
x[::-1].copy() | V
x[::-1] * y | V W
x[:, ::-1] + 1 | A
np.flip(x) | V
np.flip(x, 0) + 1 | A
np.fliplr(x) * 2 | A
np.flipud(x) * 2 | A
np.cumsum(x[::-1])[::-1] | V
np.maximum.accumulate(x) | V
np.add.reduce(x) | A
np.add.reduce(x, axis=1) | A
np.add.accumulate(x) | V
np.multiply.reduce(x, axis=0) | A
np.multiply.outer(x, y) | V W
np.subtract.outer(x, y) | V W
np.logical_or.reduce(x > 0, axis=1) | A
np.logical_and.reduce([x[:, 0] > 0, x[:, 1] > 0]) | A
np.minimum.reduce([x, y]) | V W
(lambda o: (np.add.at(o, y, 1.0), o)[1])(np.zeros(5)) | V I
np.divide(x, y, out=np.zeros_like(x), where=y > 0) | V W
np.sqrt(x, where=x > 0, out=np.zeros_like(x)) | V
np.add(x, y, out=(x,)) | V W
np.sum(x, where=x > 0) | A
np.mean(x, where=x > 0) | A
np.max(x, initial=0.0) | A
x.sum(axis=0, out=np.zeros(5)) | A
np.concatenate([x, x], axis=1) | F
np.roll(x, 1, axis=0) | F
np.pad(x, 1) | F
np.cumsum(x, axis=0) | F
np.pad(np.flip(x), 1) | F
np.round(x, 1) | F
np.round(x[:, ::-1], -1) | F
np.round(x[::2], decimals=1) | F
np.round(x[::2]) | F
x.T[:, ::-1].round(2) | F
np.pad(x[::2], 1, mode='edge') | F
x[:, [2, 0]] | A
x ** -1.5 | np.abs(V)
np.ravel(x) | F
x.reshape(5, 6, order='F') | A
x.ravel(order='F') | A
np.zeros((3, 4), order='F') + 1 | A
np.zeros_like(x) + x.T.sum() | F
np.pad(x, 1, mode='edge') | IM
np.pad(x, 1, mode='reflect') | IM
np.pad(x, ((1, 1), (1, 1)), mode='wrap') | IM
np.pad(x, 1, mode='symmetric') | IM
np.pad(x, 1, constant_values=3) | IM
x.imag + x.real | C
np.real(x) * np.imag(x) | C
np.abs(x) | C
np.angle(x) | C
np.conj(x) * x | C
np.exp(1j * x) | V
np.float32(2) + x.sum() | V
np.float32(2) * np.float64(3) * x.sum() | V
np.einsum('ij,ij->i', x, y) | A B
np.einsum('ii', x) | S
np.einsum('...i,...i->...', x, y) | A B
np.tensordot(x, y, axes=([0], [0])) | A B
np.tensordot(x, y, axes=1) | S S
np.linalg.inv(x) | S
np.linalg.solve(x, x[0]) | S
np.linalg.det(x) | S
np.linalg.slogdet(x) | S
np.linalg.cholesky(x @ x.T + np.eye(4)) | S
np.linalg.eigh(x + x.T) | S
np.linalg.eigvalsh(x + x.T) | S
np.linalg.svd(x) | S
np.linalg.qr(x) | S
np.linalg.pinv(x) | S
np.linalg.norm(x, axis=1) | A
np.linalg.norm(x, 1) | V
np.linalg.norm(x, np.inf) | V
np.linalg.norm(x, ord='fro') | A
np.linalg.matrix_power(x, 3) | S
np.linalg.multi_dot([x, x, x]) | S
[i for i in np.ndindex(2, 3)] | V
np.median(x, axis=0) | A
np.median(x) | A
np.percentile(x, 30) | V
np.quantile(x, [0.25, 0.75]) | V
np.percentile(x, 50, axis=1) | A
np.searchsorted(np.sort(x), y) | V W
np.interp(x, np.linspace(-1, 1, 5), np.arange(5.0)) | V
np.convolve(x, np.ones(3) / 3, mode='valid') | V
np.convolve(x, y) | V W
np.convolve(x, y, 'same') | V W
np.correlate(x, y, 'full') | V W
np.gradient(x) | V
np.gradient(x, 0.1) | V
np.gradient(x) | A
np.gradient(x, axis=0) | A
np.diff(x, prepend=0.0) | V
np.trapezoid(x, dx=0.1) | V
np.trapezoid(x, y) | V W
np.cov(x) | A
np.cov(x, rowvar=False) | A
np.corrcoef(x) | A
np.corrcoef(x, y) | V W
np.average(x, axis=0) | A
np.cross(x, y) | A[:,:3] B[:,:3]
np.kron(x, x) | S
np.diag(x) | V
np.diag(x) * 2 | S
np.diagonal(x) * 2 | S
x.diagonal().sum() | S
np.fill_diagonal(x, 0.0) | S
x[np.diag_indices(4)].sum() | S
x[np.triu_indices(4, 1)] | S
np.tri(4) * x | S
np.meshgrid(x, y) | V W
np.meshgrid(x, y, indexing='ij') | V W
np.meshgrid(np.arange(3), np.arange(4))[0] + x[0] | V
np.mgrid[0:3, 0:4] + x[0] | V
np.ogrid[0:3, 0:4][0] + x[0] | V
np.indices((3, 4)) + x[0] | V
np.r_[x, 1.0] | V
np.c_[x, y] | V W
x[:, np.newaxis] - y[np.newaxis, :] | V W
np.select([x < 0, x > 1], [x * 2, x * 3], default=0.0) | V
np.take_along_axis(x, np.argsort(x, axis=1, kind='stable'), axis=1) | A
np.sort(x)[::-1] | V
np.isclose(x, y) | V W
np.nan_to_num(x) | V
np.broadcast_to(x, (3, 8)) + 1 | V
np.atleast_2d(x) | V
np.atleast_1d(x) | V
np.dstack([x, y]) | A B
np.array_split(x, 3) | V
np.split(x, [2, 5]) | V
np.hsplit(x, 5)[0] | A
np.vsplit(x, 2)[0] | A
np.append(x, 1.0) | V
np.append(x, y) | V W
np.sinc(x) | V
np.heaviside(x, 0.5) | V
np.signbit(x) | V
np.divmod(x, 0.3) | V
divmod(x, 2) | I
np.polyval([1.0, 2.0, 3.0], x) | V
np.hanning(8) * x | V
np.hamming(8) * x | V
np.logspace(0, 1, 8) * x | V
np.geomspace(1, 10, 8) * x | V
np.fft.fft(x) | V
np.fft.rfft(x) | V
np.abs(np.fft.fft2(x)) | IM
np.fft.ifft(np.fft.fft(x)).real | V
np.fft.fftshift(x) | V
np.fft.fftfreq(8, 0.1) * x | V
np.round(x, 2) | V
x.round(1) | V
np.copyto(x, y) | V W
np.putmask(x, x > 0, 0.0) | V
x.fill(3.0) | V
x.sort() | V
x.cumsum()[-1] | V
x.astype(int) | V
x.astype('float32') | V
np.array([x.sum(), x.mean(), x.std()]) | V
np.array([[1, 2], [3, 4]]) @ x[:2] | V
np.array([x[0], x[1], 0.0]) | V
np.shape(x) | V
np.ndim(x) + np.size(x) | V
np.lib.stride_tricks.sliding_window_view(x, 3).mean(axis=1) | V
np.ones(3, dtype=bool) & (x[:3] > 0) | V
np.inner(x, y) | A B
np.dot(x, y.T) | A B
np.vdot(x, x) | A
np.power(x, 2) | V
x ** -1.0 | V
np.bitwise_and(x, 3) | I
x << 2 | I
(x > 0).sum() | V
np.any(np.isnan(x)) | V
np.logical_not(x > 0) | V
np.repeat(x, 2) | V
np.repeat(x, [1, 2, 1, 2, 1, 2, 1, 2]) | V
np.tile(x, (2, 1)) | V
np.linspace(0, x[0], 5) | V
np.arange(len(x)) * x | V
np.arange(x.shape[0], dtype=float) | V
np.full(x.shape, np.nan) | V
np.full_like(x, x.mean()) | V
np.swapaxes(x, 0, 1) | A
np.rollaxis(x, 2) | P
np.ix_([0, 1], [1, 2]) | V
x[np.ix_([0, 1], [1, 2])] | A
x[..., 0] | P
x[[0, 1], [1, 2]] | A
x[[np.argmax(y[:, 0]), 0]] | A B
x[[np.argmax(y[:, 0]), 0], 1:] | A B
x[1, [x[0].argmin(), np.int64(2)]] | A
x[[np.int64(2), 0]] | A
x[[np.argmin(x[:, 0]), 0], [1, np.argmax(x[0])]] | A
x[[[0, np.argmax(x[:, 0])], [1, 2]]] | A
x[1:, [0, 2]] | A
x.mean(axis=(0, 1)) | P
np.mean(x, axis=-1, keepdims=True) | P
np.std(x, ddof=1) | V
np.var(x, axis=0, ddof=1) | A
np.prod(x.shape) | A
np.sum([x, y], axis=0) | V W
sum(x) | V
abs(x).max() | V
x.T @ x | A
x.clip(0) | V
x.clip(min=0, max=1) | V
np.minimum(np.maximum(x, 0), 1) | V
np.fmax(x, y) | V W
np.hypot(x, y) | V W
np.expm1(x) + np.log1p(np.abs(x)) | V
np.ascontiguousarray(x) | F
np.require(x, float) | A
np.float64(x[0]) | V
np.float64(3.0) * x | V
np.sqrt(2.0) * x | V
np.sin(np.pi) + x[0] | V
np.exp(-0.5 * np.float64(2)) * x | V
np.nextafter(x, 1) | V
np.gcd(x, 4) | I
np.unwrap(x) | V
np.resize(x, (2, 3)) | V
np.iscomplexobj(x) | V
np.result_type(x, np.float32) | V
np.finfo(x.dtype).eps + x | V
np.finfo(float).eps + x | V
np.iinfo(np.int32).max - x | I
x.dtype == np.float64 | V
x.strides | A
np.nancumsum(x) | V
np.block([[x, x], [x, x]]) | S
np.fromfunction(lambda i, j: i + j, (3, 3)) + x[0] | V
np.asarray(x, dtype=np.float32) | V
np.array([1.0, 2.0]).sum() + x[0] | V
np.array(x.shape) * 2 | A
np.stack([r * 2 for r in x]) | A
np.moveaxis(x, 0, -1) | P
x.transpose(1, 0, 2) | P
x.squeeze() | V[None]
x.swapaxes(0, 1) | P
np.errstate(divide='ignore') and x | V
np.isfinite(x).all() | V
x.dot(y) | V W
np.matmul(x, x, out=np.zeros((4, 4))) | S
x[x > 0] | V
x[x > 0].mean() | V
np.vander(x, 3) | V
np.count_nonzero(x > 0) | V
x[x > 0].max() + np.sum(x[x < 0]) | V
max(x) | V
min(x[0], x[1]) | V
np.nanmean(x) | V
np.nanmax(x, axis=0) | A
np.nanstd(x) | A
np.digitize(x, np.array([-1.0, 0.0, 1.0])) | V
np.average(x, weights=y) | V np.abs(W)
np.diagflat(x) | V
np.argsort(x) | V
x[np.argsort(x)] | V
np.argpartition(x, 3)[:3].sum() | V
np.partition(x, 3)[3] | V
np.rot90(x) + 1 | S
np.insert(x, 0, 1.0) | V
np.delete(x, 0) | V
np.cbrt(x) | V
np.modf(x) | V
np.isin(x, [1, 2]) | I
np.power(2, x) | I
2 ** x | I
x ** x | I
np.lexsort((x, y)) | V W
np.unravel_index(x.argmax(), x.shape) | A
np.asfortranarray(x) | A
np.ldexp(x, 2) | V
np.ediff1d(x) | V
np.linspace(0, 1, 5, retstep=True) | V
np.linspace(x[0], x[1], 5, retstep=True) | V
np.linspace(x, y, 4) | V W
np.fromiter((v * 2 for v in range(5)), float) + x[0] | V
np.cov(x) | V
np.meshgrid(x, y, sparse=True) | V W
np.ravel_multi_index((x % 3, x % 2), (3, 2)) | I
np.take(x, [9, -9], mode='clip') | V
x.take([1, 2]) | V
np.putmask(x, x > 0, y) | V W
np.kron(x, y) | V W
np.fft.fft(x, axis=0) | A
np.fft.rfft(x, 12) | V
x << y | I I
np.spacing(x) | V
np.pad(x, 1, constant_values=(1.0, 2.0)) | A
"""

#: Where contents of arrays choose sizes or Python values, and what NumPy alone can do.
LEFT = """
np.stack([x, x]) | F
np.einsum('ij->ji', x) | A
np.einsum('ii->i', x) | S
np.einsum('ij,jk->ki', x, x) | S
np.linalg.lstsq(x, x[:, 0], rcond=None) | A
np.vectorize(lambda a: a + 1)(x) | V
np.apply_along_axis(lambda r: r.sum(), 1, x) | A
np.histogram(x, bins=5) | V
np.bincount(x) | I
np.bincount(x, minlength=8) | I
np.unique(x) | I
np.nonzero(x > 0) | V
np.argwhere(x > 0) | V
np.flatnonzero(x > 0) | V
np.where(x > 0) | V
np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v]) | V
np.choose(x > 0, [x, y]) | V W
np.allclose(x, x) | V
np.array_equal(x, y) | V W
np.broadcast_arrays(x, y[:, None])[0] * 1 | V W
np.polyfit(np.arange(8.0), x, 2) | V
np.put(x, [0, 1], 5.0) | V
x.tolist() | V
x.item(0) | V
float(x[0]) | V
int(x.sum()) | V
x.flat[3] | V
x.nonzero() | V
x.view(np.int64) | V
np.random.seed(0) | V
x + np.random.normal(size=8) | V
x + np.random.default_rng(0).normal(size=8) | V
bool(np.any(x > 0)) | V
np.packbits(x > 0) | V
np.trim_zeros(x) | V
np.isreal(x) | V
x.flags['C_CONTIGUOUS'] | V
np.may_share_memory(x, x) | V
np.compress(x > 0, x) | V
np.extract(x > 0, x) | V
np.logaddexp.reduce(x) | V
"""


def _lines(text: str) -> list[list[str]]:
    return [[part.strip() for part in line.rsplit("|", 1)] for line in text.strip().splitlines()]


def _given(names: str) -> list[Any]:
    return [np.array(eval(name, dict(NAMES)), order="K") for name in names.split()]


def _result(function: Any, given: list[Any]) -> Any:
    np.random.seed(0)
    try:
        found = function(*given)
    except GraphBreakError:
        raise
    except Exception as error:
        found = [type(error), str(error)]
    return [found, given]


def _function(expression: str, names: str) -> Any:
    return eval(f"lambda {', '.join('xy'[: len(names.split())])}: {expression}", dict(NAMES))


def _differ(expression: str, names: str, is_whole: bool) -> str | None:
    function = _function(expression, names)
    expected = _result(function, _given(names))
    compiled = dj.compile(function, fullgraph=is_whole, backend="numpy")
    return difference(expected, _result(compiled, _given(names)))


@pytest.fixture(autouse=True)
def _strict() -> Any:
    with dj.config.override(strict=True):
        yield
    dj.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("expression", "names"), _lines(CAPTURED))
def test_is_one_graph_and_gives_what_numpy_gives(expression: str, names: str) -> None:
    assert _differ(expression, names, True) is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("expression", "names"), _lines(LEFT))
def test_is_left_to_numpy_and_gives_what_numpy_gives(expression: str, names: str) -> None:
    assert _differ(expression, names, False) is None
    with pytest.raises(GraphBreakError):
        dj.compile(_function(expression, names), fullgraph=True, backend="numpy")(*_given(names))


def swapped_rows(x, y):
    p = np.argmax(y[:, 0])
    x[[0, p]] = x[[p, 0]]
    return x


def swapped_parts(x, y):
    p, q = np.argmax(y[:, 0]), y[:, 1].argmin()
    x[[p, q], :2] = y[[q, p], 2:4]
    x[[q, p, 1]] *= 2
    return x


@pytest.mark.parametrize("function", [swapped_rows, swapped_parts])
def test_a_list_of_computed_numbers_is_an_array_of_indices_where_it_is_written(function) -> None:
    expected = function(A.copy(), B)
    found = dj.compile(function, fullgraph=True)(A.copy(), B)
    np.testing.assert_array_equal(expected, found)
