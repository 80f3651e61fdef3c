"""Searching, distinct elements, running extrema and counts agree with PyTorch."""

import math

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DynajitError
from tests.support.rows.compare import agree, numbers, outputs_of

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(2)
X = RNG.standard_normal((4, 6))
TIES = RNG.integers(0, 4, (5, 7))
ORDER = np.sort(RNG.standard_normal(9))
ROWS = np.sort(RNG.standard_normal((4, 8)), axis=1)
MISSING = np.array([1.0, math.nan, 3.0, math.nan, 2.0, math.inf, 3.0])


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("kind", ["int64", "float32", "float16", "bool", "uint8"])
def test_unique_gives_values_inverse_and_counts(dim, kind) -> None:
    array = np.concatenate([TIES, TIES[:2]]).astype(kind)
    agree(lambda t, x: t.unique(x, True, True, True, dim), array, gradients=False)
    agree(lambda t, x: x.unique(dim=dim), array, gradients=False)
    agree(lambda t, x: t.unique(x, return_counts=True, dim=dim), array, gradients=False)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique_consecutive_gives_runs(dim) -> None:
    array = np.repeat(np.repeat(TIES, 2, 0), 3, 1)
    agree(lambda t, x: t.unique_consecutive(x, True, True, dim), array)
    agree(lambda t, x: x.unique_consecutive(return_counts=True, dim=dim), array)


def test_unique_of_nan_and_of_nothing() -> None:
    agree(lambda t, x: t.unique(x, return_counts=True), MISSING, gradients=False)
    agree(lambda t, x: t.unique(x, return_inverse=True), np.zeros((0,)), gradients=False)
    agree(lambda t, x: t.unique_consecutive(x, return_counts=True), np.zeros(0), gradients=False)
    agree(lambda t, x: t.unique(x), np.array(3), gradients=False)


CASES = {
    "searchsorted": (lambda t, o, x: t.searchsorted(o, x), ORDER, X),
    "searchsorted_right": (lambda t, o, x: t.searchsorted(o, o, right=True), ORDER, X),
    "searchsorted_side": (lambda t, o, x: t.searchsorted(o, o, side="right"), ORDER, X),
    "searchsorted_rows": (lambda t, o, x: t.searchsorted(o, x), ROWS, X),
    "searchsorted_rows_right": (lambda t, o, x: t.searchsorted(o, o, side="right"), ROWS, X),
    "searchsorted_int32": (lambda t, o, x: t.searchsorted(o, x, out_int32=True), ORDER, X),
    "searchsorted_number": (lambda t, o, x: t.searchsorted(o, 0.25), ORDER, X),
    "searchsorted_sorter": (
        lambda t, o, x: t.searchsorted(x, x, sorter=t.argsort(x, dim=-1)), ORDER, X,
    ),
    "searchsorted_dtypes": (lambda t, o, x: t.searchsorted(o, x.float()), ORDER, X),
    "bucketize": (lambda t, o, x: t.bucketize(x, o), ORDER, X),
    "bucketize_right": (lambda t, o, x: t.bucketize(o, o, right=True), ORDER, X),
    "cummax": (lambda t, o, x: t.cummax(x, 1), ORDER, X),
    "cummin": (lambda t, o, x: x.cummin(0), ORDER, X),
    "logcumsumexp": (lambda t, o, x: t.logcumsumexp(x * 30, -1), ORDER, X),
    "msort": (lambda t, o, x: x.msort(), ORDER, X),
    "isin": (lambda t, o, x: t.isin(o, o[:3]), ORDER, X),
    "isin_number": (lambda t, o, x: t.isin((x * 2).long(), 1, invert=True), ORDER, X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_pytorch(name: str) -> None:
    expression, *arrays = CASES[name]
    agree(expression, *arrays)


def test_everything_compiles_as_one_graph() -> None:
    calls = [(call, array is ROWS) for call, array, _ in CASES.values()]

    def run(order, rows, x):
        return [call(dj, rows if by_rows else order, x) for call, by_rows in calls]

    operands = [dj.tensor(array) for array in (ORDER, ROWS, X)]
    expected = outputs_of(run(*operands))
    actual = outputs_of(dj.compile(run, fullgraph=True)(*operands))

    assert len(expected) == len(actual)
    for left, right in zip(expected, actual, strict=True):
        np.testing.assert_allclose(numbers(right), numbers(left), rtol=1e-12)


@pytest.mark.parametrize("right", [False, True])
def test_nan_is_larger_than_every_number(right) -> None:
    order = np.sort(MISSING)
    agree(lambda t, x: t.searchsorted(x, x, right=right), order, gradients=False)
    agree(lambda t, x: t.bucketize(x.flip(0), x[:4], right=right), order, gradients=False)


def test_running_extrema_remember_nan_and_the_last_of_equal_ones() -> None:
    agree(lambda t, x: (t.cummax(x, 0), t.cummin(x, 0)), MISSING, gradients=False)
    agree(lambda t, x: (t.cummax(x, 1), t.cummin(x, 1)), TIES)
    agree(lambda t, x: (t.cummax(x[0, 0], 0), t.cummin(x[:0], 0)), X, gradients=False)
    compiled = dj.compile(lambda x: dj.cummax(x, 0), fullgraph=True)
    expected = torch.cummax(torch.tensor(MISSING), 0)
    actual = compiled(dj.tensor(MISSING))

    np.testing.assert_array_equal(actual.values.numpy(), expected.values.numpy())
    assert expected.indices.tolist() == actual.indices.tolist()


def test_logcumsumexp_sums_infinities() -> None:
    array = np.array([-math.inf, -math.inf, 1.0, -math.inf, 3.0, -2.0])
    agree(lambda t, x: t.logcumsumexp(x, 0), array)
    agree(lambda t, x: t.logcumsumexp(x, 0), array[2:])
    agree(lambda t, x: t.logcumsumexp(x, 0), np.array([1.0, math.inf, 2.0]), gradients=False)
    agree(lambda t, x: t.logcumsumexp(x, 0), np.array([1000.0, 1000.0], np.float32))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_mode_gives_the_smallest_of_the_most_frequent(dim, keepdim) -> None:
    expected = torch.mode(torch.tensor(TIES), dim, keepdim)
    actual = dj.tensor(TIES).mode(dim, keepdim)

    assert expected.values.tolist() == actual.values.tolist()
    at = actual.indices if keepdim else actual.indices.unsqueeze(dim)
    assert torch.mode(torch.tensor(TIES), dim, True).values.tolist() == (
        dj.tensor(TIES).gather(dim, at).tolist()
    )


def test_counts_agree_with_pytorch() -> None:
    whole, weights = TIES.reshape(-1), RNG.random(TIES.size)
    agree(lambda t, x: (t.bincount(x), x.bincount(minlength=9), t.bincount(x[:0])), whole)
    agree(lambda t, x, w: t.bincount(x, w), whole, weights, gradients=False)
    agree(lambda t, x, w: t.bincount(x, w.float()), whole, weights, gradients=False)
    agree(lambda t, x: (t.histc(x), x.histc(5, -1, 1), t.histc(x, 4)), X, gradients=False)
    agree(lambda t, x: t.histc(t.ones_like(x), 3), X, gradients=False)
    agree(lambda t, x: t.histogram(x, 5), X, gradients=False)
    agree(lambda t, x: t.histogram(x, 4, range=(-1.0, 1.0), density=True), X, gradients=False)
    agree(lambda t, x, o: t.histogram(x, o, weight=x.abs()), X, ORDER, gradients=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.searchsorted(x, x[:2]),
        lambda t, x: t.searchsorted(x, 1.0),
        lambda t, x: t.searchsorted(x[0], x, side="middle"),
        lambda t, x: t.searchsorted(x[0], x, side="left", right=True),
        lambda t, x: t.searchsorted(x[0], x, sorter=t.zeros(3, dtype=t.int64)),
        lambda t, x: t.searchsorted(x[0], x, sorter=t.zeros(6, dtype=t.int32)),
        lambda t, x: t.bucketize(x, x),
        lambda t, x: t.bincount(x),
        lambda t, x: t.bincount(t.tensor([-1])),
        lambda t, x: t.bincount(t.tensor([1]), minlength=-1),
        lambda t, x: t.histc(x, 0),
        lambda t, x: t.histc(x, 3, 2, 1),
        lambda t, x: t.histc(x * math.inf),
        lambda t, x: t.mode(x[:0], 0),
        lambda t, x: t.unique(t.zeros(2, 0, 3), dim=0),
        lambda t, x: t.logcumsumexp(t.tensor([1, 2]), 0) if t is dj else x.view(5),
        lambda t, x: t.isin(1, 2),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(X))
    with pytest.raises(DynajitError):
        call(dj, dj.tensor(X))


def test_the_ends_of_a_histogram_may_be_tensors():
    agree(lambda t, x: t.histc(x, 4, t.tensor(-1.0), x.max()), X, gradients=False)
