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
