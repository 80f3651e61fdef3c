"""Arrays at the edges of what kernels can be given: empty, huge, misaligned, overlapping, refused.

`make test-sanitizers` runs these, too: no kernel reads or writes outside of its arrays.
"""

import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.run import blas
from dynajit.core.errors import DivisionError

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]


@pytest.fixture(autouse=True)
def strict(strict_programs: None) -> None:
    """Errors while compiling are errors."""


def both(function: Callable[..., Any], *make: Callable[[], Any]) -> list[Any]:
    """What plain and compiled execution return or raise, and what is in the arguments then."""
    found = []
    for run in (function, dj.compile(function, fullgraph=True)):
        arguments = [each() for each in make]
        try:
            result: Any = run(*arguments)
        except (RuntimeError, IndexError) as error:
            result = type(error)
        results = result if isinstance(result, tuple) else (result,)
        arrays = [np.asarray(r.numpy()) if isinstance(r, dj.Tensor) else r for r in results]
        found.append((arrays, [argument.numpy().copy() for argument in arguments]))
    return found


def assert_alike(function: Callable[..., Any], *make: Callable[[], Any]) -> Any:
    """Plain and compiled execution agree; returns the compiled results."""
    (expected, left), (actual, right) = both(function, *make)
    for want, got in zip([*expected, *left], [*actual, *right], strict=True):
        if not isinstance(want, np.ndarray):
            assert want == got
            continue
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return actual


# -- no elements, no dimensions --------------------------------------------------------------------

EMPTY = {
    "pointwise": (lambda x: x.exp() + 1, (0, 3)),
    "broadcast": (lambda x: x + dj.ones(4, 1, 3), (0, 3)),
    "sum of nothing": (lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod()), (0, 3)),
    "mean of nothing": (lambda x: (x.mean(), x.mean(0), x.mean(1)), (0, 3)),
    "any and all": (lambda x: ((x > 0).any(), (x > 0).all(0)), (0, 3)),
    "softmax": (lambda x: (F.softmax(x, 1), F.softmax(x, 0)), (0, 3)),
    "rows of nothing": (lambda x: (F.softmax(x, 1), x.sum(1), x.logsumexp(0)), (3, 0)),
    "layer norm": (lambda x: F.layer_norm(x, (3,)), (0, 3)),
    "product without rows": (lambda x: x @ dj.ones(3, 2), (0, 3)),
    "product over nothing": (lambda x: x @ dj.ones(0, 2) + 1, (3, 0)),
    "batched product": (lambda x: x @ x.transpose(1, 2), (0, 3, 2)),
    "concatenation": (lambda x: dj.cat([x, dj.ones(2, 3), x], 0) * 2, (0, 3)),
    "view": (lambda x: x.reshape(3, 0, 7) + 1, (0, 3)),
    "gather": (lambda x: x[dj.zeros(0, dtype=dj.int64)], (5, 3)),
    "scatter": (
        lambda x: x.index_add(0, dj.zeros(0, dtype=dj.int64), dj.ones(0, 3)), (5, 3),
    ),
    "convolution": (lambda x: F.conv2d(x, dj.ones(2, 3, 2, 2)), (0, 3, 5, 5)),
    "pool": (lambda x: F.max_pool2d(x, 2), (0, 3, 4, 4)),
    "cumulated": (lambda x: x.flip(0) * 2, (0, 3)),
    "zero-dim": (lambda x: (x + 1, x.sum(), x.mean(), x.amax(), x.exp().reshape(1, 1)), ()),
    "zero-dim choices": (lambda x: (x.argmax(), F.softmax(x, 0), dj.where(x > 0, x, -x)), ()),
    "zero-dim product": (lambda x: (x * dj.ones(2, 3)) @ (dj.ones(3) * x), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_arrays_without_elements_or_dimensions(name: str) -> None:
    """As plain execution has it."""
    function, shape = EMPTY[name]

    assert_alike(function, lambda: dj.ones(shape) * 2)


@pytest.mark.parametrize("name", ["pointwise", "sum of nothing", "softmax", "product without rows"])
def test_empty_arrays_have_gradients(name: str) -> None:
    """Gradients of the argument's shape, empty."""
    function, shape = EMPTY[name]
    x = dj.ones(shape, requires_grad=True)

    found = dj.compile(function)(x)
    (found[0] if isinstance(found, tuple) else found).sum().backward()

    assert shape == tuple(x.grad.shape)


# -- more elements than 32 bits count --------------------------------------------------------------

MANY = 2**31 + 5

HUGE = {
    "sum": (lambda: dj.ones((), dtype=dj.int8).expand(MANY).sum(), MANY),
    "last index": (lambda: dj.arange(MANY).amax(), MANY - 1),
    "place of the largest": (lambda: (dj.arange(MANY) * 2).argmax(), MANY - 1),
    "columns": (lambda: dj.ones((), dtype=dj.int8).expand(MANY // 4, 5).sum(0)[4], MANY // 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGE)
def test_more_elements_than_32_bits_count_without_memory(name: str) -> None:
    """Of expanded and counted values nothing is stored."""
    function, expected = HUGE[name]

    assert expected == int(dj.compile(lambda x: function() + x, fullgraph=True)(dj.tensor(0)))


def test_elements_beyond_32_bits_are_gathered() -> None:
    """Pages that nobody wrote take no memory."""
    array = np.zeros(MANY, np.int8)
    array[[2**31 - 1, 2**31, MANY - 1]] = 1, 2, 3
    index = dj.tensor([0, 2**31 - 1, 2**31, MANY - 1, -1])

    found = dj.compile(lambda x, i: x[i] * 2, fullgraph=True)(dj.from_numpy(array), index)

    assert [0, 2, 4, 6, 6] == found.tolist()


def test_elements_beyond_32_bits_are_read_through_strides() -> None:
    """Column 1 of very long rows."""
    array = np.zeros((3, 2**30 + 7), np.int8)
    array[:, -1] = 1, 2, 3

    found = dj.compile(lambda x: x[:, -1] + x[:, 5], fullgraph=True)(dj.from_numpy(array))

    assert [1, 2, 3] == found.tolist()


NOT_COUNTED = 0x4000
"""MAP_NORESERVE of Linux, which `mmap` knows from Python 3.13 on."""


@pytest.mark.skipif(sys.platform != "linux", reason="memory that is not counted")
@pytest.mark.parametrize("has_own", [True, False], ids=["own products", "BLAS"])
def test_rows_further_apart_than_blas_can_count_are_multiplied(
    has_own: bool, monkeypatch: Any
) -> None:
    """Two rows of five elements, of which the second begins behind 2**31 others."""
    if not has_own:
        monkeypatch.setattr(blas, "own_products", lambda: (0, 0))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NOT_COUNTED
    memory = np.frombuffer(mmap.mmap(-1, 4 * (MANY + 8), flags=flags), np.float32)
    array = np.lib.stride_tricks.as_strided(memory, (2, 5), (4 * MANY, 4), writeable=True)
    array[:] = np.arange(10).reshape(2, 5)
    right = np.arange(15, dtype=np.float32).reshape(5, 3)

    found = dj.compile(lambda x, y: x @ y, fullgraph=True)(
        dj.from_numpy(array), dj.from_numpy(right)
    )

    np.testing.assert_array_equal(array @ right, found.numpy())


# -- memory that lies badly ------------------------------------------------------------------------


def misaligned(count: int, dtype: Any = np.float32, offset: int = 1) -> np.ndarray:
    """0, 1, 2, ... at an odd address."""
    raw = np.zeros(count * np.dtype(dtype).itemsize + offset, np.uint8)
    array = raw[offset:].view(dtype)
    array[:] = np.arange(count)
    return array


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int64])
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_misaligned_arrays_are_read_and_written(dtype: Any, offset: int) -> None:
    """A view of bytes; what the function writes arrives there."""

    def function(x: Any) -> Any:
        x.mul_(3)
        return (x + 1).sum(), x[2:5] * 2

    array = misaligned(40, dtype, offset)
    compiled = dj.compile(function, fullgraph=True)
    total, part = compiled(dj.from_numpy(array))

    assert 3 * 780 + 40 == total.item()
    assert [12, 18, 24] == part.tolist()
    assert [3 * i for i in range(40)] == array.tolist()


def test_misaligned_products_and_rows() -> None:
    """The library and row kernels get aligned copies."""
    assert_alike(
        lambda x: (x.reshape(8, 5) @ x.reshape(5, 8), F.softmax(x.reshape(8, 5) * 0.1, 1)),
        lambda: dj.from_numpy(misaligned(40)),
    )


def test_negative_strides_are_copied_by_programs(codegen: Any) -> None:
    """Arrays that run backwards, given to a program that was made for contiguous ones."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (array[::-1], array[:, ::-1], array[::-1, ::-1], array[::2, ::-2]):
        codegen.check(lambda x: dj.ops.TABLE.exp(x), view)


# -- arguments that share memory -------------------------------------------------------------------


def shift(x: Any) -> Any:
    """Each element plus the one before, which is written at the same time."""
    x[1:] = x[1:] + x[:-1]
    return x.sum()


def two_views(x: Any) -> Any:
    """A write through one view is seen through the other."""
    left, right = x[:-2], x[2:]
    left.mul_(10)
    right.copy_(right + left)
    return left + right


@pytest.mark.parametrize("function", [shift, two_views])
def test_overlapping_views_of_one_argument(function: Callable[..., Any]) -> None:
    """As plain execution has it, whatever order a kernel runs in."""
    assert_alike(function, lambda: dj.arange(50) * 1.0)


@pytest.mark.parametrize("places", [(0, 1), (1, 0), (0, 0), (0, 3)])
def test_overlapping_arguments(places: tuple[int, int]) -> None:
    """Two arguments that are views of one array, one of them written."""
    a, b = places

    def function(x: Any, y: Any) -> Any:
        x.add_(y * 2)
        return y + 1

    results = []
    for run in (function, dj.compile(function)):
        base = dj.arange(20) * 1.0
        out = run(base[a : a + 15], base[b : b + 15])
        results.append((out.tolist(), base.tolist()))
        run(base[:5], base[10:15])  # apart: the same function, no overlap
        results[-1] += (base.tolist(),)

    assert results[0] == results[1]


# -- values that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("operator", ["//", "%", "fmod"])
def test_integers_divided_by_zero_are_refused(dtype: str, operator: str) -> None:
    """One zero among many divisors; without it the least integer by -1 wraps."""
    function = {
        "//": lambda x, y: x // y,
        "%": lambda x, y: x % y,
        "fmod": lambda x, y: dj.fmod(x, y),
    }[operator]
    limits = np.iinfo(dtype)
    x = np.arange(100).astype(dtype)
    x[3] = limits.min
    y = np.ones(100, dtype)
    y[3] = -1 if limits.min else 255
    assert_alike(function, lambda: dj.tensor(x), lambda: dj.tensor(y))
    y[71] = 0

    with pytest.raises(DivisionError, match="division by zero"):
        dj.compile(function, fullgraph=True)(dj.tensor(x), dj.tensor(y))


REFUSED = {
    "assignment": lambda x, i: x.__setitem__(i, dj.ones(3)),
    "index_add_": lambda x, i: x.index_add_(0, i, dj.ones(3)),
    "scatter_": lambda x, i: x.scatter_(0, i, dj.ones(3)),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i, dj.ones(3)),
    "index_put_": lambda x, i: x.index_put_((i,), dj.ones(3), accumulate=True),
    "gather": lambda x, i: x.copy_(dj.cat([x[i], x[3:]])),
    "write before": lambda x, i: (x.mul_(2), x[i])[1],
}


@pytest.mark.parametrize("bad", [5, 2**40, -6])
@pytest.mark.parametrize("name", REFUSED)
def test_an_index_out_of_range_is_refused_before_any_write(name: str, bad: int) -> None:
    """The error has the value; what was written is what plain execution wrote."""
    if bad < 0 and name.startswith("scatter"):
        bad = -1  # PyTorch's scatter takes no negative indices at all
    function = REFUSED[name]
    left = []
    for run in (function, dj.compile(function)):
        x = dj.arange(5) * 1.0
        with pytest.raises(IndexError, match=str(bad)):
            run(x, dj.tensor([0, bad, 1]))
        left.append(x.tolist())

    assert left[0] == left[1]
    assert name == "write before" or left[0] == [0, 1, 2, 3, 4]
