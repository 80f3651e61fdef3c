"""Tensors as values: views, in-place writes, gradients, random numbers, constants."""

# The programs under test are spelled as users spell them.

import numpy as np
import pytest

from dynajit import eager
from dynajit.ops import functions as F


def views_of_inputs(x, y):
    return x.T, x[0], x.reshape(6), y.reshape(3, 2).T, x + 1


def views_of_results(x, y):
    z = x * 2
    return z, z[0], z.T


def in_place_on_results(x, y):
    z = x * 2
    z += y
    z.mul_(3)
    z.add_(1, alpha=2) if False else z.sub_(1)
    w = z
    w /= 2
    return z, w is z


def in_place_keeps_dtype(x, y):
    z = (x * 2).to(x.dtype)
    z *= 2
    return z.zero_() + z.fill_(3.0)


def accumulating_sum(x, y):
    total = 0
    for v in (x, y, x):
        total += v.sum()
    return total


def statistics(x, y):
    return x.mean(), x.var(dim=0), y.amax(dim=1, keepdim=True), x.argmax(dim=1)


def joining(x, y):
    return F.cat([x, y], dim=1), F.stack([x, y]), x.expand(2, 2, 3)


def softmax_by_hand(x, y):
    e = F.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


def casts(x, y):
    return x.to(y.dtype), x.float() if x.dtype is y.dtype else x, (x > 0).float()


def scalar_tensor_mix(x, y):
    s = x.sum()
    return x * s + s * 2, s + 1


def identity_of_contiguous(x, y):
    z = x.contiguous()
    return z is x, z + 1


def shapes(x, y):
    sizes = x.shape, x.shape[1:], x.shape + (1,), x.size(), x.size(0), len(x)
    return x.reshape(*x.shape) + 1, sizes


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)


def test_a_returned_view_shares_memory_with_the_argument(x, compiler):
    compiled = compiler.compile(lambda x: (x[0], x + 1))
    row, _ = compiled(x)
    row.mul_(0)
    assert (x.numpy()[0] == 0).all()


def test_a_returned_view_shares_memory_with_the_returned_base(x, compiler):
    def function(x):
        z = x * 2
        return z, z[0]

    z, row = compiler.compile(function)(x)
    row.mul_(0)
    assert (z.numpy()[0] == 0).all()


def test_gradients_flow_through_the_graph(compiler):
    weight = eager.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = eager.tensor([1.0, -1.0, 2.0])
    compiled = compiler.compile(lambda v: F.relu(v * weight).sum())
    compiled(v).backward()
    assert [1.0, 0.0, 2.0] == weight.grad.numpy().tolist()


def test_requires_grad_is_known_while_capturing(compiler):
    weight = eager.tensor([1.0, 2.0], requires_grad=True)

    def function(v):
        z = v * weight
        return z.detach(), (v.requires_grad, z.requires_grad, z.detach().requires_grad,
                            (z > 0).requires_grad)  # fmt: skip

    assert (False, True, False, False) == compiler.compile(function)(eager.tensor([1.0, 2.0]))[1]


def test_random_numbers_are_those_of_eager_execution(compiler):
    def function(v):
        return v * F.rand(4) + F.rand(4), F.randn(2, 2)

    compiled = compiler.compile(function)
    v = eager.tensor([1.0, 2.0, 3.0, 4.0])
    eager.default_generator.manual_seed(7)
    expected = [function(v), function(v), F.rand(3)]
    eager.default_generator.manual_seed(7)
    actual = [compiled(v), compiled(v), F.rand(3)]
    for left, right in zip(expected[:2], actual[:2], strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    np.testing.assert_array_equal(expected[2].numpy(), actual[2].numpy())
    assert 1 == len(compiler.graphs)


def test_another_shape_dtype_or_layout_is_another_program(compiler):
    compiled = compiler.compile(lambda v: v * 2)
    array = np.ones((2, 3), np.float32)
    for variant in (array, array[:1], array.astype(np.float64), np.ones((3, 2), np.float32).T):
        v = eager.from_numpy(variant)
        np.testing.assert_array_equal((v * 2).numpy(), compiled(v).numpy())
    assert 4 == len(compiler.graphs)


def test_a_closure_tensor_is_an_input_not_a_constant(compiler):
    table = {"w": eager.tensor([1.0, 2.0])}
    compiled = compiler.compile(lambda v: v * table["w"])
    v = eager.tensor([3.0, 4.0])
    assert [3.0, 8.0] == compiled(v).numpy().tolist()
    table["w"] = eager.tensor([10.0, 10.0])
    assert [30.0, 40.0] == compiled(v).numpy().tolist()
    assert 1 == len(compiler.graphs)
