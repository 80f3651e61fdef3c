"""Parameters and tensors of derived classes that captured code makes of tensors."""

import copy

import pytest

import dynajit as dj
from dynajit import nn


class Named(dj.Tensor):
    pass


class Labelled(dj.Tensor):
    def __new__(cls, data, label):
        return dj.Tensor._make_subclass(cls, data)

    def __init__(self, data, label):
        self.label = label


def of_an_argument(x):
    return nn.Parameter(x)


def without_gradient(x):
    made = nn.Parameter(x, requires_grad=False)
    return made * 2, isinstance(made, nn.Parameter), made.requires_grad, made


def of_a_result(x):
    made = nn.Parameter(x + 1)
    return made, made.requires_grad, made.is_leaf, made.grad, made.shape


def filled_by_an_initializer(x):
    made = nn.Parameter(dj.empty(2, 3))
    nn.init.constant_(made, 4.0)
    return made


def kept_in_a_module(x):
    module = nn.Module()
    module.weight = nn.Parameter(x * 2)
    return module.weight, [name for name, _ in module.named_parameters()]


def under_no_grad(x):
    with dj.no_grad():
        made = nn.Parameter(x)
        return made, made * 2


def written_afterwards(x):
    made = nn.Parameter(x)
    x.add_(1)
    return made, x


def of_a_parameter(x):
    first = nn.Parameter(x)
    second = nn.Parameter(first.data)
    return first, second, first is second


def of_derived_classes(x):
    made = Labelled(x, 3)
    return Named(x), Named(x) * 2, made, made.label, made + 1


def copied(x):
    return copy.copy(x) + 1, copy.deepcopy(x).add_(1), x


FUNCTIONS = [
    of_an_argument, without_gradient, of_a_result, filled_by_an_initializer, kept_in_a_module,
    under_no_grad, written_afterwards, of_a_parameter, of_derived_classes, copied,
]  # fmt: skip


def described(found):
    if isinstance(found, (tuple, list)):
        return [described(item) for item in found]
    if not isinstance(found, dj.Tensor):
        return found
    return type(found), found.tolist(), found.requires_grad, found.is_leaf


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_made_is_as_in_eager_execution(function):
    compiled = dj.compile(function, fullgraph=True)
    for start in (1.0, 2.0):
        expected, actual = (dj.full((2, 3), start) for _ in range(2))
        assert described(function(expected)) == described(compiled(actual))
        assert expected.tolist() == actual.tolist()


def test_a_parameter_shares_the_memory_and_gets_gradients():
    compiled = dj.compile(of_an_argument, fullgraph=True)
    x = dj.ones(3)
    first, second = compiled(x), compiled(x)
    assert first is not second
    x.add_(1)
    assert [2, 2, 2] == first.tolist() == second.tolist()
    (first * first).sum().backward()
    assert [4, 4, 4] == first.grad.tolist()
    assert second.grad is None


def test_what_needs_its_gradient_at_once_is_a_graph_of_its_own():
    def loss(x):
        made = nn.Parameter(x * 2)
        return made, (made * made).sum()

    compiled = dj.compile(loss)
    for _ in range(2):
        made, total = compiled(dj.ones(3))
        total.backward()
        assert [4, 4, 4] == made.grad.tolist()


def used_at_once(x):
    made = nn.Parameter(x)
    return made, (made * made).sum()


def two_of_one(x):
    first, second = nn.Parameter(x), nn.Parameter(x)
    return first, (first * second * 3).sum(), second, first is second, first.is_leaf, first.grad


def used_and_written(x):
    made = nn.Parameter(x)
    total = (made * 2).sum()
    x.add_(1)
    return made, total


@pytest.mark.parametrize("function", [used_at_once, two_of_one, used_and_written])
def test_gradients_reach_a_parameter_that_is_made_of_an_argument(function):
    compiled = dj.compile(function, fullgraph=function is not used_and_written)
    for shape in ((2, 3), (2, 3), (4, 3)):
        expected, actual = dj.full(shape, 2.0), dj.full(shape, 2.0)
        wanted, found = function(expected), compiled(actual)
        for result in (wanted, found):
            result[1].backward()
        assert described(wanted) == described(found)
        assert wanted[0].grad.tolist() == found[0].grad.tolist()
        actual.add_(1)
        assert actual.tolist() == found[0].tolist()
