"""`Tensor(...)` and the older classes by element type, in captured code."""

import operator

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry import session

FUNCTIONS = {
    "data": lambda x: x + dj.Tensor([1, 2, 3]),
    "nested data": lambda x: x + dj.FloatTensor([[1, 2, 3], [4, 5, 6]]),
    "integers": lambda x: x[dj.LongTensor([1, 0])],
    "tuple": lambda x: x * dj.DoubleTensor((1.5, 2, 3)),
    "booleans": lambda x: x.masked_fill(dj.BoolTensor([True, False, True]), 0),
    "sizes": lambda x: x * dj.Tensor(2, 3).fill_(2.0),
    "varying sizes": lambda x: x * dj.FloatTensor(x.shape[0], 1).zero_(),
    "a size": lambda x: x + dj.Tensor(x.size()).fill_(1),
    "new_tensor": lambda x: x * x.new_tensor([1, 2, 3]) + x.new_tensor(0.5, dtype=dj.float64),
    "new_tensor of sizes": lambda x: x * x.new_tensor(x.shape[0]),
    "nothing": lambda x: dj.cat([x.flatten(), dj.Tensor()]),
    "variable": lambda x: x + dj.autograd.Variable(dj.Tensor(2, 1).fill_(1.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_graph_breaks_and_the_result_is_that_of_eager_execution(name: str) -> None:
    function = FUNCTIONS[name]
    x = dj.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    expected, found = function(x), dj.compile(function, fullgraph=True)(x)
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_every_call_makes_a_tensor_of_its_own() -> None:
    compiled = dj.compile(lambda x: (x + 1, dj.Tensor([1.0, 2.0])), fullgraph=True)
    first, second = compiled(dj.ones(2))[1], compiled(dj.ones(2))[1]
    first.zero_()
    np.testing.assert_array_equal(second, [1, 2])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: dj.Tensor(x),
        lambda x: dj.Tensor(np.ones(2, np.float32)) + x,
        lambda x: dj.Tensor([1.0, 2.0], requires_grad=True) + x,
    ],
)
def test_other_data_is_left_to_eager_execution(function) -> None:
    x = dj.ones(2)
    assert session.capture(function, (x,)).breaks
    np.testing.assert_array_equal(dj.compile(function)(x).detach(), function(x).detach())


def test_sizes_are_added_multiplied_and_broadcast_as_sizes() -> None:
    """`(1,) + x.shape`, `numel` and `broadcast_shapes` give what eager execution gives."""

    def function(x, y):
        both = dj.broadcast_shapes(x.shape[:-1], y.shape[:-1])
        longer = operator.add((1,), x.shape)
        return x * both.numel() + longer.numel(), both, longer, dj.broadcast_shapes((2,), (1,))

    operands = dj.ones(2, 1, 3), dj.ones(4, 1)
    expected = function(*operands)
    assert [dj.Size, dj.Size, tuple] == [type(shape) for shape in expected[1:]]
    for dynamic in (None, True):
        actual = dj.compile(function, fullgraph=True, dynamic=dynamic)(*operands)
        assert expected[1:] == actual[1:]
        assert [type(shape) for shape in expected[1:]] == [type(shape) for shape in actual[1:]]
        assert expected[0].tolist() == actual[0].tolist()


# -- of tensors, with `new`, and what is asked of layouts ------------------------------------------

OF_TENSORS = {
    "numbers of it": lambda x: dj.tensor([x[0, 0], x[1, 1]]),
    "nested, with numbers": lambda x: dj.tensor([[x[0, 0], 2], [x[1, 1], x[0, 2]]]),
    "integers": lambda x: dj.tensor([[x[0, 0].long(), 2], [x[1, 1].long(), 5]]),
    "two floating dtypes": lambda x: dj.tensor([x[0, 0].double(), 2.0]),
    "integers and floats": lambda x: dj.tensor([x[0, 0].long(), 2.5]),
    "booleans": lambda x: dj.tensor((x.sum().bool(), True)),
    "another dtype": lambda x: dj.tensor([x[0, 0], x[1, 1]], dtype=dj.int64),
    "a size": lambda x: dj.tensor([x.sum(), x.shape[0]]),
    "a copy": lambda x: dj.tensor(x.detach()).add_(1),
    "a copy of another dtype": lambda x: dj.tensor(x.detach(), dtype=dj.float64),
    "new of sizes": lambda x: x.new(2, 3).fill_(2) + x.detach(),
    "new of a shape": lambda x: x.new(x.shape).zero_(),
    "new of data": lambda x: x.long().new([1, 2]),
    "new of nothing": lambda x: x.new(),
    "row-major": lambda x: x.is_contiguous(memory_format=dj.contiguous_format),
    "turned": lambda x: x.t().is_contiguous(memory_format=dj.preserve_format),
    "channels last, not": lambda x: x.reshape(1, 3, 2, 1).is_contiguous(dj.channels_last),
    "channels last": lambda x: (
        x.reshape(1, 3, 2, 1)
        .to(memory_format=dj.channels_last)
        .is_contiguous(memory_format=dj.channels_last)
    ),
    "of another rank": lambda x: x.is_contiguous(memory_format=dj.channels_last),
    "a stride": lambda x: (x.stride(dim=0), x.t().stride(-1)),
    "a view": lambda x: x.detach().view(size=(3, 2)),
}


@pytest.mark.parametrize("name", OF_TENSORS)
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_what_is_made_of_tensors_is_as_in_eager_execution(name, needs_gradient):
    make = OF_TENSORS[name]
    compiled = dj.compile(make, fullgraph=True)
    for start in (0.0, 1.0):
        x = (dj.arange(6.0) + start).reshape(2, 3).requires_grad_(needs_gradient)
        assert repr(make(x)) == repr(compiled(x))
