"""Layouts read from graphs are those of eager tensors."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import eager
from dynajit.capture.tensors import layouts
from dynajit.core.types import dtypes, symint
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ops import TABLE
from dynajit.ops.table import dispatch

FUNCTIONS = {
    "itself": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[:, 1:, ::2],
    "selected": lambda x: x[1],
    "selected last": lambda x: x[..., 0],
    "expanded": lambda x: x[:, :1].expand(2, 5, 4),
    "reshaped": lambda x: x.reshape(6, 4),
    "reshaped copy": lambda x: x.transpose(0, 2).reshape(12, 2),
    "with a dimension": lambda x: x.transpose(0, 1).unsqueeze(1),
    "copied": lambda x: TABLE.clone(x.transpose(0, 1)),
    "computed": lambda x: x * 2 + 1,
    "computed, transposed": lambda x: (x * 2).transpose(1, 2),
    "product": lambda x: x @ x.transpose(1, 2),
    "sum": lambda x: x.sum(dim=1),
    "mean, kept": lambda x: x.mean(dim=2, keepdim=True) + x,
    "computed, broadcast": lambda x: x[0] * x + x.transpose(1, 2).transpose(1, 2),
    "computed, of two layouts": lambda x: x + TABLE.clone(x).exp(),
    "computed, of a slice": lambda x: x[:, 1:] * 2,
    "computed, of an expansion": lambda x: x[:, :1].expand(2, 5, 4) + 1,
    "cast": lambda x: TABLE.cast(x, dtype=dtypes.int64),
    "composite": lambda x: TABLE.softmax(x, dim=1),
    "chosen": lambda x: TABLE.index(x, TABLE.clone(np.array([[0, 1, 1]])), dims=(1,)),
    "chosen in front": lambda x: x[TABLE.clone(np.array([1, 0, 1]))],
    "chosen in two dims": lambda x: x[:, :, TABLE.clone(np.array([[1, 0, 1], [2, 2, 0]]))],
    "chosen apart": lambda x: x[TABLE.clone(np.array([1, 0])), :, TABLE.clone(np.array([1, 3]))],
    "chosen by a number": lambda x: x[:, TABLE.clone(np.array(1))],
    "chosen by a number, computed": lambda x: x[TABLE.clone(np.array(1))] * 2,
    "attention": lambda x: dj.nn.functional.scaled_dot_product_attention(x, x * 2, x),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[::2])
def test_strides_are_those_of_eager_tensors(name, order):
    """For arguments of several layouts; an unknown layout is None, never a wrong one."""
    sizes = (2, 3, 4)
    start = eager.tensor([0.0]).expand(24).clone()
    stored = start.reshape(*(sizes[d] for d in order))
    argument = stored.permute(*(order.index(d) for d in range(3)))
    expected = FUNCTIONS[name](argument)
    builder = Builder("layouts")
    kind = TensorType(sizes, argument.dtype, strides=tuple(argument.stride()))
    placeholder = builder.placeholder("x", kind)
    with dispatch.recording(builder.handle):
        node = FUNCTIONS[name](placeholder).node
    found = layouts.strides_of(node)

    assert found is not None
    assert expected.is_contiguous() == layouts.is_contiguous(node)
    relevant = [d for d, size in enumerate(expected.shape) if size != 1]
    assert [expected.stride(d) for d in relevant] == [found[d] for d in relevant]


def test_where_a_view_is_possible():
    """As PyTorch decides it."""
    assert (6, 3, 1) == layouts.reshaped_strides((2, 6), (6, 1), (2, 2, 3))
    assert layouts.reshaped_strides((2, 3), (1, 2), (6,)) is None
    assert (1, 2, 2) == layouts.reshaped_strides((2, 3), (1, 2), (2, 3, 1))
    assert (0,) == layouts.reshaped_strides((2, 3), (0, 0), (6,))
    assert (3, 1) == layouts.reshaped_strides((0, 3), (1, 7), (0, 3))
    assert (1,) == layouts.reshaped_strides((), (), (1,))
    assert () == layouts.reshaped_strides((1, 1), (5, 5), ())


def test_running_sums_of_a_turned_tensor_lie_row_by_row() -> None:
    """As in PyTorch; asked for inside a region and afterwards."""

    def running(x):
        found = x.t().cumsum(0), x.t().cumprod(1)
        return found, [t.stride() for t in found]

    for function in (running, dj.compile(running, fullgraph=True, backend="numpy")):
        found, inside = function(dj.ones(3, 4))
        assert [t.stride() for t in found] == inside == [(3, 1), (3, 1)]


PARTS = {
    "every second": lambda x: (x + 1)[::2],
    "a column": lambda x: (x + 1)[:, 1],
    "rows": lambda x: (x + 1)[1:],
    "a row of a turned one": lambda x: (x.t() + 1)[0],
    "rows of a turned one": lambda x: (x.t() + 1)[1:],
    "turned rows": lambda x: (x + 1)[1:].t(),
    "an inner block": lambda x: (x + 1)[1:, 1:3],
    "repeated": lambda x: (x[0] * 2).expand(3, 4),
    "one of many": lambda x: (x * 2).expand(2, 3, 4)[1],
    "of a reduction": lambda x: x.sum(1)[::2],
    "windows": lambda x: (x * 2).reshape(-1).unfold(0, 4, 3),
}


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_result_has_the_strides_of_eager_execution(name, backend) -> None:
    """With and without gradients; values, too."""
    compiled = dj.compile(PARTS[name], fullgraph=True, backend=backend, dynamic=False)
    for needs in (False, True):
        x = dj.arange(12.0).reshape(3, 4).requires_grad_(needs)
        expected, actual = PARTS[name](x), compiled(x)
        assert expected.stride() == actual.stride()
        assert expected.tolist() == actual.tolist()
        assert expected.is_contiguous() == actual.is_contiguous()
        if needs:
            (grad,) = dj.autograd.grad(expected.sum() * 3, [x])
            (found,) = dj.autograd.grad(actual.sum() * 3, [x])
            assert grad.tolist() == found.tolist()


def test_the_strides_of_a_part_at_a_symbolic_place_are_known() -> None:
    """They do not depend on the place."""
    place = symint.symbol("s0", 0, 2)

    found = layouts.strides_after(TABLE.select, {"dim": 0, "index": place}, (3, 4), (4, 1), (4,))
    assert found == (1,)


def test_elements_are_taken_in_a_comprehension_that_breaks() -> None:
    """The place becomes a symbol when the rest of the comprehension is compiled again."""

    def gradients(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        squares = (leaf * leaf).reshape(-1)
        return [
            dj.autograd.grad(squares[i], leaf, retain_graph=True)[0].tolist()
            for i in range(squares.shape[0])
        ]

    x = dj.tensor([0.5, 1.0, 2.0, 4.0])
    assert gradients(x) == dj.compile(gradients)(x)
