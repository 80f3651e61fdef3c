"""Functions that combine what meets at computed places agree with PyTorch."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DynajitError
from tests.support.rows.compare import agree

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(4)
X = RNG.standard_normal((4, 3))
SOURCE = RNG.standard_normal((5, 3))
INDEX = np.array([[0, 3, 1], [0, 2, 2], [1, 0, 0], [1, 1, 1], [3, 3, 3]])


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_combines(reduce, include_self) -> None:
    def run(t, x, s):
        index = t.tensor(INDEX)
        return x.scatter_reduce(0, index, s, reduce, include_self=include_self)

    agree(run, X, SOURCE)
    agree(lambda t, x, s: run(t, x[:, :3], s[:, ::2]), *(np.repeat(a, 2, 1) for a in (X, SOURCE)))
    whole = [(array * 4).astype(np.int32) for array in (X, SOURCE)]
    agree(run, *whole)
    agree(run, X.astype(np.float32), SOURCE.astype(np.float32))


def test_products_with_zeros_have_derivatives() -> None:
    x, source = X.copy(), SOURCE.copy()
    x[0, 0] = source[2, 1] = source[3, 2] = source[1, 2] = 0
    agree(lambda t, a, b: a.scatter_reduce(0, t.tensor(INDEX), b, "prod"), x, source)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce_combines(reduce, include_self) -> None:
    def run(t, x, s):
        index = t.tensor([0, 3, 1, 0, 3])
        return t.index_reduce(x, 0, index, s, reduce, include_self=include_self)

    agree(run, X, SOURCE)


def test_writes_in_place() -> None:
    def run(t, x, s):
        y = x.clone()
        y.scatter_reduce_(0, t.tensor(INDEX), s, "amax")
        y.put_(t.tensor([1, -2]), s[0, :2])
        return y.masked_scatter_(y > 0, s)

    agree(run, X, SOURCE, gradients=False)


def test_put_sets_and_adds() -> None:
    agree(lambda t, x, s: x.put(t.tensor([[0, 5], [7, -1]]), s[:2, :2]), X, SOURCE)
    agree(lambda t, x, s: t.put(x, t.tensor([0, 0, 3]), s[0], accumulate=True), X, SOURCE)


def test_masked_scatter_takes_one_after_another() -> None:
    agree(lambda t, x, s: x.masked_scatter(x > 0, s), X, SOURCE)
    agree(lambda t, x, s: t.masked_scatter(x[0], x > 0, s), X, SOURCE)
    agree(lambda t, x, s: t.masked_scatter(x, x > 9, s[:0]), X, SOURCE, gradients=False)


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
def test_compiled_functions_give_the_same() -> None:
    def run(x, s, index):
        return (
            x.scatter_reduce(0, index, s, "amax"),
            x.scatter_reduce(0, index, s, "mean", include_self=False),
            x.masked_scatter(x > 0, s),
            x.put(index[:2], s[:2]),
        )

    operands = [dj.tensor(array) for array in (X, SOURCE, INDEX)]
    for left, right in zip(run(*operands), dj.compile(run, fullgraph=True)(*operands), strict=True):
        np.testing.assert_allclose(right.numpy(), left.numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x.scatter_reduce(0, t.tensor(INDEX), x, "median"),
        lambda t, x: x.scatter_reduce(0, t.tensor(INDEX), x.float(), "amax"),
        lambda t, x: x.scatter_reduce(0, t.tensor([[9, 0, 0]]), x, "amax"),
        lambda t, x: t.index_reduce(x, 0, t.tensor([0, 1]), x, "prod"),
        lambda t, x: t.index_reduce(x, 0, t.tensor([0, 1, 2, 3]), x, "sum"),
        lambda t, x: x.put(t.tensor([0, 1]), x),
        lambda t, x: x.put(t.tensor([99]), x[0, :1]),
        lambda t, x: x.put(t.tensor([0]), x[0, :1].float()),
        lambda t, x: x.masked_scatter(x, x),
        lambda t, x: x.masked_scatter(x < 99, x[0]),
        lambda t, x: x.masked_scatter(x < 99, x.float()),
        lambda t, x: x.masked_scatter(x < 99, x[:0]),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(X))
    with pytest.raises(DynajitError):
        call(dj, dj.tensor(X))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_complex_numbers_have_no_extrema(reduce: str, include_self: bool) -> None:
    x = dj.zeros(3, dtype=dj.complex64)
    with pytest.raises(NotImplementedError, match="complex64"):
        x.scatter_reduce(0, dj.tensor([0, 1]), x[:2], reduce, include_self=include_self)
