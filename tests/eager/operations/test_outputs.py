"""Writing results into `out=`: what is resized, cast, refused and counted, as PyTorch has it."""

import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, DTypeError, UnsupportedError

torch = pytest.importorskip("torch")


def test_out_is_returned_and_its_version_counts_one_write() -> None:
    for t in (torch, dj):
        out = t.zeros(3)
        assert t.exp(t.zeros(3), out=out) is out
        assert out.tolist() == [1.0, 1.0, 1.0]
        assert out._version == 1
        grown = t.empty(0)
        assert t.cat([out, out], out=grown) is grown
        assert tuple(grown.shape) == (6,)
        assert grown._version == 1


def test_another_shape_is_taken_with_a_warning_unless_out_is_empty() -> None:
    for t in (torch, dj):
        out = t.zeros(2)
        with pytest.warns(UserWarning, match="resized"):
            t.add(t.ones(2, 3), 1, out=out)
        assert out.tolist() == [[2.0] * 3] * 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            t.add(t.ones(2, 3), 1, out=t.empty(0))
            t.zeros(4, out=out)  # makes a tensor
        assert out.tolist() == [0.0] * 4


def test_views_are_written_where_they_lie() -> None:
    for t in (torch, dj):
        base = t.zeros(3, 2)
        t.mul(t.ones(2, 3), 2, out=base.t())
        t.sum(t.ones(2, 3), 1, out=base[0])
        assert base.tolist() == [[3.0, 3.0], [2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(UnsupportedError, match="view"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dj.ones(4, out=dj.zeros(4)[2:])  # no room


def test_out_may_be_an_operand() -> None:
    for t in (torch, dj):
        x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
        t.add(x, x, out=x)
        assert x.tolist() == [[2.0, 4.0], [6.0, 8.0]]
        t.exp(t.zeros(2), out=x[0])
        assert x.tolist() == [[1.0, 1.0], [6.0, 8.0]]
    x = dj.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert dj.matmul(x, x, out=x).tolist() == [[7.0, 10.0], [15.0, 22.0]]


def test_results_are_cast_up_in_category_only() -> None:
    for t in (torch, dj):
        assert t.add(t.ones(2), 1, out=t.zeros(2, dtype=t.float64)).dtype is t.float64
        assert t.eq(t.ones(2), 1, out=t.zeros(2)).tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="can't be cast"):
            t.add(t.ones(2), 1, out=t.zeros(2, dtype=t.int64))
        with pytest.raises(RuntimeError):
            t.mm(t.ones(2, 2), t.ones(2, 2), out=t.zeros(2, 2, dtype=t.float64))
        with pytest.raises(RuntimeError):
            t.sort(t.ones(2), out=(t.zeros(2, dtype=t.float64), t.zeros(2, dtype=t.int64)))
    with pytest.raises(DTypeError):
        dj.argmax(dj.ones(2), out=dj.zeros(()))


def test_sums_are_computed_in_the_dtype_of_out() -> None:
    values = [16777216.0, 1.0, 1.0]
    for t in (torch, dj):
        x = t.tensor(values)
        assert t.sum(x, 0, out=t.zeros((), dtype=t.float64)).item() == 16777218.0
        assert t.cumsum(x, 0, out=t.zeros(3, dtype=t.float64))[-1].item() == 16777218.0
        assert t.sum(t.tensor([1.5, 1.6]), 0, out=t.zeros((), dtype=t.int64)).item() == 2


def test_several_results_are_written_into_a_tuple() -> None:
    for t in (torch, dj):
        values, indices = t.empty(0), t.empty(0, dtype=t.int64)
        found = t.max(t.tensor([[1.0, 5.0], [7.0, 2.0]]), 1, out=(values, indices))
        assert found.values is values
        assert found[1] is indices
        assert values.tolist() == [5.0, 7.0]
        assert indices.tolist() == [1, 0]
        t.topk(t.tensor([1.0, 3.0, 2.0]), 2, out=[values, indices])
        assert values.tolist() == [3.0, 2.0]


def test_nothing_is_recorded() -> None:
    for t in (torch, dj):
        x, out = t.ones(3, requires_grad=True), t.zeros(3)
        for refused in (
            lambda t, x, out: t.exp(x, out=out),
            lambda t, x, out: t.exp(out, out=x),
            lambda t, x, out: t.cat([out, x], out=t.empty(0)),
            lambda t, x, out: t.sort(x, out=(out, t.empty(0, dtype=t.int64))),
            lambda t, x, out: t.ones(3, out=x),
        ):
            with pytest.raises(RuntimeError):
                refused(t, x, out)
        assert out.tolist() == [0.0] * 3
        assert t.eq(x, 1, out=t.zeros(3, dtype=t.bool if t is torch else t.bool_)).all()
        assert t.argmax(x, out=t.zeros((), dtype=t.int64)).item() == 0
        with t.no_grad():
            assert not t.exp(x, out=out).requires_grad
            t.mul(out, 2, out=x)
        assert x.requires_grad
        assert x.is_leaf
        x.sum().backward()
    with pytest.raises(AutogradError, match="automatic differentiation"):
        dj.exp(dj.ones(3, requires_grad=True), out=dj.zeros(3))


def test_what_backward_needs_is_not_overwritten_unseen() -> None:
    for t in (torch, dj):
        x, y = t.ones(3, requires_grad=True), t.full((3,), 2.0)
        product = (x * y).sum()
        t.zeros(3, out=y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_overlapping_and_read_only_memory_is_refused() -> None:
    for t in (torch, dj):
        with pytest.raises(RuntimeError, match="single memory location"):
            t.exp(t.zeros(3), out=t.zeros(1).expand(3))
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frozen = dj.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        dj.exp(dj.zeros(3), out=frozen)


def test_autocast_does_not_cast_what_goes_into_out() -> None:
    for t in (torch, dj):
        with t.autocast("cpu", dtype=t.bfloat16):
            out = t.mm(t.ones(2, 2), t.ones(2, 2), out=t.zeros(2, 2))
        assert out.dtype is t.float32
